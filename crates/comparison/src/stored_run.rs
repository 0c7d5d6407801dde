//! Reads the directory of a run as a run that is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_errors::FieldError;
use evenkeel_run::{EvaluatedBenchmark, Input, InputKind, InputRecord, MetricsLine, Quantity, RunRecord};

use crate::recipes::{ComparedRecipes, ComparedSettings};
use crate::run::{Arm, Evaluation, Lengths, Run, RunEnd, Score, Scores};

/// The metric of training.
const REWARD: &str = "critic/score/mean";
/// Variation within groups, gap, and mean of the lengths of answers.
const LENGTHS: [&str; 3] = ["aggregation/length_cv", "aggregation/length_gap", "response_length/mean"];
/// The setting of the aggregation rule.
const RULE: &str = "learner.objective.aggregation";
/// Sections whose settings must be the same in all runs that are compared: what is asked, of which model, and how
/// answers are judged.
const SAME: &[&str] = &["model.", "data.", "evaluation.", "reward."];
/// Settings of these that say where something is, or how fast it goes.
const OF_A_PLACE: &[&str] =
    &["reward.server.", "reward.math.threads", "reward.code.workers", "evaluation.before", "evaluation.after"];
/// Where the model lies.
const MODEL: &str = "model.path";
/// Files are distinguished by what they have.
const FILES: &str = "files";
/// Sections whose settings make an arm.
const VARIED: &[&str] = &["learner.", "sampling.", "shaping.", "warm_start.", "run.steps"];
/// Settings of these that are no part of an arm.
const NO_ARM: &[&str] = &["learner.compute.", "learner.probe_gradients."];

/// A run with its settings.
#[derive(Debug)]
pub struct StoredRun {
    record: RunRecord,
    /// The parts of the model that it began with.
    model: Vec<Input>,
    settings: ComparedSettings,
    data: String,
}

impl StoredRun {
    /// Reads the run in a directory.
    ///
    /// # Errors
    /// A directory without a run, or with files that cannot be read.
    pub fn read(directory: &Path, recipes: &impl ComparedRecipes) -> Result<Self> {
        let record = RunRecord::read(directory)?;
        let mut model = InputRecord::read(directory)?.map(|record| record.inputs).unwrap_or_default();
        model.retain(|input| input.kind == InputKind::Model);
        let settings = recipes.complete(record.settings()?).with_context(|| directory.display().to_string())?;
        let data = record.data.as_ref().and_then(|data| data.files.first().map(|file| file.source.clone()));
        let data = data.unwrap_or_else(|| "data".to_owned());
        Ok(Self { record, model, settings, data })
    }

    /// The run, as an arm of a task.
    pub fn run(&self, task: &str, arm: Arm, seed: u64) -> Run {
        let done = self.record.steps.len() as u64;
        let steps = self.settings.steps;
        let state = if done >= steps {
            RunEnd::Finished
        } else {
            RunEnd::Failed { reason: format!("ended after {done} of {steps} steps") }
        };
        let identity = self.identity(&arm);
        let evaluations = self.record.evaluations.iter().map(evaluation).filter(|found| !found.benchmarks.is_empty());
        let rewards = self.record.steps.iter().filter_map(|line| Some((line.step, line.get(REWARD)?)));
        Run {
            name: self.record.path.display().to_string(),
            task: task.to_owned(),
            arm,
            seed,
            identity,
            evaluations: evaluations.collect(),
            rewards: rewards.collect(),
            rule: self.settings.values.get(RULE).map(|rule| plain(rule).to_owned()),
            lengths: self.record.steps.iter().filter_map(lengths).collect(),
            state,
        }
    }

    /// Mean length of answers in the last step, in tokens.
    pub fn last_length(&self) -> Option<f64> {
        self.record.steps.last()?.get("response_length/mean")
    }

