//! A line of the receipt, and the heads of the chain after it.

use std::collections::BTreeMap;

use evenkeel_host::sha256;
use serde::{Deserialize, Serialize};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// A GRPO step is done.
    Step,
    /// A process begins or resumes the run after that many steps.
    Start,
    /// A checkpoint after them is on the disk.
    Checkpoint,
    /// The run ends there.
    End,
}

impl LineKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Start => "start",
            Self::Checkpoint => "checkpoint",
            Self::End => "end",
        }
    }
}

/// A line of `receipt.jsonl`. All digests are `sha256:` and 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptLine {
    /// GRPO steps that are done.
    pub step: u64,
    pub kind: LineKind,
    /// What seed and inputs decide; in the first line of a run and in those of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub determined: Option<Determined>,
    pub observed: Observed,
    /// The heads of both chains after this line.
    pub heads: Heads,
}

/// The heads of the two chains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// Head of the determined part: equal for two honest runs of one seed.
    pub determined: String,
    /// Head of all of it.
    pub whole: String,
}

/// What seed and inputs decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Determined {
    /// Version and bits of the program, as [`PROGRAM`](crate::PROGRAM) has them.
    pub program: String,
    /// Digest of the settings that decide bits.
    pub settings: String,
    /// Digest of the files that the run reads.
    pub inputs: String,
    /// Version of the weights after the step, and the digest of them as published.
    pub version: u64,
    pub weights: String,
    /// What the step was made of; absent in the first line of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<StepContent>,
}

/// Digests of what a step was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepContent {
    /// How many groups and samples there were, filtered ones included.
    pub groups: u64,
    pub samples: u64,
    pub prompts: String,
    pub tokens: String,
    pub verdicts: String,
    pub advantages: String,
}

impl StepContent {
    /// The parts in which another content differs.
    pub(crate) fn differing(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("prompts", self.prompts == other.prompts && self.groups == other.groups),
            ("tokens", self.tokens == other.tokens),
            ("verdicts", self.verdicts == other.verdicts),
            ("advantages", self.advantages == other.advantages),
        ];
        parts.into_iter().filter(|(_, is_equal)| !is_equal).map(|(name, _)| name).collect()
    }
}

/// What only this run saw. It has no address, path or secret, since it is published with the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Digests of the run's files at a start, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Versions of the services at a start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, String>,
    /// Changes of inputs that were accepted before a start, as `inputs.json` has them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accepted_changes: u64,
    /// Where a forked run begins, in its first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Steps whose samples are not kept any more, for want of room; all of them at a start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thinned: Vec<u64>,
    /// Digest of the step's line in `metrics.jsonl`, without the line break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Digest of the step's line in `prompts.jsonl`, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<String>,
    /// Digest of the step's file of rollouts; absent where that was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<String>,
    /// Digests of lines in `evaluation.jsonl` that are in no line of the receipt before, by their steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evaluations: BTreeMap<u64, String>,
    /// Number of engines that sampled the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<u64>,
    /// What was verified of the engines' weights in a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofSeen>,
    /// What the sampler audit scored in a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSeen>,
    /// Digest of a checkpoint's `state.json`, which has those of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// How the run ended: completed, stopped or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// The step of another run with which a forked run begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// Name of the other run.
    pub run_id: String,
    /// Heads of that run after the step; absent where it has no receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<Heads>,
}

/// A proof of the engines' weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofSeen {
    pub engines: u64,
    /// Ways in which weights may be wrong, and how many of them are ruled out.
    pub suspicions: u64,
    pub excluded: u64,
}

