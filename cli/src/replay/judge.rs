//! Re-judging: recorded answers against another verifier, profile, policy or reward file.

use std::path::Path;

use anyhow::{Result, bail};
use evenkeel_orchestrator::{JudgedAgain, Repeats, VerifierSettings};
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::one_line;
use evenkeel_recipe::Recipe;
use evenkeel_run::{PromptOutcome, list_rollouts, read_rollouts, thinned_rollouts};
use serde_json::json;

use super::RecordedFiles;
use super::judges::Judges;
use super::steps::StepRange;
use crate::arguments::ReplayOptions;
use crate::columns::aligned;
use crate::terminal::{note, print_line, print_result};

/// Name of the verifier that `--verifier FILE.py` declares.
const OWN: &str = "replay";

/// Characters of a prompt or an answer in the table.
const SHOWN: usize = 40;

/// Judges the answers of all steps and prints what changed. Returns whether nothing did.
pub(super) async fn judge(
    run: RecordedFiles,
    settings: Vec<String>,
    steps: StepRange,
    options: &ReplayOptions,
) -> Result<bool> {
    run.require_unchanged(&run.changed_data)?;
    let is_of_prompts = |change: &&String| !change.starts_with("weights ");
    run.require_unchanged(&run.changed_model.iter().filter(is_of_prompts).cloned().collect::<Vec<_>>())?;
    let mut recipe = evenkeel_recipe::finish(run.record.settings()?, &settings)?.settings;
    if let Some(verifier) = &options.verifier {
        judge_all_with(&mut recipe, verifier)?;
    }
    if let Some(judge) = &mut recipe.reward.judge {
        // What the judge said is in the record of the run, which is read and never written.
        if !settings.iter().any(|setting| setting.trim_start().starts_with("reward.judge.")) {
            judge.record_only = true;
        } else if !judge.record_only && judge.records.is_none() {
            let allowed = "a folder for what another judge says (--set reward.judge.records=DIR), since a replay writes \
                nothing to the run; or reward.judge.record_only = true";
            return Err(FieldError::missing("reward.judge.records", allowed).into());
        }
    }
    let judges = Judges::start(recipe, &run.record.path, Repeats::All).await?;
    let kept = list_rollouts(&run.record.path)?;
    let thinned = thinned_rollouts(&run.record.path)?;
    let asked = steps.among(run.record.steps.iter().map(|line| line.step))?;
    let (there, missing): (Vec<u64>, Vec<u64>) = asked.into_iter().partition(|step| kept.contains_key(step));
    if let Some(step) = missing.first() {
        let why = if thinned.contains(step) { "thinned out (run.rollouts_disk)" } else { "not there (run.rollouts)" };
        let words = format!("the rollouts of step {step} are {why}, and those of {} more steps", missing.len() - 1);
        if steps.is_named {
            bail!(words);
        }
        note(&format!("note: {words}"));
    }
    if there.is_empty() {
        bail!("run `{}` has no rollouts of these steps", run.record.run_id);
    }
    let mut report = Report { json: options.json, limit: options.limit, ..Report::default() };
    for step in there {
        let judged = judges.judge(read_rollouts(&run.record.path, step)?).await?;
        report.step(step, &judged);
    }
    report.finish()
}

/// Judges all answers with a verifier of the run, a built-in one or a Python file.
fn judge_all_with(recipe: &mut Recipe, verifier: &str) -> Result<(), FieldError> {
    let path = Path::new(verifier);
    let data = &mut recipe.data;
    if path.extension().is_some_and(|extension| extension == "py") {
        let found = format!("{verifier}, which does not exist");
        FieldError::ensure(path.exists(), "--verifier", found, "a Python file with reward functions")?;
        let settings = VerifierSettings { path: Some(path.to_owned()), ..VerifierSettings::default() };
        data.verifiers = [(OWN.to_owned(), settings)].into();
        OWN.clone_into(&mut data.verifier);
    } else {
        let is_known = ["math", "code"].contains(&verifier) || data.verifiers.contains_key(verifier);
        let known: Vec<&str> = ["math", "code"].into_iter().chain(data.verifiers.keys().map(String::as_str)).collect();
        let allowed = format!("a Python file, or one of {}", known.join(", "));
        FieldError::ensure(is_known, "--verifier", format_args!("{verifier:?}"), allowed)?;
        data.verifiers.retain(|name, _| name == verifier);
        verifier.clone_into(&mut data.verifier);
    }
    data.sources.iter_mut().for_each(|source| source.verifier.clear());
    Ok(())
}

/// What changed, as it is printed.
#[derive(Default)]
struct Report {
    json: bool,
    limit: usize,
    changes: Vec<Vec<String>>,
    steps: Vec<Vec<String>>,
    samples: usize,
    changed: usize,
    not_judged: usize,
}

