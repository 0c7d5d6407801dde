//! The metrics of a step: of its rollouts and verdicts as they are known here, of the training as the learner reports it.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{FinishReason, Outcome, TrainReport};

use super::{Line, Spread};
use crate::rollout::{Judgement, Sample, SampledGroup, StepBatch};

/// Where the wall time of a step went; the parts do not overlap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepTimes {
    /// Until the last rollout ended.
    pub(crate) generation: Duration,
    /// From there until the last verdict: what verification cost beyond what ran beside generation.
    pub(crate) reward: Duration,
    /// From there until the report.
    pub(crate) update_actor: Duration,
    /// Publishing, and switching the engines.
    pub(crate) update_weights: Duration,
    /// All of it.
    pub(crate) step: Duration,
}

/// The values of a GRPO step. `epoch` is that of its first prompt.
pub(crate) fn step_values(line: &mut Line, batch: &StepBatch, report: &TrainReport, epoch: u64, times: StepTimes) {
    line.set("training/global_step", (line.step + 1) as f64);
    line.set("training/epoch", epoch as f64);
    rollouts(line, batch);
    training(line, report);
    timing(line, batch, times);
}

/// The values of a supervised step.
pub(crate) fn warm_start_values(line: &mut Line, report: &TrainReport, elapsed: Duration) {
    line.set("warm_start/global_step", (line.step + 1) as f64);
    line.set("warm_start/loss", report.loss);
    line.set("warm_start/grad_norm", report.gradient_norm);
    line.set("warm_start/lr", report.learning_rate);
    line.set("warm_start/skipped", f64::from(u8::from(report.skipped)));
    line.set("warm_start/tokens", report.trainable_tokens as f64);
    for (name, value) in &report.metrics {
        line.values.entry(name.clone()).or_insert(*value);
    }
    line.set("timing_s/step", elapsed.as_secs_f64());
}

fn rollouts(line: &mut Line, batch: &StepBatch) {
    let samples = || batch.groups.iter().flat_map(|group| &group.samples);
    let valid = || samples().filter_map(|sample| sample.rewards().map(|rewards| (sample, rewards)));
    line.spread("critic/score", Spread::of(valid().map(|(_, rewards)| rewards.raw)));
    line.spread("critic/rewards", Spread::of(valid().map(|(_, rewards)| rewards.shaped)));
    line.spread("prompt_length", Spread::of(batch.groups.iter().map(|group| group.prompt_tokens() as f64)));

    let sampled = || samples().filter(|sample| sample.is_sampled());
    line.spread("response_length", Spread::of(sampled().map(|sample| sample.tokens as f64)));
    let share =
        |of: &dyn Fn(&Sample) -> bool| Spread::of(sampled().map(|sample| f64::from(u8::from(of(sample))))).mean();
    line.set("response_length/clip_ratio", share(&|sample| sample.finish_reason == FinishReason::Length));
    let of_right = |right: bool| {
        let matching = valid().filter(move |(sample, _)| sample.is_correct() == right);
        Spread::of(matching.map(|(sample, _)| sample.tokens as f64)).mean()
    };
    line.set("response_length/correct/mean", of_right(true));
    line.set("response_length/incorrect/mean", of_right(false));

    let count = |of: &dyn Fn(&Sample) -> bool| samples().filter(|sample| of(sample)).count() as f64;
    line.set("rollout/samples", count(&|_| true));
    line.set("rollout/invalid_samples", count(&|sample| sample.rewards().is_none()));
    line.set("rollout/failed_samples", count(&|sample| matches!(sample.judgement, Judgement::Failed { .. })));
    line.set("rollout/late_samples", count(&|sample| sample.is_late()));
    line.set("rollout/verified_again", samples().map(|sample| f64::from(sample.verified_again)).sum::<f64>());
    line.set("rollout/begun_again", samples().map(|sample| f64::from(sample.begun_again)).sum::<f64>());
    for &outcome in Outcome::ALL {
        let of_outcome =
            |sample: &Sample| matches!(&sample.judgement, Judgement::Valid { outcome: found, .. } if *found == outcome);
        let found = count(&of_outcome);
        if found > 0.0 {
            line.set(format!("rollout/outcome/{}", outcome.label()), found);
        }
    }
    let solved = |of: &dyn Fn(&SampledGroup) -> bool| batch.groups.iter().filter(|group| of(group)).count() as f64;
    line.set("rollout/groups_all_correct", solved(&|group| group.all_equal() == Some(1.0)));
    line.set("rollout/groups_all_incorrect", solved(&|group| group.all_equal() == Some(0.0)));
    line.set("training/prompts_tried", batch.tried as f64);
    if batch.dynamic {
        line.set("training/filter_groups/dropped_groups", batch.dropped as f64);
        line.set("training/filter_groups/filled_up_groups", batch.filled_up as f64);
        line.set("training/filter_groups/score_of_all/mean", batch.score_of_all);
    }
}

fn training(line: &mut Line, report: &TrainReport) {
    // The learner's own names first: what it calls by verl's names is what verl means by them.
    for (name, value) in &report.metrics {
        line.set(name.as_str(), *value);
    }
    line.set("actor/loss", report.loss);
    line.values.entry("actor/pg_loss".to_owned()).or_insert(report.loss);
    line.set("actor/grad_norm", report.gradient_norm);
    line.set("actor/lr", report.learning_rate);
    line.set("actor/skipped", f64::from(u8::from(report.skipped)));
    line.set("actor/trainable_tokens", report.trainable_tokens as f64);
    line.set("actor/groups_without_signal", f64::from(report.groups_without_signal));
}

fn timing(line: &mut Line, batch: &StepBatch, times: StepTimes) {
    let parts = [
        ("gen", times.generation),
        ("reward", times.reward),
        ("update_actor", times.update_actor),
        ("update_weights", times.update_weights),
        ("step", times.step),
    ];
    for (name, time) in parts {
        line.set(format!("timing_s/{name}"), time.as_secs_f64());
    }
    // As verl counts them: each sample with its prompt.
    let tokens: usize = batch
        .groups
        .iter()
        .map(|group| group.samples.iter().map(|sample| sample.tokens + group.prompt_tokens()).sum::<usize>())
        .sum();
    line.set("perf/total_num_tokens", tokens as f64);
    line.set("perf/time_per_step", times.step.as_secs_f64());
    let seconds = times.step.as_secs_f64();
    line.set("perf/throughput", Some(tokens as f64 / seconds).filter(|_| seconds > 0.0));
}
