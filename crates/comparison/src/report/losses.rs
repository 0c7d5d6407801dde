//! The policy-gradient loss of each arm, late in its runs: where it lies, and how far it swings.
//!
//! Before the first update of a batch it follows from the advantages and the rule alone; with several updates a batch
//! it is a finding.

use std::fmt::Write;
use std::path::Path;

use evenkeel_run::RunRecord;

use crate::mean::Mean;
use crate::run::{Run, RunEnd};

const LOSS: &str = "actor/pg_loss";

/// The losses of the finished runs of an arm.
#[derive(Debug)]
struct OfArm {
    task: String,
    arm: String,
    /// Of each seed, over the second half of its steps.
    means: Vec<f64>,
    /// Deviation over the same steps.
    deviations: Vec<f64>,
}

/// A table of them in Markdown; empty where no run has a loss.
pub(super) fn markdown<'a, 'b>(runs: impl IntoIterator<Item = (&'a Run, &'b Path)>) -> String {
    let mut arms: Vec<OfArm> = Vec::new();
    for (run, directory) in runs.into_iter().filter(|(run, _)| run.state == RunEnd::Finished) {
        let Some((mean, deviation)) = late(&losses(directory)) else { continue };
        let task = &run.task;
        let arm = run.arm.label();
        let index = arms.iter().position(|known| known.task == *task && known.arm == arm).unwrap_or_else(|| {
            arms.push(OfArm { task: task.clone(), arm, means: Vec::new(), deviations: Vec::new() });
            arms.len() - 1
        });
        arms[index].means.push(mean);
        arms[index].deviations.push(deviation);
    }
    if arms.is_empty() {
        return String::new();
    }
    arms.sort_by(|a, b| (&a.task, &a.arm).cmp(&(&b.task, &b.arm)));
    let mut text = "\n## Loss\n\nPolicy-gradient loss over the second half of the steps, means over seeds with 95 % \
                    intervals. Rules differ in scale: compare signs, and the swing with the mean.\n\n\
                    | task | arm | mean | deviation over steps |\n|---|---|---:|---:|\n"
        .to_owned();
    for OfArm { task, arm, means, deviations } in &arms {
        let _ = writeln!(text, "| {task} | {arm} | {} | {} |", shown(means), shown(deviations));
    }
    text
}

fn losses(directory: &Path) -> Vec<f64> {
    let steps = RunRecord::read(directory).map(|record| record.steps).unwrap_or_default();
    steps.iter().filter_map(|line| line.get(LOSS)).filter(|loss| loss.is_finite()).collect()
}

/// Mean and deviation over the second half.
fn late(losses: &[f64]) -> Option<(f64, f64)> {
    let half = &losses[losses.len() / 2..];
    let count = half.len() as f64;
    let mean = half.iter().sum::<f64>() / count;
    let variance = half.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / count;
    (!half.is_empty()).then(|| (mean, variance.sqrt()))
}

fn shown(values: &[f64]) -> String {
    let Some(mean) = Mean::of_values(values) else { return "–".to_owned() };
    let half = mean.interval.map(|interval| format!(" ± {:.4}", (interval.high - interval.low) / 2.0));
    format!("{:.4}{}", mean.value, half.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_a_run_is_that_of_its_second_half() {
        assert_eq!(late(&[9.0, 9.0, 1.0, 3.0]), Some((2.0, 1.0)));
        assert_eq!(late(&[5.0]), Some((5.0, 0.0)));
        assert_eq!(late(&[]), None);
    }

    #[test]
    fn a_mean_over_seeds_has_its_interval() {
        assert_eq!(shown(&[1.0]), "1.0000");
        // Student's quantile for one degree of freedom is 12.7062.
        assert_eq!(shown(&[1.0, 3.0]), "2.0000 ± 12.7062");
        assert_eq!(shown(&[]), "–");
    }
}
