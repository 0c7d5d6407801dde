//! Section `evaluation`: which problems are evaluated, how often, and how responses are sampled.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evenkeel_config::Settings;
use evenkeel_data::{BenchmarkFiles, CodeRules, Fields, Filter, RowRules, Rules, Verifiers};
use evenkeel_proto::FieldError;
use evenkeel_run::Quantity;
use evenkeel_run::at_k::{self, AVERAGE};
use evenkeel_run::is_run_name;

use super::data_section::code_mode;
use super::section::section;
use super::sources::{FilterSettings, stem};
use super::{DataSettings, InvalidRows, PolicySamplingSettings, ProgramMode};

section! {
    /// Section `evaluation`: problems that are never trained on.
    pub struct EvaluationSettings {
        /// Number of held-out problems of the training data to evaluate on, at most all of them; 0 for none.
        problems: u32 = 256,
        /// Further problems, as `[[evaluation.benchmarks]]` with `files`, `name` (default: that of the first file),
        /// `filters`, `prompt_field`, `answer_field`, `id_field`, `program_mode`, `suffix`, and `samples`,
        /// `temperature`, `top_p`, `max_tokens` where they differ from those of this section. Otherwise prompts are
        /// rendered as section `data` says.
        benchmarks: Vec<BenchmarkSettings> = Vec::new(),
        /// Samples per problem (k of mean@k), at least 1; only 1 makes sense at temperature 0.
        samples: u32 = 1,
        /// Sampling temperature; 0 is greedy decoding.
        temperature: f32 = 0.0,
        /// Nucleus sampling: keeps the smallest set of most probable tokens whose total probability is at least this;
        /// above 0, at most 1.
        top_p: f32 = 1.0,
        /// Maximum response length in tokens; 0 is `sampling.max_tokens`.
        max_tokens: u32 = 0,
        /// Evaluate before the first GRPO step.
        before: bool = true,
        /// Evaluate after the last GRPO step.
        after: bool = true,
        /// Interval in steps between evaluations; 0 for none.
        every: u64 = 0,
    }
}

/// Problems that are only evaluated on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BenchmarkSettings {
    /// Name of the benchmark in metrics and of its file of answers; the name of the first file where it is empty.
    pub name: String,
    /// Files, or patterns that files match.
    pub files: Vec<PathBuf>,
    /// Filters that select its rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterSettings>,
    /// Field with the prompt; empty: the first that is known.
    pub prompt_field: String,
    /// Field with the gold answer; empty: the first that is known.
    pub answer_field: String,
    /// Field with a name for use in messages; empty: the first that is known.
    pub id_field: String,
    /// The rules that programs run under, where they differ from `data.program_mode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_mode: Option<ProgramMode>,
    /// Text appended to the last user message, where it differs from `data.suffix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// Samples per problem, where they differ from `evaluation.samples`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
    /// Where it differs from `evaluation.temperature`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Where it differs from `evaluation.top_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Where it differs from `evaluation.max_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// How the responses to a benchmark are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerSampling {
    /// Samples per problem.
    pub samples: u32,
    /// Sampling temperature; 0 is greedy decoding.
    pub temperature: f32,
    /// Nucleus sampling: keeps the smallest set of most probable tokens whose total probability is at least this.
    pub top_p: f32,
    /// Maximum response length in tokens.
    pub max_tokens: u32,
}

/// Which weights of a run are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvaluationSteps {
    /// Before the first step.
    pub(crate) before: bool,
    /// After the last one.
    pub(crate) after: bool,
    /// Steps between evaluations; 0 for none.
    pub(crate) every: u64,
}

impl EvaluationSteps {
    /// Whether the weights after `step` of `total_steps` steps are evaluated.
    pub(crate) fn is_due(&self, step: u64, total_steps: u64) -> bool {
        (self.before && step == 0)
            || (self.after && step == total_steps)
            || (self.every > 0 && step > 0 && step.is_multiple_of(self.every))
    }
}

