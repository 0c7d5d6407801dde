//! `evaluation.json`: what the answers next to it are answers to.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::RunFilesError;
use crate::whole_file::replace_json;

const FILE: &str = "evaluation.json";
const FORMAT: u32 = 1;

/// What an evaluation asked, and of which weights. Answers to anything else are not taken for its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationManifest {
    format: u32,
    step: u64,
    /// Digest of the weights.
    weights: String,
    seed: u64,
    benchmarks: BTreeMap<String, AskedBenchmark>,
}

/// How a benchmark was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedBenchmark {
    /// How many problems it has.
    pub problems: usize,
    /// Samples for each problem.
    pub samples: u32,
    pub temperature: f32,
    /// Share of the probability that is sampled from.
    pub top_p: f32,
    pub max_tokens: u32,
    /// Ids that end a response.
    pub stop_token_ids: Vec<u32>,
    /// Digest of prompts and gold answers.
    pub digest: String,
    /// Digest of what decides the verdicts of a judge; absent where none judges its answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
}

impl EvaluationManifest {
    /// What is asked: each benchmark by the name of its file.
    pub fn new(step: u64, weights: &str, seed: u64, benchmarks: BTreeMap<String, AskedBenchmark>) -> Self {
        Self { format: FORMAT, step, weights: weights.to_owned(), seed, benchmarks }
    }

    /// Reads that of a folder; `None` where it is absent or cannot be read.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&evenkeel_host::read(&folder.join(FILE), u64::MAX).ok()?).ok()
    }

    /// Writes it into a folder.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), RunFilesError> {
        replace_json(&folder.join(FILE), self)
    }

    /// Whether answers of the other one to that benchmark are answers of this one.
    pub fn shares(&self, other: &Self, benchmark: &str) -> bool {
        (self.format, self.step, self.seed, &self.weights) == (other.format, other.step, other.seed, &other.weights)
            && self.benchmarks.get(benchmark) == other.benchmarks.get(benchmark)
    }

    /// What the other one asks differently; `None` where it is the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let names = self.benchmarks.keys().chain(other.benchmarks.keys());
        let differs = |name: &&String| self.benchmarks.get(*name) != other.benchmarks.get(*name);
        match names.clone().find(differs) {
            _ if self.weights != other.weights => Some("another model, or other weights".to_owned()),
            _ if self.seed != other.seed => Some(format!("seed {}, not {}", self.seed, other.seed)),
            Some(name) => Some(match (self.benchmarks.get(name), other.benchmarks.get(name)) {
                (Some(before), Some(now)) => before.difference(name, now),
                (Some(_), None) => format!("with benchmark `{name}`"),
                (None, _) => format!("without benchmark `{name}`"),
            }),
            None => None,
        }
    }
}

impl AskedBenchmark {
    fn difference(&self, name: &str, now: &Self) -> String {
        let pairs = [
            ("samples", self.samples.to_string(), now.samples.to_string()),
            ("temperature", self.temperature.to_string(), now.temperature.to_string()),
            ("top_p", self.top_p.to_string(), now.top_p.to_string()),
            ("max_tokens", self.max_tokens.to_string(), now.max_tokens.to_string()),
        ];
        match pairs.into_iter().find(|(_, before, now)| before != now) {
            Some((setting, before, now)) => format!("{setting} {before}, not {now}, for benchmark `{name}`"),
            None if self.judge != now.judge => format!("another judge, or another rubric, for benchmark `{name}`"),
            None => format!("other problems or prompts in benchmark `{name}`"),
        }
    }
}
