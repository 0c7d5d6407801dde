//! `evenkeel-bench recorded receipt RUN`: what writing the receipt of a run costs beside its steps. The line of every
//! step is made again from what the run recorded, and written into a temporary folder.
//!
//! `evenkeel-bench recorded answers RUN`: the answers of a run as rows for `evenkeel verify math`.
//!
//! `bench/replay/run.py` runs both.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use evenkeel_host::sha256;
use evenkeel_run::metric::table::STEP_TIME;
use evenkeel_run::{
    Determined, Heads, LineKind, METRICS_FILE, Observed, PROMPTS_FILE, ReceiptFile, RunRecord, StepDigests,
    list_rollouts, read_receipt, read_rollouts,
};
use serde_json::json;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [what, run] if what == "receipt" => receipt(Path::new(run)),
        [what, run] if what == "answers" => answers(Path::new(run)),
        _ => bail!("usage: evenkeel-bench recorded receipt|answers RUN"),
    }
}

/// Prints the time of a receipt's line and that of a step, and the largest share of one in the other.
fn receipt(run: &Path) -> Result<()> {
    let record = RunRecord::read(run)?;
    let lines = read_receipt(run)?;
    let metrics = std::fs::read_to_string(run.join(METRICS_FILE))?;
    let prompts = std::fs::read_to_string(run.join(PROMPTS_FILE))?;
    let scratch = tempfile::tempdir()?;
    let mut file = ReceiptFile::open(scratch.path())?;
    let files = list_rollouts(run)?;
    let (mut receipt, mut whole, mut largest) = (Duration::ZERO, 0.0, 0.0);
    let mut steps = 0_u32;
    for ((line, metrics), prompts) in record.steps.iter().zip(metrics.lines()).zip(prompts.lines()) {
        let Some(path) = files.get(&line.step) else { continue };
        let (rollouts, bytes) = (read_rollouts(run, line.step)?, std::fs::read(path)?);
        let recorded = lines.iter().find(|other| other.step == line.step && other.kind == LineKind::Step);
        let recorded = recorded.with_context(|| format!("step {} has no line in the receipt", line.step))?;
        let determined = recorded.determined.clone().context("a step's line has a determined part")?;
        let seconds = line.get(STEP_TIME.name).context("a step has a time")?;

        let began = Instant::now();
        let mut digests = StepDigests::default();
        let mut has_tokens = true;
        for rollout in &rollouts {
            has_tokens &= digests.add_recorded(rollout);
        }
        let content = Some(digests.finish());
        let observed = Observed {
            metrics: Some(sha256(metrics)),
            prompts: Some(sha256(prompts)),
            rollouts: Some(sha256(&bytes)),
            ..recorded.observed.clone()
        };
        let part = Determined { content, ..determined.clone() };
        file.append(&Heads::default(), (line.step, LineKind::Step), Some(part.clone()), observed.clone())?;
        let took = began.elapsed();

        ensure!(has_tokens, "step {} was kept without tokens", line.step);
        ensure!((&part, &observed) == (&determined, &recorded.observed), "step {} is another one now", line.step);
        (receipt, whole, steps) = (receipt + took, whole + seconds, steps + 1);
        largest = f64::max(largest, took.as_secs_f64() / seconds);
    }
    ensure!(steps > 0, "the run has no step whose samples were kept");
    let receipt = receipt.as_secs_f64();
    let (mean, step) = (receipt / f64::from(steps), whole / f64::from(steps));
    println!(
        "{}",
        json!({
            "steps": steps,
            "seconds": mean,
            "step_seconds": step,
            "share": receipt / whole,
            "largest_share": largest,
        })
    );
    Ok(())
}

/// Prints a row for each answer that has a verdict.
fn answers(run: &Path) -> Result<()> {
    for step in list_rollouts(run)?.into_keys() {
        for rollout in read_rollouts(run, step)?.iter().filter(|rollout| rollout.reward.is_some()) {
            let id = format!("{step}/{}/{}", rollout.group, rollout.sample);
            let gold = rollout.gold.first().context("a row has a gold answer")?;
            println!("{}", json!({"id": id, "gold": gold, "completion": rollout.text, "prompt": rollout.prompt}));
        }
    }
    Ok(())
}
