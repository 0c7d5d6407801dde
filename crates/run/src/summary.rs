//! The results of a run: `summary.json`.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_proto::v1::RunState;
use serde::{Deserialize, Serialize};

use crate::config::RunPlan;
use crate::directory::ForkOrigin;
use crate::inputs::AcceptedChanges;
use crate::labelled::Labelled;
use crate::layout::SUMMARY_FILE;
use crate::left_out::LeftOut;
use crate::metrics::{Curves, EvaluatedBenchmark, MetricsLine, Quantity, at_k, headline};
use crate::receipt::Heads;
use crate::undecided::Undecided;
use crate::weights_proof::WeightsProof;

/// Where [`Summary::versions`] says why a GPU computes attention slowly; absent if it does not.
pub const ATTENTION: &str = "attention";

/// Steps at the start and at the end whose means are compared.
pub const ENDS: usize = 10;

/// The results of a run. Everything except the seconds, what is verified about weights and the whole head is the same in
/// two runs of one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the run.
    pub run_id: String,
    /// completed, stopped or failed; another state while the run is active.
    pub state: Labelled<RunState>,
    pub steps: u64,
    /// GRPO steps to do.
    pub total_steps: u64,
    pub warm_start_steps: u64,
    /// Mean raw reward of the first ten steps.
    pub reward_first_ten: Option<f64>,
    /// Mean raw reward of the last ten steps.
    pub reward_last_ten: Option<f64>,
    /// Accuracy on problems never trained on, before the first GRPO step. `None` where nobody says which answers are
    /// correct.
    pub accuracy_before: Option<f64>,
    /// Accuracy on these problems in the last evaluation after a GRPO step.
    pub accuracy_after: Option<f64>,
    /// Mean reward on these problems, in place of the accuracy, before the first GRPO step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_reward_before: Option<f64>,
    /// Mean reward on these problems, likewise, in the last evaluation after a GRPO step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_reward_after: Option<f64>,
    /// GRPO steps done before that last evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_evaluation: Option<u64>,
    /// Peak and last accuracies of each benchmark, their average first: the columns of the paper's Table 1.
    #[serde(default)]
    pub benchmarks: Vec<BenchmarkSummary>,
    /// Problems of the last evaluation.
    pub evaluated_problems: Option<u64>,
    /// Mean response length in tokens of the first ten steps.
    pub response_length_first_ten: Option<f64>,
    /// Mean response length in tokens of the last ten steps.
    pub response_length_last_ten: Option<f64>,
    /// Tokens of prompts and responses over all GRPO steps.
    pub tokens: u64,
    /// Samples without a verdict, which were left out.
    pub invalid_samples: u64,
    /// What the answers look like that were left out; `None` where each has a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// How many verdicts are undecided, and why; `None` where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
    /// What the last proof of the engines' weights found. `None` where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsProof>,
    /// Wall time by phase.
    pub seconds: Seconds,
    /// The aggregation rule, where the recipe names it.
    pub aggregation: Option<String>,
    /// The whole objective as a formula, where the recipe names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The settings that differ from their defaults, each with its value and the default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_settings: Vec<ChangedSetting>,
    /// Seed of the run.
    pub seed: u64,
    /// Versions of the program and of the services.
    pub versions: BTreeMap<String, String>,
    /// The run and the step that it was forked from. Lines up to that step are copies of that run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    /// Changes of what it reads with which it went on when it was resumed: of its user's code, and others that its user
    /// accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_changes: Vec<AcceptedChanges>,
    /// Heads of the run's receipt; `None` before its first step has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Heads>,
}

/// A setting that differs from its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// The setting's key in a recipe.
    pub key: String,
    /// The value, as TOML has it.
    pub value: String,
    /// The default; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl ChangedSetting {
    /// The settings of one set that differ from another, by key.
    pub fn between(defaults: &BTreeMap<String, String>, settings: &BTreeMap<String, String>) -> Vec<Self> {
        let differs = |(key, value): &(&String, &String)| defaults.get(*key) != Some(*value);
        let changed = settings.iter().filter(differs).map(|(key, value)| Self {
            key: key.clone(),
            value: value.clone(),
            default: defaults.get(key).cloned(),
        });
        changed.collect()
    }
}

