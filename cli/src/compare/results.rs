//! What a comparison writes: `compare.json`, `compare.html`, `compare.md`, `compare.csv`, and its text on stdout.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_charts::csv_cell;
use evenkeel_comparison::{Comparison, Measure, Options, Run, RunEnd};
use evenkeel_proto::FieldError;

use super::page::page;
use crate::arguments::CompareOptions;
use crate::terminal::print_result;

const JSON: &str = "compare.json";
const HTML: &str = "compare.html";
const MARKDOWN: &str = "compare.md";
const CSV: &str = "compare.csv";

/// What is asked of the comparison.
pub(super) fn options(options: &CompareOptions) -> Result<Options, FieldError> {
    let primary = options.primary.as_ref().map(|name| {
        let all = || Measure::ALL.into_iter().map(|measure| (key(measure), measure));
        all().find(|(key, _)| key == name).map(|(_, measure)| measure).ok_or_else(|| {
            let allowed: Vec<_> = all().map(|(key, _)| key).collect();
            FieldError::quoted("--primary", name, allowed.join(", "))
        })
    });
    Ok(Options { primary: primary.transpose()?, reward: options.reward, ..Options::default() })
}

/// The name of a measure, as it stands in `compare.json` but with dashes.
fn key(measure: Measure) -> String {
    let json = serde_json::to_value(measure).unwrap_or_default();
    json.as_str().unwrap_or_default().replace('_', "-")
}

/// Writes the files of a comparison.
pub(super) fn write(folder: &Path, comparison: &Comparison, runs: &[Run]) -> Result<()> {
    replace(&folder.join(JSON), &(serde_json::to_string_pretty(comparison)? + "\n"))?;
    let title = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    replace(&folder.join(HTML), &page(comparison, &title).to_document())?;
    replace(&folder.join(CSV), &csv(runs))
}

/// Writes the comparison as Markdown, followed by some text.
pub(super) fn write_markdown(folder: &Path, comparison: &Comparison, behind: &str) -> Result<()> {
    let title = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    replace(&folder.join(MARKDOWN), &format!("# {title}\n\n{}{behind}", comparison.to_markdown()))
}

/// Writes the same for each task by itself, next to its runs, if there are several. A task whose runs all failed has
/// nothing to compare.
pub(super) fn write_tasks(folder: &Path, runs: &[Run], options: &Options) -> Result<()> {
    let tasks: BTreeSet<&str> = runs.iter().map(|run| run.task.as_str()).collect();
    if tasks.len() < 2 {
        return Ok(());
    }
    for task in tasks {
        let own: Vec<Run> = runs.iter().filter(|run| run.task == task).cloned().collect();
        if own.iter().any(|run| run.state == RunEnd::Finished) {
            let folder = folder.join(task);
            let comparison = Comparison::of(&own, options)?;
            write(&folder, &comparison, &own)?;
            write_markdown(&folder, &comparison, "")?;
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
            }
        }
    }
    text
}

/// Prints the comparison on stdout, and where its files are on stderr.
pub(super) fn print(comparison: &Comparison, folder: &Path, json: bool) -> Result<()> {
    print_result(&match json {
        true => format!("{}\n", serde_json::to_string(comparison)?),
        false => format!("\n{}\n", comparison.to_text()),
    })?;
    say(&format!("page  {}", folder.join(HTML).display()));
    Ok(())
}

/// Says something to the person who started the command.
pub(super) fn say(text: &str) {
    print_err!("{text}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_comparison::{Arm, Evaluation, Score, Scores};

    use super::*;

    #[test]
    fn every_value_has_a_row_of_its_own() {
        let score = |value| Score { value, sampling_error: None, standard_error: None };
        let scores = Scores { samples: 8, mean: score(0.25), best: Some(score(0.5)) };
        let run = Run {
            name: "a".to_owned(),
            task: "sums".to_owned(),
            arm: Arm(BTreeMap::from([("a.x".to_owned(), "1".to_owned()), ("a.y".to_owned(), "2".to_owned())])),
            seed: 3,
            identity: BTreeMap::new(),
            evaluations: vec![Evaluation { step: 2, benchmarks: BTreeMap::from([("math".to_owned(), scores)]) }],
            rewards: vec![(0, 0.125)],
            rule: None,
            lengths: Vec::new(),
            state: RunEnd::Finished,
        };
        let expected = "task,arm,seed,step,metric,value\n\
                        sums,\"x=1, y=2\",3,0,reward,0.125\n\
                        sums,\"x=1, y=2\",3,2,math/mean@8,0.25\n\
                        sums,\"x=1, y=2\",3,2,math/best@8,0.5\n";
        assert_eq!(csv(&[run]), expected);
    }

    #[test]
    fn measures_have_names_for_the_command_line() {
        assert_eq!(key(Measure::LastAccuracy), "last-accuracy");
        assert_eq!(key(Measure::StepsToReward), "steps-to-reward");
    }
}