/// An audit of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSeen {
    /// Samples that were scored.
    pub samples: u64,
    /// Chosen samples that could not be.
    pub missing: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ReceiptLine {
    /// The line that follows these heads.
    pub fn after(
        previous: &Heads,
        step: u64,
        kind: LineKind,
        determined: Option<Determined>,
        observed: Observed,
    ) -> Self {
        let mut line = Self { step, kind, determined, observed, heads: Heads::default() };
        line.heads = line.heads_after(previous);
        line
    }

    /// The heads that it has after those of the line before.
    pub fn heads_after(&self, previous: &Heads) -> Heads {
        let what = format!("{} {}", self.kind.name(), self.step);
        let determined = match &self.determined {
            None => previous.determined.clone(),
            Some(part) => sha256(format!("{}\n{what}\n{}", previous.determined, json(part))),
        };
        let whole = sha256(format!("{}\n{determined}\n{what}\n{}", previous.whole, json(&self.observed)));
        Heads { determined, whole }
    }

    /// The line without its line break.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// Reads a line; `None` for any other text, also for one that this program would write in another way.
    pub fn from_json(text: &str) -> Option<Self> {
        let line: Self = serde_json::from_str(text).ok()?;
        (line.to_json() == text.trim_end_matches('\n')).then_some(line)
    }

    /// The heads before the first line of a run.
    pub fn heads_before(&self) -> Heads {
        self.observed.parent.as_ref().and_then(|parent| parent.heads.clone()).unwrap_or_default()
    }

    /// Whether a run goes on there that had done steps of its own.
    pub(crate) fn resumes(&self) -> bool {
        self.kind == LineKind::Start && self.step > 0 && self.observed.parent.is_none()
    }

    /// Where it stands in its file: lines are in this order.
    pub(crate) fn place(&self) -> u64 {
        place(self.step, self.kind)
    }
}

/// The place of a line of that kind after so many steps.
pub(super) fn place(step: u64, kind: LineKind) -> u64 {
    step.saturating_mul(4).saturating_add(kind as u64)
}

/// Whether that is the place of a step's own line.
pub(super) fn is_of_step(place: u64) -> bool {
    place % 4 == LineKind::Step as u64
}

/// Lines as the file has them.
pub fn receipt_text(lines: &[ReceiptLine]) -> String {
    lines.iter().map(|line| line.to_json() + "\n").collect()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and texts can be serialized")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn determined(weights: &str) -> Determined {
        let [program, settings, inputs] = ["1.0.0", "sha256:1", "sha256:2"].map(str::to_owned);
        Determined { program, settings, inputs, version: 4, weights: weights.to_owned(), content: None }
    }

    /// The head as someone computes it who has only the page of the manual.
    #[test]
    fn heads_are_those_of_the_documented_encoding() {
        let first =
            ReceiptLine::after(&Heads::default(), 0, LineKind::Start, Some(determined("a")), Observed::default());
        let part = r#"{"program":"1.0.0","settings":"sha256:1","inputs":"sha256:2","version":4,"weights":"a"}"#;
        assert_eq!(first.heads.determined, sha256(format!("\nstart 0\n{part}")));
        assert_eq!(first.heads.whole, sha256(format!("\n{}\nstart 0\n{{}}", first.heads.determined)));
        let observed = Observed { checkpoint: Some("sha256:3".to_owned()), ..Observed::default() };
        let second = ReceiptLine::after(&first.heads, 2, LineKind::Checkpoint, None, observed);
        assert_eq!(second.heads.determined, first.heads.determined, "it has no determined part");
        let whole =
            format!("{}\n{}\ncheckpoint 2\n{{\"checkpoint\":\"sha256:3\"}}", first.heads.whole, first.heads.determined);
        assert_eq!(second.heads.whole, sha256(whole));
        assert!(first.place() < second.place());
    }

    #[test]
    fn what_was_observed_does_not_touch_the_determined_head() {
        let heads_with = |engines| {
            let observed = Observed { engines: Some(engines), ..Observed::default() };
            ReceiptLine::after(&Heads::default(), 1, LineKind::Step, Some(determined("a")), observed).heads
        };
        assert_eq!(heads_with(1).determined, heads_with(2).determined);
        assert_ne!(heads_with(1).whole, heads_with(2).whole);
    }

    #[test]
    fn a_line_is_read_back_and_in_no_other_form() {
        let observed = Observed { evaluations: BTreeMap::from([(3, "sha256:4".to_owned())]), ..Observed::default() };
        let line = ReceiptLine::after(&Heads::default(), 3, LineKind::Step, Some(determined("a")), observed);
        let text = line.to_json();
        assert_eq!(ReceiptLine::from_json(&text), Some(line));
        assert_eq!(ReceiptLine::from_json(&text.replace("\"step\":3", "\"step\": 3")), None);
        assert_eq!(ReceiptLine::from_json(&text.replacen("{", "{\"more\":1,", 1)), None);
    }
}