/// Wall time, including resumed runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    pub warm_start: f64,
    pub generation: f64,
    /// Verification beyond what overlapped with generation.
    pub reward: f64,
    /// Training beyond what overlapped with both.
    pub update_actor: f64,
    /// Publishing weights and moving engines to them.
    pub update_weights: f64,
    pub evaluation: f64,
    /// All steps of all kinds.
    pub total: f64,
}

/// The accuracies of a benchmark over the evaluations of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSummary {
    /// Name of the benchmark; `average` is the mean over benchmarks.
    pub name: String,
    /// Samples for each problem (k).
    pub samples: u32,
    /// What the values are.
    #[serde(default)]
    pub quantity: Quantity,
    /// The highest mean@k of all evaluations.
    pub peak_mean: Option<BenchmarkValue>,
    /// The highest best@k, which another evaluation may have.
    pub peak_best: Option<BenchmarkValue>,
    /// The mean@k of the last evaluation.
    pub last_mean: Option<BenchmarkValue>,
    /// The best@k of the last evaluation.
    pub last_best: Option<BenchmarkValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkValue {
    /// GRPO steps done before.
    pub step: u64,
    /// The accuracy, 0 to 1, or the mean reward.
    pub value: f64,
    /// Standard error over problems; absent with fewer than two.
    pub standard_error: Option<f64>,
}

impl BenchmarkValue {
    fn of(line: &MetricsLine, benchmark: &EvaluatedBenchmark<'_>, metric: &str) -> Option<Self> {
        let (value, standard_error) = benchmark.value(line, metric)?;
        Some(Self { step: line.step, value, standard_error })
    }
}

/// The lines of metrics that a run has written.
#[derive(Debug, Clone, Copy)]
pub struct WrittenLines<'a> {
    pub steps: &'a Curves,
    pub warm_start: &'a Curves,
    pub evaluations: &'a [MetricsLine],
}

/// What evaluations say of problems that are never trained on, before the run and in the last evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluated {
    pub quantity: Quantity,
    /// Value before the first GRPO step.
    pub before: Option<f64>,
    /// In the last evaluation after a GRPO step, with the steps that were done before it.
    pub after: Option<(f64, u64)>,
}

impl Summary {
    /// What its evaluations say; `None` without one.
    pub fn evaluated(&self) -> Option<Evaluated> {
        let evaluated = |quantity, before: Option<f64>, after: Option<f64>| {
            let after = after.zip(self.last_evaluation);
            (before.is_some() || after.is_some()).then_some(Evaluated { quantity, before, after })
        };
        let accuracy = evaluated(Quantity::Accuracy, self.accuracy_before, self.accuracy_after);
        accuracy.or_else(|| evaluated(Quantity::Reward, self.mean_reward_before, self.mean_reward_after))
    }

