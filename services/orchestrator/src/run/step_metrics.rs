//! The metrics of a step: rollouts and verdicts as observed here, training as the learner reports it.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_environment::budget::UsedUp;
use evenkeel_proto::Label;
use evenkeel_proto::v1::{FinishReason, Outcome, TrainReport};
use evenkeel_run::metric::table as metric;
use evenkeel_run::{MetricsLine, Statistics};

use crate::instruments::{self, TimedPart};
use crate::rollout::{EpisodeRecord, Sample, SampleStatus, SampledGroup, StepBatch};

/// Where the wall time of a step went; the parts do not overlap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepTimes {
    /// Until the last rollout ended.
    pub(super) generation: Duration,
    /// From there until the last verdict: what verification took beyond what overlapped with generation.
    pub(super) reward: Duration,
    /// From there until the report.
    pub(super) update_actor: Duration,
    /// Publishing the weights, and updating the engines to them where the next step waits for that.
    pub(super) update_weights: Duration,
    pub(super) step: Duration,
    /// Time within it in which no engine had a sample because all waited for their environments.
    pub(super) environment_idle: Duration,
}

/// What the two sides of a step waited for, where steps are sampled ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// Steps between the weights that sampled the step and those that it was trained from.
    pub(super) lag: u64,
    /// How long the learner waited for the step's rollouts.
    pub(super) learner: Duration,
    /// How long sampling waited for the weights that sampled it.
    pub(super) sampling: Duration,
}

impl Waits {
    /// Adds its values to the metrics line of a step.
    pub(super) fn add_to(&self, line: &mut MetricsLine) {
        line.set(metric::PIPELINE_LAG, self.lag as f64);
        line.set(metric::LEARNER_WAITED, self.learner.as_secs_f64());
        line.set(metric::SAMPLING_WAITED, self.sampling.as_secs_f64());
    }
}

impl StepTimes {
    /// Records them for Prometheus. Weight updates are recorded where they happen, since a run begins with one.
    pub(super) fn record(&self) {
        instruments::part_took(TimedPart::Generation, self.generation);
        instruments::part_took(TimedPart::Reward, self.reward);
        instruments::part_took(TimedPart::UpdateActor, self.update_actor);
        instruments::part_took(TimedPart::Step, self.step);
    }
}

/// The values of a GRPO step. `epoch` is that of its first prompt.
pub(super) fn step_values(
    line: &mut MetricsLine,
    batch: &StepBatch,
    report: &TrainReport,
    epoch: u64,
    times: StepTimes,
) {
    line.set(metric::STEP, line.step as f64);
    line.set(metric::EPOCH, epoch as f64);
    rollouts(line, batch, times.environment_idle);
    line.set_training(report);
    timing(line, batch, report, times);
}

/// The values of a supervised step.
pub(super) fn warm_start_values(line: &mut MetricsLine, report: &TrainReport, elapsed: Duration) {
    line.set(metric::WARM_START_STEP, line.step as f64);
    line.set(metric::WARM_START_LOSS, report.loss);
    line.set(metric::WARM_START_NORM, report.gradient_norm);
    line.set(metric::WARM_START_RATE, report.learning_rate);
    line.set(metric::WARM_START_SKIPPED, f64::from(u8::from(report.skipped)));
    line.set(metric::WARM_START_TOKENS, report.trainable_tokens as f64);
    for (name, value) in &report.metrics {
        line.values.entry(name.clone()).or_insert(*value);
    }
    line.set(metric::STEP_TIME, elapsed.as_secs_f64());
}

