//! What is compared: runs as plain values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::training::Training;

/// A run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What errors call it, such as its directory.
    pub name: String,
    /// The task that the run was trained on. Runs of one task are compared; results are averaged over tasks.
    pub task: String,
    /// What is trained and on what, where it is known.
    pub setting: Option<Setting>,
    pub arm: Arm,
    /// Seed of the run. Runs of different arms with the same seed are a pair: they share initial weights, data order
    /// and sample seeds.
    pub seed: u64,
    /// Named parts of what must be the same in all runs of a task, such as the digests of data and evaluation.
    pub identity: BTreeMap<String, String>,
    /// Evaluations by ascending step.
    pub evaluations: Vec<Evaluation>,
    /// Mean raw reward (0 to 1) of training steps, by ascending step. One that is not finite counts as 0, and the run
    /// as collapsed.
    pub rewards: Vec<(u64, f64)>,
    /// What else is measured at training steps, by ascending step. Values are finite.
    pub training: BTreeMap<Training, Vec<(u64, f64)>>,
    /// The canonical name of its aggregation rule, where it is known.
    pub rule: Option<String>,
    /// Lengths of answers in training, by ascending step; steps without a gap are left out.
    pub lengths: Vec<Lengths>,
    pub state: RunEnd,
}

impl Run {
    /// A run that failed before anything of it could be read.
    pub fn failed(name: &str, task: &str, arm: Arm, seed: u64, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            task: task.to_owned(),
            setting: None,
            arm,
            seed,
            identity: BTreeMap::new(),
            evaluations: Vec::new(),
            rewards: Vec::new(),
            training: BTreeMap::new(),
            rule: None,
            lengths: Vec::new(),
            state: RunEnd::Failed { reason: reason.to_owned() },
        }
    }
}

/// A model and the data that it is trained on, by their names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// The last part of the model's path, or `fresh`.
    pub model: String,
    /// The first data source.
    pub data: String,
}

/// The lengths of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    pub step: u64,
    /// Coefficient of variation of lengths within a group.
    pub variation: f64,
    /// How many tokens longer answers with a negative advantage are than those with a positive one in their group.
    pub gap: f64,
    /// Mean length in tokens.
    pub mean: f64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// The run did its last step.
    Finished,
    /// The run stopped before its last step; the numbers are not used.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

/// The varied settings of a run with their values: `learner.objective.aggregation` is `token`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arm(pub BTreeMap<String, String>);

impl Arm {
    /// The value of a single setting (`token`), of several each with the last part of its name (`aggregation=token,
    /// lr=1e-6`).
    pub fn label(&self) -> String {
        if let (1, Some(value)) = (self.0.len(), self.0.values().next()) {
            return value.clone();
        }
        let setting = |(name, value): (&String, &String)| {
            let short = name.rsplit('.').next().unwrap_or(name);
            format!("{short}={value}")
        };
        self.0.iter().map(setting).collect::<Vec<_>>().join(", ")
    }

    /// The settings as `--set` takes them.
    pub fn settings(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(key, value)| format!("{key}={value}"))
    }

    /// A name for files: the values, one after the other.
    pub fn file_name(&self) -> String {
        let good = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
        let value = |value: &String| -> String {
            value.chars().map(|character| if good(character) { character } else { '_' }).collect()
        };
        self.0.values().map(value).collect::<Vec<_>>().join("-")
    }
}

/// An evaluation of the weights after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub step: u64,
    /// Whether the evaluation was audited and no check failed; absent if the run does not say so.
    pub verified: Option<bool>,
    pub benchmarks: BTreeMap<String, Scores>,
}

/// The accuracies of one benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Samples for each problem (k).
    pub samples: u32,
    /// mean@k, which papers call acc@k.
    pub mean: Score,
    /// best@k, where it is known: any of the k samples is correct.
    pub best: Option<Score>,
    /// best@k as verl has it, where it is known: the best of k draws with replacement from the k samples.
    pub drawn: Option<f64>,
}

/// One accuracy, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    pub value: f64,
    /// How much another evaluation of the same weights on the same problems would differ.
    pub sampling_error: Option<f64>,
    /// Standard error over problems. This is larger, and takes the place of an unknown sampling error.
    pub standard_error: Option<f64>,
}

impl Score {
    /// The noise of an evaluation: the sampling error, else the standard error as an upper bound of it.
    pub(crate) fn noise(&self) -> Option<Noise> {
        let known = |error| Noise { error, is_bound: false };
        let bound = |error| Noise { error, is_bound: true };
        self.sampling_error.map(known).or(self.standard_error.map(bound))
    }
}

/// The noise of an accuracy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Noise {
    pub(crate) error: f64,
    /// The true one is at most as large.
    pub(crate) is_bound: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_as_short_as_it_can_be() {
        let arm = |settings: &[(&str, &str)]| {
            Arm(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()).label()
        };
        assert_eq!(arm(&[("learner.objective.aggregation", "token")]), "token");
        let two = [("learner.objective.aggregation", "token"), ("learner.optimizer.lr", "1e-6")];
        assert_eq!(arm(&two), "aggregation=token, lr=1e-6");
    }

    #[test]
    fn noise_is_the_sampling_error_where_it_is_known() {
        let score = |sampling_error, standard_error| Score { value: 0.5, sampling_error, standard_error };
        assert_eq!(score(Some(0.01), Some(0.04)).noise(), Some(Noise { error: 0.01, is_bound: false }));
        assert_eq!(score(None, Some(0.04)).noise(), Some(Noise { error: 0.04, is_bound: true }));
        assert_eq!(score(None, None).noise(), None);
    }
}