    /// What must be the same in all runs that are compared, but for what is varied.
    fn identity(&self, arm: &Arm) -> BTreeMap<String, String> {
        let is_part = |key: &str| {
            let has = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
            let is_file = key.rsplit('.').next().is_some_and(|last| last.ends_with(FILES));
            has(SAME) && !has(OF_A_PLACE) && !is_file && !key.ends_with(".endpoints") && !arm.0.contains_key(key)
        };
        let settings = self.settings.values.iter().filter(|(key, _)| is_part(key));
        let mut identity: BTreeMap<_, _> = settings.map(|(key, value)| (key.clone(), value.clone())).collect();
        // A model is what its folder has, wherever that lies. One that is made afresh follows from the settings.
        if identity.contains_key(MODEL) && !self.model.is_empty() {
            identity.remove(MODEL);
            let parts =
                self.model.iter().map(|part| (format!("inputs.json: {} of the model", part.name), part.digest.clone()));
            identity.extend(parts);
        }
        let files = self.record.data.iter().flat_map(|data| &data.files);
        for (index, file) in files.enumerate() {
            // What the program makes itself has none: it follows from the settings.
            if let Some(digest) = &file.digest {
                identity.insert(format!("data.json: file {index} ({})", file.source), digest.clone());
            }
        }
        identity
    }
}

/// Reads runs of one task, whose arms are made of the settings in which they differ. Returns the benchmarks of held-out
/// problems as well.
///
/// # Errors
/// A directory that holds no run, the same directory twice.
pub fn read_runs(directories: &[String], recipes: &impl ComparedRecipes) -> Result<(Vec<Run>, BTreeSet<String>)> {
    let read = |directory: &String| StoredRun::read(Path::new(directory), recipes);
    let read: Vec<StoredRun> = directories.iter().map(read).collect::<Result<_>>()?;
    for (index, run) in read.iter().enumerate() {
        if read[..index].iter().any(|other| other.record.path == run.record.path) {
            let path = run.record.path.display().to_string();
            return Err(FieldError::new(path, "given twice", "each run once").into());
        }
    }
    let is_varied = |key: &&String| {
        let has = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
        has(VARIED) && !has(NO_ARM)
    };
    let keys: BTreeSet<&String> = read.iter().flat_map(|run| run.settings.values.keys()).filter(is_varied).collect();
    let differs =
        |key: &&&String| read.iter().any(|run| run.settings.values.get(**key) != read[0].settings.values.get(**key));
    let varied: Vec<&String> = keys.iter().filter(differs).copied().collect();
    let task = read.first().map_or("data", |run| run.data.as_str()).to_owned();
    let arm = |run: &StoredRun| {
        let value = |key: &String| run.settings.values.get(key).map_or("absent", |value| plain(value)).to_owned();
        Arm(varied.iter().map(|key| ((*key).clone(), value(key))).collect())
    };
    let runs = read.iter().map(|run| run.run(&task, arm(run), run.settings.seed)).collect();
    Ok((runs, read.iter().map(|run| run.settings.held_out.clone()).collect()))
}

/// The lengths of a training step; a step without a group of both signs has no gap.
fn lengths(line: &MetricsLine) -> Option<Lengths> {
    let [variation, gap, mean] = LENGTHS.map(|name| line.get(name));
    Some(Lengths { step: line.step, variation: variation?, gap: gap?, mean: mean? })
}

/// The accuracies of an evaluation; mean rewards are none. The average is that of the comparison.
fn evaluation(line: &MetricsLine) -> Evaluation {
    let of = |benchmark: EvaluatedBenchmark<'_>| {
        let score = |metric: &str| {
            let (value, standard_error) = benchmark.value(line, metric)?;
            Some(Score { value, sampling_error: line.get(&benchmark.about(metric, "sampling_error")), standard_error })
        };
        let scores = Scores { samples: benchmark.samples, mean: score("mean")?, best: score("best") };
        let is_one = !benchmark.is_average && benchmark.quantity == Quantity::Accuracy;
        is_one.then(|| (benchmark.name.to_owned(), scores))
    };
    Evaluation { step: line.step, benchmarks: EvaluatedBenchmark::all([line]).into_iter().filter_map(of).collect() }
}

/// A text without its quotes.
fn plain(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}