fn rollouts(line: &mut MetricsLine, batch: &StepBatch, environment_idle: Duration) {
    let samples = || batch.groups.iter().flat_map(SampledGroup::samples);
    let valid = || samples().filter_map(|sample| sample.rewards().map(|rewards| (sample, rewards)));
    line.set_statistics(|of| metric::SCORE.of([&of]), Statistics::of(valid().map(|(_, rewards)| rewards.raw)));
    line.set_statistics(|of| metric::REWARDS.of([&of]), Statistics::of(valid().map(|(_, rewards)| rewards.shaped)));
    components(line, batch);
    episodes(line, batch, environment_idle);
    line.set_statistics(
        |of| metric::PROMPT_LENGTH.of([&of]),
        Statistics::of(batch.groups.iter().map(|group| group.prompt_tokens() as f64)),
    );

    let generated = || samples().filter(|sample| sample.is_generated());
    line.set_statistics(
        |of| metric::RESPONSE_LENGTH.of([&of]),
        Statistics::of(generated().map(|sample| sample.tokens as f64)),
    );
    let share =
        |of: &dyn Fn(&Sample) -> bool| Statistics::of(generated().map(|sample| f64::from(u8::from(of(sample))))).mean();
    line.set(metric::TRUNCATED, share(&|sample| sample.finish_reason == FinishReason::Length));
    let of_correct = |correct: bool| {
        let matching = valid().filter(move |(sample, _)| sample.correct() == Some(correct));
        Statistics::of(matching.map(|(sample, _)| sample.tokens as f64)).mean()
    };
    line.set(metric::CORRECT_LENGTH, of_correct(true));
    line.set(metric::INCORRECT_LENGTH, of_correct(false));

    let count = |of: &dyn Fn(&Sample) -> bool| samples().filter(|sample| of(sample)).count() as f64;
    line.set(metric::SAMPLES, count(&|_| true));
    line.set(metric::INVALID_SAMPLES, count(&|sample| sample.rewards().is_none()));
    line.set(metric::FAILED_SAMPLES, count(&|sample| matches!(sample.status, SampleStatus::Failed { .. })));
    line.set(metric::LATE_SAMPLES, count(&|sample| sample.is_late()));
    line.set(metric::VERIFIED_AGAIN, samples().map(|sample| f64::from(sample.verify_retries)).sum::<f64>());
    line.set(metric::BEGUN_AGAIN, samples().map(|sample| f64::from(sample.rollout_retries)).sum::<f64>());
    line.set(metric::COPIED_SAMPLES, count(&Sample::is_copied));
    for &outcome in Outcome::ALL {
        let of_outcome =
            |sample: &Sample| matches!(&sample.status, SampleStatus::Valid { outcome: found, .. } if *found == outcome);
        let found = count(&of_outcome);
        if found > 0.0 {
            line.set(metric::OUTCOME.of([&outcome.label()]), found);
        }
    }
    let mut undecided: BTreeMap<&str, u32> = BTreeMap::new();
    for reason in samples().filter_map(Sample::undecided_reason) {
        *undecided.entry(reason).or_default() += 1;
    }
    for (reason, found) in undecided {
        line.set(metric::UNDECIDED.of([&reason]), f64::from(found));
    }
    let is_known = valid().any(|(sample, _)| sample.correct().is_some());
    let solved = |correct: bool| {
        let groups = batch.groups.iter().filter(|group| group.all_are(correct)).count() as f64;
        (is_known || valid().next().is_none()).then_some(groups)
    };
    line.set(metric::ALL_CORRECT, solved(true));
    line.set(metric::ALL_INCORRECT, solved(false));
    line.set(metric::PROMPTS_TRIED, batch.prompts_tried as f64);
    if batch.dynamic {
        line.set(metric::DROPPED_GROUPS, batch.dropped.len() as f64);
        line.set(metric::FILLED_UP_GROUPS, batch.filled_up as f64);
        line.set(metric::SCORE_OF_ALL, batch.mean_reward_of_all);
    }
}

/// What episodes with several turns did; nothing where the step has none.
fn episodes(line: &mut MetricsLine, batch: &StepBatch, environment_idle: Duration) {
    let samples = || batch.groups.iter().flat_map(SampledGroup::samples);
    let all: Vec<(&Sample, &EpisodeRecord)> =
        samples().filter_map(|sample| Some((sample, sample.episode.as_deref()?))).collect();
    if all.is_empty() {
        return;
    }
    let statistics = |of: &dyn Fn(&EpisodeRecord) -> f64| Statistics::of(all.iter().map(|(_, episode)| of(episode)));
    line.set_statistics(|of| metric::TURNS.of([&of]), statistics(&|episode| episode.sampled_turns.into()));
    line.set(metric::TOOL_CALLS, statistics(&|episode| episode.tool_calls.into()).mean());
    line.set(metric::TOOL_ERRORS, all.iter().map(|(_, episode)| f64::from(episode.tool_errors)).sum::<f64>());
    let added = |sample: &Sample| {
        let parts = sample.parts.iter().filter(|part| part.version.is_none());
        parts.map(|part| f64::from(part.tokens)).sum::<f64>()
    };
    line.set(metric::ADDED_TOKENS, Statistics::of(all.iter().map(|(sample, _)| added(sample))).mean());
    for budget in UsedUp::ALL {
        let ended = all.iter().filter(|(_, episode)| episode.used_up == Some(budget)).count();
        if ended > 0 {
            line.set(metric::USED_UP.of([&budget.name()]), ended as f64);
        }
    }
    line.set(metric::EPISODES_AGAIN, all.iter().map(|(_, episode)| f64::from(episode.retries)).sum::<f64>());
    line.set(metric::ENVIRONMENT_IDLE, environment_idle.as_secs_f64());
    let sum = |of: &dyn Fn(&EpisodeRecord) -> u32| all.iter().map(|(_, episode)| f64::from(of(episode))).sum::<f64>();
    let later = sum(&|episode| episode.later_turns);
    line.set(metric::SAME_ENGINE, Some(sum(&|episode| episode.same_engine) / later).filter(|_| later > 0.0));
    if all.iter().any(|(_, episode)| episode.sequences > 1) {
        line.set(metric::SEQUENCES, statistics(&|episode| episode.sequences.into()).mean());
    }
    line.set_statistics(
        |of| metric::ENVIRONMENT_TIME.of([&of]),
        statistics(&|episode| episode.environment_us as f64 / 1e6),
    );
}