impl Report {
    fn step(&mut self, step: u64, judged: &[JudgedAgain]) {
        let changes: Vec<&JudgedAgain> = judged.iter().filter(|judged| judged.is_changed()).collect();
        let (before, after) = mean_rewards(judged);
        self.samples += judged.len();
        self.changed += changes.len();
        let not_judged = judged.iter().filter(|judged| !judged.is_changed() && !judged.has_both_verdicts()).count();
        self.not_judged += not_judged;
        if self.json {
            changes.iter().for_each(|judged| print_line(&line(judged)));
            let values = json!({
                "kind": "step", "step": step, "samples": judged.len(), "changed": changes.len(),
                "not_judged": not_judged, "recorded_reward": before, "reward": after,
            });
            print_line(&values.to_string());
            return;
        }
        let room = self.limit.saturating_sub(self.changes.len());
        self.changes.extend(changes.iter().take(room).map(|judged| row(judged)));
        if !changes.is_empty() {
            let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
            let change =
                before.zip(after).map_or_else(|| "–".to_owned(), |(before, after)| format!("{:+.4}", after - before));
            let counts = [step.to_string(), judged.len().to_string(), changes.len().to_string()];
            self.steps.push(counts.into_iter().chain([number(before), number(after), change]).collect());
        }
    }

    /// Prints the tables. Returns whether nothing changed.
    fn finish(self) -> Result<bool> {
        let Self { json, changes, steps, samples, changed, not_judged, .. } = self;
        if !json {
            let mut text = String::new();
            if changed > 0 {
                let header = ["step", "prompt", "answer", "recorded", "now", "reason", "reward", "now"];
                text += &aligned(&with_header(&header, &changes));
                if changes.len() < changed {
                    text += &format!("and {} more (--limit shows more)\n", changed - changes.len());
                }
                let header = ["step", "samples", "changed", "mean reward", "now", "change"];
                text += &format!("\n{}\n", aligned(&with_header(&header, &steps)));
            }
            if not_judged > 0 {
                text += &format!(
                    "{not_judged} samples were not compared: they have no answer, or no verdict then or now\n"
                );
            }
            text += &format!("{changed} of {samples} verdicts changed\n");
            print_result(&text)?;
        }
        Ok(changed == 0)
    }
}

fn with_header(header: &[&str], rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let header = header.iter().map(|title| (*title).to_owned()).collect();
    std::iter::once(header).chain(rows.iter().cloned()).collect()
}

fn row(judged: &JudgedAgain) -> Vec<String> {
    let JudgedAgain { rollout, verdict, reason, reward, .. } = judged;
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value}"));
    vec![
        rollout.step.to_string(),
        one_line(&rollout.prompt, SHOWN).into(),
        // The end of an answer has what was judged.
        one_line(tail(&rollout.text), SHOWN).into(),
        rollout.verdict.label().to_owned(),
        verdict.clone(),
        reason.clone(),
        number(rollout.reward),
        number(*reward),
    ]
}

/// The end of a text, on a boundary of characters.
fn tail(text: &str) -> &str {
    let text = text.trim_end();
    let first = text.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
    &text[first..]
}

fn line(judged: &JudgedAgain) -> String {
    let JudgedAgain { rollout, verdict, reason, detail, extracted, reward, shaped_reward, .. } = judged;
    let recorded = json!({
        "verdict": rollout.verdict.label(), "reason": rollout.reason, "extracted": rollout.extracted,
        "reward": rollout.reward, "shaped_reward": rollout.shaped_reward,
    });
    let now = json!({
        "verdict": verdict, "reason": reason, "detail": detail, "extracted": extracted, "reward": reward,
        "shaped_reward": shaped_reward,
    });
    let values = json!({
        "kind": "verdict", "step": rollout.step, "group": rollout.group, "sample": rollout.sample,
        "problem": rollout.problem, "prompt": rollout.prompt, "text": rollout.text, "recorded": recorded, "now": now,
    });
    values.to_string()
}

/// Mean raw rewards of the groups that the learner got, as they were recorded and as they are, over samples that have
/// both.
fn mean_rewards(judged: &[JudgedAgain]) -> (Option<f64>, Option<f64>) {
    let is_sent = |judged: &&JudgedAgain| judged.rollout.group_outcome.known().is_some_and(PromptOutcome::is_sent);
    let mean = |reward: fn(&JudgedAgain) -> Option<f64>| {
        let rewards: Vec<f64> =
            judged.iter().filter(is_sent).filter(|judged| judged.has_both_verdicts()).filter_map(reward).collect();
        (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
    };
    (mean(|judged| judged.rollout.reward), mean(|judged| judged.reward))
}
