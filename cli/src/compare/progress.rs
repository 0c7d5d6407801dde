//! What a terminal shows while a comparison runs: a table that grows by a row with each run, and below it how far the
//! others are.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use evenkeel_comparison::Run;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::jobs::Job;
use super::schedule::JobEvent;
use super::worker::JobOutcome;

/// Steps at the end of a run whose mean reward stands in its row.
const LAST: usize = 10;
const NONE: &str = "–";

/// The table and the bar.
pub(super) struct ProgressTable<'a> {
    jobs: &'a [Job],
    bar: ProgressBar,
    live: bool,
    /// GRPO steps done, by job.
    steps: BTreeMap<usize, u64>,
    running: usize,
    /// Widths of the columns with the names.
    task_width: usize,
    arm_width: usize,
}

impl<'a> ProgressTable<'a> {
    pub(super) fn new(jobs: &'a [Job]) -> Self {
        let live = std::io::stderr().is_terminal();
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:28} {pos}/{len} steps  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─");
        let all = jobs.iter().map(|job| job.steps).sum();
        let bar = ProgressBar::with_draw_target(Some(all), target).with_style(style);
        let results = || jobs.iter().filter_map(|job| job.result.as_ref());
        let widest = |header: &str, names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0).max(header.len());
        let task_width = widest("task", &mut results().map(|result| result.task.chars().count()));
        let arm_width = widest("arm", &mut results().map(|result| result.arm.label().chars().count()));
        let progress = Self { jobs, bar, live, steps: BTreeMap::new(), running: 0, task_width, arm_width };
        progress.row("task", "arm", ["seed", "reward", "accuracy", "length"].map(str::to_owned));
        progress
    }

    /// Shows what happened. `read` reads a run that has ended.
    pub(super) fn show(&mut self, happened: &JobEvent, read: impl Fn(&Job) -> Option<(Run, Option<f64>)>) {
        match happened {
            JobEvent::Began => self.running += 1,
            JobEvent::Step(job, step) => {
                self.steps.insert(*job, *step);
            }
            JobEvent::Ended(index, ended) => {
                self.running = self.running.saturating_sub(1);
                let job = &self.jobs[*index];
                match (ended, &job.result) {
                    (JobOutcome::Finished, Some(result)) => {
                        self.steps.insert(*index, job.steps);
                        let (reward, accuracy, length) =
                            read(job).map_or((None, None, None), |(run, length)| values(&run, length));
                        let shown = |value: Option<f64>, digits| {
                            value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
                        };
                        let cells = [result.seed.to_string(), shown(reward, 3), shown(accuracy, 3), shown(length, 1)];
                        self.row(&result.task, &result.arm.label(), cells);
                    }
                    (JobOutcome::Finished, None) => {}
                    (JobOutcome::Stopped, _) => self.say(&format!("{} was stopped", job.name)),
                    (JobOutcome::Failed(reason), _) => self.say(&format!("{} failed: {reason}", job.name)),
                }
            }
        }
        self.bar.set_position(self.steps.values().sum());
        self.bar.set_message(format!("{} running", self.running));
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn row(&self, task: &str, arm: &str, cells: [String; 4]) {
        let cells = cells.map(|cell| format!("{cell:>8}")).join("  ");
        self.say(&format!("{task:<0$}  {arm:<1$}  {cells}", self.task_width, self.arm_width));
    }

    fn say(&self, text: &str) {
        if self.live { self.bar.println(text) } else { print_err!("{text}") }
    }
}

/// Mean reward of the last steps, the last accuracy (the mean over benchmarks), the length of answers.
fn values(run: &Run, length: Option<f64>) -> (Option<f64>, Option<f64>, Option<f64>) {
    let rewards: Vec<f64> = run.rewards.iter().rev().take(LAST).map(|(_, reward)| *reward).collect();
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let accuracies: Vec<f64> = run
        .evaluations
        .last()
        .map_or_else(Vec::new, |evaluation| evaluation.benchmarks.values().map(|scores| scores.mean.value).collect());
    (mean(&rewards), mean(&accuracies), length)
}
