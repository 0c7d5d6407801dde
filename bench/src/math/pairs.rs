//! The pairs that are judged.

use anyhow::{Context, Result};
use evenkeel_math::{CheckInput, Gold, Profile, Rules, Verdict, check};
use serde::Deserialize;

/// A row of the input.
#[derive(Debug, Deserialize)]
struct PairRow {
    set: String,
    kind: String,
    gold: String,
    answer: String,
    #[serde(default)]
    completion: bool,
    #[serde(default)]
    profile: Profile,
    /// The task's text, against which copies are refused.
    prompt: Option<String>,
}

/// A gold answer and what is judged against it.
#[derive(Debug)]
pub(crate) struct Pair {
    /// What it is counted with.
    pub(crate) group: String,
    gold: String,
    answer: String,
    completion: bool,
    rules: Rules,
    prompt: Option<String>,
}

/// The pairs of a file of JSON lines.
pub(crate) fn read(file: &str) -> Result<Vec<Pair>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let rows = text.lines().enumerate().map(|(index, line)| {
        let PairRow { set, kind, gold, answer, completion, profile, prompt } =
            serde_json::from_str(line).with_context(|| format!("line {} of {file}", index + 1))?;
        Ok(Pair { group: format!("{set} {kind}"), gold, answer, completion, rules: profile.rules(), prompt })
    });
    rows.collect()
}

impl Pair {
    /// The verdict, with everything that it takes: reading both sides and comparing them.
    pub(crate) fn check(&self) -> Verdict<'_> {
        let submission =
            if self.completion { CheckInput::Completion(&self.answer) } else { CheckInput::Extracted(&self.answer) };
        if let Some(prompt) = &self.prompt
            && let Ok(gold) = Gold::read(&self.gold, &self.rules)
        {
            return gold.check_for(Some(prompt), submission, &self.rules);
        }
        check(&self.gold, submission, &self.rules)
    }
}
