//! What a comparison writes: `compare.json`, `compare.html`, `compare.md`, `compare.csv` and `table-1.csv`.

mod page;
mod plane;
mod tables;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_charts::csv_cell;

use crate::comparison::Comparison;
use crate::options::Options;
use crate::run::{Run, RunEnd};
use page::page;

const JSON: &str = "compare.json";
/// The page of a comparison.
pub const HTML: &str = "compare.html";
const MARKDOWN: &str = "compare.md";
const CSV: &str = "compare.csv";
/// The paper's Table 1.
const TABLE_ONE: &str = "table-1.csv";

/// Writes the files of a comparison.
///
/// # Errors
/// A file that cannot be written.
pub fn write_results(folder: &Path, comparison: &Comparison, runs: &[Run]) -> Result<()> {
    let title = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    replace(&folder.join(JSON), &(serde_json::to_string_pretty(comparison)? + "\n"))?;
    replace(&folder.join(HTML), &page(comparison, &title).to_document())?;
    replace(&folder.join(CSV), &csv(runs))?;
    if let Some(table) = &comparison.table_one {
        replace(&folder.join(TABLE_ONE), &table.to_csv())?;
    }
    replace(&folder.join(MARKDOWN), &format!("# {title}\n\n{}", comparison.to_markdown()))
}

/// Writes the files of each task by itself into a folder of its own, if there are several. A task whose runs all failed
/// has nothing to compare.
///
/// # Errors
/// Runs that cannot be compared, and a file that cannot be written.
pub fn write_tasks(folder: &Path, runs: &[Run], options: &Options) -> Result<()> {
    let tasks: BTreeSet<&str> = runs.iter().map(|run| run.task.as_str()).collect();
    if tasks.len() < 2 {
        return Ok(());
    }
    for task in tasks {
        let own: Vec<Run> = runs.iter().filter(|run| run.task == task).cloned().collect();
        if own.iter().any(|run| run.state == RunEnd::Finished) {
            write_results(&folder.join(task), &Comparison::of(&own, options)?, &own)?;
        }
    }
    Ok(())
}

/// A reader finds the old file or the new one.
fn replace(path: &Path, text: &str) -> Result<()> {
    evenkeel_host::replace(path, text).with_context(|| path.display().to_string())
}

/// Every value of every run in a row of its own: what plotting libraries and Weights & Biases take.
fn csv(runs: &[Run]) -> String {
    let mut text = "task,arm,seed,step,metric,value\n".to_owned();
    for run in runs {
        let head = format!("{},{},{}", csv_cell(&run.task), csv_cell(&run.arm.label()), run.seed);
        for (step, reward) in &run.rewards {
            let _ = writeln!(text, "{head},{step},reward,{reward}");
        }
        for (quantity, points) in &run.training {
            for (step, value) in points {
                let _ = writeln!(text, "{head},{step},{},{value}", quantity.metric());
            }
        }
        for evaluation in &run.evaluations {
            for (name, scores) in &evaluation.benchmarks {
                let k = scores.samples;
                let mut row = |metric: String, value: f64| {
                    let _ = writeln!(text, "{head},{},{},{value}", evaluation.step, csv_cell(&metric));
                };
                row(format!("{name}/mean@{k}"), scores.mean.value);
                if let Some(best) = scores.best {
                    row(format!("{name}/best@{k}"), best.value);
                }
                if let Some(drawn) = scores.drawn {
                    row(format!("{name}/best@{k}/mean"), drawn);
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{Arm, Evaluation, Score, Scores};
    use crate::training::Training;

    #[test]
    fn every_value_has_a_row_of_its_own() {
        let score = |value| Score { value, sampling_error: None, standard_error: None };
        let scores = Scores { samples: 8, mean: score(0.25), best: Some(score(0.5)), drawn: Some(0.375) };
        let run = Run {
            name: "a".to_owned(),
            task: "sums".to_owned(),
            setting: None,
            arm: Arm(BTreeMap::from([("a.x".to_owned(), "1".to_owned()), ("a.y".to_owned(), "2".to_owned())])),
            seed: 3,
            identity: BTreeMap::new(),
            evaluations: vec![Evaluation {
                step: 2,
                verified: None,
                benchmarks: BTreeMap::from([("math".to_owned(), scores)]),
            }],
            rewards: vec![(0, 0.125)],
            training: BTreeMap::from([(Training::Loss, vec![(0, -0.5)])]),
            rule: None,
            lengths: Vec::new(),
            state: RunEnd::Finished,
        };
        let expected = "task,arm,seed,step,metric,value\n\
                        sums,\"x=1, y=2\",3,0,reward,0.125\n\
                        sums,\"x=1, y=2\",3,0,actor/pg_loss,-0.5\n\
                        sums,\"x=1, y=2\",3,2,math/mean@8,0.25\n\
                        sums,\"x=1, y=2\",3,2,math/best@8,0.5\n\
                        sums,\"x=1, y=2\",3,2,math/best@8/mean,0.375\n";
        assert_eq!(csv(&[run]), expected);
    }
}