    /// The one of a run directory, where it has one that can be read.
    pub fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&evenkeel_host::read(&directory.join(SUMMARY_FILE), u64::MAX).ok()?).ok()
    }

    /// The results as far as these lines have them.
    pub fn of(
        run_id: &str,
        plan: RunPlan,
        aggregation: Option<&str>,
        state: RunState,
        written: &WrittenLines<'_>,
        versions: &BTreeMap<String, String>,
    ) -> Self {
        let WrittenLines { steps, warm_start, evaluations } = *written;
        let testing = evaluations.iter().filter_map(|line| line.get("timing_s/testing"));
        let first_evaluation = evaluations.first().filter(|line| line.step == 0);
        let last_evaluation = evaluations.last().filter(|line| line.step > 0);
        let mean = |line: Option<&MetricsLine>, wanted: Quantity| {
            headline(line?).filter(|(quantity, _)| *quantity == wanted).map(|(_, value)| value)
        };
        let mut versions = versions.clone();
        versions.insert("evenkeel".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let mut seconds = Seconds {
            warm_start: warm_start.sum("timing_s/step"),
            generation: steps.sum("timing_s/gen"),
            reward: steps.sum("timing_s/reward"),
            update_actor: steps.sum("timing_s/update_actor"),
            update_weights: steps.sum("timing_s/update_weights"),
            evaluation: testing.sum(),
            total: 0.0,
        };
        seconds.total = seconds.warm_start + seconds.evaluation + steps.sum("timing_s/step");
        Self {
            run_id: run_id.to_owned(),
            state: state.into(),
            steps: steps.count(),
            total_steps: plan.steps,
            warm_start_steps: warm_start.count(),
            reward_first_ten: steps.first("critic/score/mean", ENDS),
            reward_last_ten: steps.last("critic/score/mean", ENDS),
            accuracy_before: mean(first_evaluation, Quantity::Accuracy),
            accuracy_after: mean(last_evaluation, Quantity::Accuracy),
            mean_reward_before: mean(first_evaluation, Quantity::Reward),
            mean_reward_after: mean(last_evaluation, Quantity::Reward),
            last_evaluation: last_evaluation.map(|line| line.step),
            benchmarks: benchmarks(evaluations),
            evaluated_problems: evaluations.last().and_then(problems),
            response_length_first_ten: steps.first("response_length/mean", ENDS),
            response_length_last_ten: steps.last("response_length/mean", ENDS),
            tokens: steps.sum("perf/total_num_tokens") as u64,
            invalid_samples: steps.sum("rollout/invalid_samples") as u64,
            left_out: LeftOut::of(steps),
            undecided: Undecided::of(steps),
            weights: WeightsProof::of(steps),
            seconds,
            aggregation: aggregation.map(str::to_owned),
            objective: None,
            changed_settings: Vec::new(),
            seed: plan.seed,
            versions,
            forked_from: None,
            accepted_changes: Vec::new(),
            receipt: None,
        }
    }
}

/// Whether the summary of a run says that it has done all of its steps, and that they are as many as these. Nothing
/// else of it is read.
pub fn did_all_steps(directory: &Path, steps: u64) -> bool {
    #[derive(Deserialize)]
    struct Done {
        state: Labelled<RunState>,
        steps: u64,
    }
    let text = evenkeel_host::read(&directory.join(SUMMARY_FILE), u64::MAX).ok();
    let done = text.and_then(|text| serde_json::from_slice::<Done>(&text).ok());
    done.is_some_and(|done| done.state.known() == Some(RunState::Completed) && done.steps == steps)
}

fn benchmarks(evaluations: &[MetricsLine]) -> Vec<BenchmarkSummary> {
    let summary = |benchmark: EvaluatedBenchmark<'_>| {
        let values = |metric: &str| -> Vec<BenchmarkValue> {
            evaluations.iter().filter_map(|line| BenchmarkValue::of(line, &benchmark, metric)).collect()
        };
        // The first of several that are equal.
        let peak = |values: &[BenchmarkValue]| {
            values.iter().copied().reduce(|peak, value| if value.value > peak.value { value } else { peak })
        };
        let mean = values("mean");
        let best = values("best");
        BenchmarkSummary {
            peak_mean: peak(&mean),
            peak_best: peak(&best),
            last_mean: mean.last().copied(),
            last_best: best.last().copied(),
            name: benchmark.name.to_owned(),
            samples: benchmark.samples,
            quantity: benchmark.quantity,
        }
    };
    // The average first, then by name.
    let all = EvaluatedBenchmark::all(evaluations);
    let (average, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|benchmark| benchmark.is_average);
    average.into_iter().chain(others).map(summary).collect()
}

fn problems(line: &MetricsLine) -> Option<u64> {
    let benchmark = EvaluatedBenchmark::headline(line)?;
    line.get(&at_k::aux(benchmark.name, "problems")).map(|count| count as u64)
}