/// Each component of the rewards on its own, before its weight.
fn components(line: &mut MetricsLine, batch: &StepBatch) {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for sample in batch.groups.iter().flat_map(SampledGroup::samples) {
        for (name, value) in sample.components() {
            all.entry(name).or_default().push(value);
        }
    }
    for (name, values) in all {
        line.set_statistics(|of| metric::REWARD_COMPONENT.of([&name, &of]), Statistics::of(values));
    }
}

fn timing(line: &mut MetricsLine, batch: &StepBatch, report: &TrainReport, times: StepTimes) {
    let parts = [
        (metric::GENERATION_TIME, times.generation),
        (metric::REWARD_TIME, times.reward),
        (metric::UPDATE_TIME, times.update_actor),
        (metric::WEIGHTS_TIME, times.update_weights),
        (metric::STEP_TIME, times.step),
    ];
    for (part, time) in parts {
        line.set(part, time.as_secs_f64());
    }
    let optimizer = Duration::from_micros(report.timings.unwrap_or_default().optimizer_us);
    line.set(metric::OPTIMIZER_TIME, optimizer.as_secs_f64());
    // As verl counts them: each sample with its prompt.
    let tokens: usize = batch
        .groups
        .iter()
        .map(|group| group.samples().iter().map(|sample| sample.tokens + group.prompt_tokens()).sum::<usize>())
        .sum();
    line.set(metric::TOTAL_TOKENS, tokens as f64);
    line.set(metric::TIME_PER_STEP, times.step.as_secs_f64());
    let seconds = times.step.as_secs_f64();
    line.set(metric::THROUGHPUT, Some(tokens as f64 / seconds).filter(|_| seconds > 0.0));
}

/// The values of each data source under `data_source/NAME`. `names` are those of the whole run, so that lines of all
/// steps have the same. Nothing where there is only one, of which the line as a whole says the same.
pub(super) fn source_values(line: &mut MetricsLine, names: &[String], groups: &[SampledGroup]) {
    if names.len() < 2 {
        return;
    }
    let mut by_source: BTreeMap<&str, Vec<&SampledGroup>> = BTreeMap::new();
    groups.iter().for_each(|group| by_source.entry(group.data_source()).or_default().push(group));
    for name in names {
        let groups = by_source.get(name.as_str()).map_or(&[] as &[&SampledGroup], Vec::as_slice);
        let samples = || groups.iter().flat_map(|group| group.samples());
        let mean = |value: &dyn Fn(&Sample) -> Option<f64>| Statistics::of(samples().filter_map(value)).mean();
        line.set(metric::SOURCE_GROUPS.of([name]), groups.len() as f64);
        line.set(metric::SOURCE_SCORE.of([name]), mean(&|sample| Some(sample.rewards()?.raw)));
        line.set(metric::SOURCE_REWARD.of([name]), mean(&|sample| Some(sample.rewards()?.shaped)));
        line.set(
            metric::SOURCE_LENGTH.of([name]),
            mean(&|sample| sample.is_generated().then_some(sample.tokens as f64)),
        );
        line.set(
            metric::SOURCE_INVALID.of([name]),
            samples().filter(|sample| sample.rewards().is_none()).count() as f64,
        );
        let zero_advantage = groups.iter().filter(|group| group.is_zero_advantage()).count();
        line.set(metric::SOURCE_WITHOUT_ADVANTAGE.of([name]), zero_advantage as f64);
    }
}
