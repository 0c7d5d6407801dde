//! Reads the directory of a run as a run that is compared.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_data::Purpose;
use evenkeel_run::{EvaluatedBenchmark, Input, InputKind, InputRecord, MetricsLine, Quantity, RunRecord};

use crate::recipes::{ComparedRecipes, ComparedSettings};
use crate::run::{Arm, Evaluation, Lengths, Run, RunEnd, Score, Scores, Setting};
use crate::training::Training;

/// The metric of training.
const REWARD: &str = "critic/score/mean";
/// Whether an evaluation was verified.
const VERIFIED: &str = "sampler_audit/evaluation_verified";
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
/// Setting that names the folder of the model.
const MODEL: &str = "model.path";
/// Files are distinguished by what they have.
const FILES: &str = "files";
/// How the names of the files begin that a run was trained on, and of those that it was evaluated on.
pub(crate) const TRAINED_ON: &str = "data.json: ";
pub(crate) const EVALUATED_ON: &str = "data.json, benchmarks: ";
/// How the names of the parts of a model begin.
pub(crate) const MODEL_PARTS: &str = "inputs.json: ";
/// What a model is called that no folder has.
const FRESH: &str = "fresh";

/// A run with its settings.
#[derive(Debug)]
pub struct StoredRun {
    pub(crate) record: RunRecord,
    /// The parts of the model that it began with.
    model: Vec<Input>,
    pub(crate) settings: ComparedSettings,
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
            setting: Some(self.setting()),
            arm,
            seed,
            identity,
            evaluations: evaluations.collect(),
            rewards: rewards.collect(),
            training: Training::ALL.into_iter().filter_map(|of| Some((of, self.curve(of)?))).collect(),
            rule: self.settings.values.get(RULE).map(|rule| plain(rule).to_owned()),
            lengths: self.record.steps.iter().filter_map(lengths).collect(),
            state,
        }
    }

    /// What it trains and on what.
    pub(crate) fn setting(&self) -> Setting {
        let path = self.settings.values.get(MODEL).map(|path| plain(path));
        let name = path.and_then(|path| path.trim_end_matches('/').rsplit('/').next());
        // A name of the hub may have a commit behind it.
        let model = name.and_then(|name| name.split('@').next()).filter(|name| !name.is_empty());
        Setting { model: model.unwrap_or(FRESH).to_owned(), data: self.data.clone() }
    }

    /// A quantity at the steps that have it; `None` where none has.
    fn curve(&self, of: Training) -> Option<Vec<(u64, f64)>> {
        let value = |line: &MetricsLine| Some((line.step, line.get(of.metric()).filter(|value| value.is_finite())?));
        let points: Vec<_> = self.record.steps.iter().filter_map(value).collect();
        (!points.is_empty()).then_some(points)
    }

    /// Mean length of answers in the last step, in tokens.
    pub fn last_length(&self) -> Option<f64> {
        self.record.steps.last()?.get("response_length/mean")
    }

    /// What must be the same in all runs that are compared, but for what is varied.
    pub(crate) fn identity(&self, arm: &Arm) -> BTreeMap<String, String> {
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
                self.model.iter().map(|part| (format!("{MODEL_PARTS}{} of the model", part.name), part.digest.clone()));
            identity.extend(parts);
        }
        let mut of_source: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for file in self.record.data.iter().flat_map(|data| &data.files) {
            let part = if file.part == Purpose::Evaluation { EVALUATED_ON } else { TRAINED_ON };
            let index = of_source.entry((part, &file.source)).or_default();
            // What the program makes itself has none: it follows from the settings.
            if let Some(digest) = &file.digest {
                identity.insert(format!("{part}file {index} of {}", file.source), digest.clone());
            }
            *index += 1;
        }
        identity
    }
}

/// The lengths of a training step; a step without a group of both signs has no gap.
fn lengths(line: &MetricsLine) -> Option<Lengths> {
    let [variation, gap, mean] = LENGTHS.map(|name| line.get(name));
    Some(Lengths { step: line.step, variation: variation?, gap: gap?, mean: mean? })
}

/// The accuracies of an evaluation; mean rewards are none. The average is that of the comparison.
fn evaluation(line: &MetricsLine) -> Evaluation {
    let scores = |benchmark: EvaluatedBenchmark<'_>| {
        let score = |metric: &str| {
            let (value, standard_error) = benchmark.value(line, metric)?;
            Some(Score { value, sampling_error: line.get(&benchmark.about(metric, "sampling_error")), standard_error })
        };
        // verl's name: its best@k draws with replacement.
        let drawn = line.get(&format!("{}/mean", benchmark.metric("best")));
        let scores = Scores { samples: benchmark.samples, mean: score("mean")?, best: score("best"), drawn };
        let is_one = !benchmark.is_average && benchmark.quantity == Quantity::Accuracy;
        is_one.then(|| (benchmark.name.to_owned(), scores))
    };
    Evaluation {
        step: line.step,
        verified: line.get(VERIFIED).map(|verified| verified == 1.0),
        benchmarks: EvaluatedBenchmark::all([line]).into_iter().filter_map(scores).collect(),
    }
}

/// A text without its quotes.
pub(crate) fn plain(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}