impl EvaluationSettings {
    /// Which weights are evaluated.
    pub(crate) fn steps(&self) -> EvaluationSteps {
        EvaluationSteps { before: self.before, after: self.after, every: self.every }
    }

    /// How many evaluations a run of `total_steps` steps makes.
    pub fn count(&self, total_steps: u64) -> u64 {
        let regular = total_steps.checked_div(self.every).unwrap_or(0);
        let ends = |step: u64, is_wanted: bool| {
            let is_regular = self.every > 0 && step > 0 && step.is_multiple_of(self.every);
            u64::from(is_wanted && !is_regular)
        };
        let last = ends(total_steps, self.after && (total_steps > 0 || !self.before));
        regular + ends(0, self.before) + last
    }

    /// How held-out problems are sampled.
    pub fn sampling(&self, training: &PolicySamplingSettings) -> AnswerSampling {
        let max_tokens = if self.max_tokens == 0 { training.max_tokens } else { self.max_tokens };
        AnswerSampling { samples: self.samples, temperature: self.temperature, top_p: self.top_p, max_tokens }
    }

    /// How those of a benchmark are.
    pub fn sampling_of(&self, benchmark: &BenchmarkSettings, training: &PolicySamplingSettings) -> AnswerSampling {
        let section = self.sampling(training);
        AnswerSampling {
            samples: benchmark.samples.unwrap_or(section.samples),
            temperature: benchmark.temperature.unwrap_or(section.temperature),
            top_p: benchmark.top_p.unwrap_or(section.top_p),
            max_tokens: benchmark.max_tokens.unwrap_or(section.max_tokens),
        }
    }

    /// The accuracies and mean rewards that its metrics lines may have, with a data set of that name to hold problems
    /// out of.
    pub(crate) fn metrics(&self, data: &str) -> Vec<String> {
        let named = |name: &str, k: u32| -> Vec<String> {
            let accuracies = at_k::accuracies(k).into_iter();
            let accuracies = accuracies.map(|metric| at_k::core(name, Quantity::Accuracy, &metric));
            accuracies.chain([at_k::core(name, Quantity::Reward, &format!("mean@{k}"))]).collect()
        };
        let held_out: Vec<String> = if self.problems > 0 { named(data, self.samples) } else { Vec::new() };
        let samples = |benchmark: &BenchmarkSettings| benchmark.samples.unwrap_or(self.samples);
        let of_benchmarks = self.benchmarks.iter().flat_map(|benchmark| named(&benchmark.name(), samples(benchmark)));
        let all: Vec<Vec<String>> =
            self.benchmarks.iter().map(|benchmark| at_k::accuracies(samples(benchmark))).collect();
        let common = all.iter().flatten().filter(|metric| all.iter().all(|metrics| metrics.contains(metric)));
        let average: BTreeSet<String> = common.map(|metric| at_k::core(AVERAGE, Quantity::Accuracy, metric)).collect();
        held_out.into_iter().chain(of_benchmarks).chain(average).collect()
    }

    /// The settings that decide what is trained on, since no problem of an evaluation is: all others at their defaults.
    pub(crate) fn result_affecting(&self) -> Self {
        let only_files = |benchmark: &BenchmarkSettings| BenchmarkSettings {
            files: benchmark.files.clone(),
            filters: benchmark.filters.clone(),
            prompt_field: benchmark.prompt_field.clone(),
            answer_field: benchmark.answer_field.clone(),
            ..BenchmarkSettings::default()
        };
        let benchmarks = self.benchmarks.iter().map(only_files).collect();
        Self { problems: self.problems, benchmarks, ..Self::default() }
    }
}

impl BenchmarkSettings {
    /// Name of the benchmark, set or by its first file.
    pub fn name(&self) -> String {
        let by_file = || self.files.first().and_then(|file| stem(file)).unwrap_or_default();
        if self.name.is_empty() { by_file() } else { self.name.clone() }
    }

    /// Files of the benchmark, and how their rows are read.
    pub fn files(&self, data: &DataSettings) -> BenchmarkFiles {
        // Rows of benchmarks go to a verifier only where they name it.
        let verifiers = Verifiers::new(data.verifiers.keys().map(|name| (name.clone(), Vec::<String>::new())), "");
        let fields =
            Fields::named(&self.prompt_field, &self.answer_field, "", &self.id_field).with_verifiers(verifiers);
        let rules = data.rules();
        let code = CodeRules { mode: self.program_mode.map_or(rules.code.mode, code_mode), ..rules.code };
        let filters = self.filters.iter().map(Filter::from).collect();
        BenchmarkFiles {
            name: self.name(),
            files: self.files.clone(),
            rules: RowRules {
                fields,
                filters,
                rules: Rules { code, ..rules },
                suffix: self.suffix.as_deref().map(Into::into),
            },
            refuse_faults: data.invalid_rows == InvalidRows::Refuse,
        }
    }

    fn validate(&self) -> Result<(), FieldError> {
        if self.files.is_empty() {
            return Err(FieldError::missing("files", "at least one file"));
        }
        let name = self.name();
        let allowed = "a name of letters, digits, `-`, `_` and `.`, at most 128 (files of that name are written)";
        FieldError::ensure(is_run_name(&name), "name", format_args!("{name:?}"), allowed)?;
        let allowed = "another name, since metrics have the mean over benchmarks under this one";
        FieldError::ensure(name != AVERAGE, "name", format_args!("{name:?}"), allowed)?;
        for (index, filter) in self.filters.iter().enumerate() {
            filter.validate().map_err(|error| error.within(format_args!("filters[{index}]")))?;
        }
        FieldError::ensure(self.max_tokens != Some(0), "max_tokens", 0, "at least 1, or absent")
    }
}

impl AnswerSampling {
    fn validate(&self) -> Result<(), FieldError> {
        FieldError::ensure(self.samples > 0, "samples", self.samples, "at least 1")?;
        let t = self.temperature;
        FieldError::ensure(t.is_finite() && t >= 0.0, "temperature", t, "a finite number, at least 0")?;
        let same = t > 0.0 || self.samples == 1;
        let allowed = "1 with evaluation.temperature 0, where all samples are the same";
        FieldError::ensure(same, "samples", self.samples, allowed)?;
        FieldError::ensure(self.top_p > 0.0 && self.top_p <= 1.0, "top_p", self.top_p, "above 0, at most 1")
    }
}

impl Settings for EvaluationSettings {
    fn validate(&self) -> Result<(), FieldError> {
        let training = PolicySamplingSettings::default();
        self.sampling(&training).validate()?;
        for (index, benchmark) in self.benchmarks.iter().enumerate() {
            let within = |error: FieldError| error.within(format_args!("benchmarks[{index}]"));
            benchmark.validate().map_err(within)?;
            self.sampling_of(benchmark, &training).validate().map_err(within)?;
            let name = benchmark.name();
            let is_taken = |other: &BenchmarkSettings| other.name().eq_ignore_ascii_case(&name);
            if self.benchmarks[..index].iter().any(is_taken) {
                let allowed = "a name that no other benchmark has (evaluation.benchmarks[].name)";
                return Err(within(FieldError::quoted("name", name, allowed)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_evaluations_are_counted_as_are_due() {
        for (before, after) in [(false, false), (false, true), (true, false), (true, true)] {
            for (every, steps) in (0..4).flat_map(|every| (0..8).map(move |steps| (every, steps))) {
                let settings = EvaluationSettings { before, after, every, ..EvaluationSettings::default() };
                let due = (0..=steps).filter(|&step| settings.steps().is_due(step, steps)).count() as u64;
                assert_eq!(settings.count(steps), due, "{before} {after} {every} {steps}");
            }
        }
    }
}
