//! What became of the prompts of a step, as the audit reads it afterwards.

use evenkeel_proto::v1::TrainReport;
use evenkeel_run::{GroupRecord, PromptLine, PromptOutcome, Received};

use super::step_groups::SampledStep;
use crate::rollout::{Sample, SampledGroup};

/// The line of a step that is done.
pub(super) fn prompt_line(step: u64, sampled: &SampledStep, report: &TrainReport) -> PromptLine {
    let batch = &sampled.batch;
    let sent = batch.groups.iter().map(|group| record(group, true));
    let dropped = batch.dropped.iter().map(|group| record(group, false));
    let samples = report.samples.saturating_sub(report.invalid_samples);
    PromptLine {
        step,
        base_version: report.base_version,
        next: sampled.next_prompt,
        waiting: sampled.waiting.clone(),
        learner: Received { samples: samples.into(), tokens: report.response_tokens },
        groups: sent.chain(dropped).collect(),
    }
}

fn record(group: &SampledGroup, is_sent: bool) -> GroupRecord {
    let (oldest, newest) = group.versions().map(|versions| (*versions.start(), *versions.end())).unzip();
    let lengths = |are_judged: bool| {
        let of_kind = group.samples().iter().filter(move |sample| sample.rewards().is_some() == are_judged);
        of_kind.map(length).collect()
    };
    GroupRecord {
        prompt: group.number(),
        outcome: outcome(group, is_sent).into(),
        version: oldest,
        newest: newest.filter(|newest| Some(*newest) != oldest),
        lengths: lengths(true),
        invalid: lengths(false),
    }
}

/// What became of a group.
pub(super) fn outcome(group: &SampledGroup, is_sent: bool) -> PromptOutcome {
    let is_judged = group.samples().iter().any(|sample| sample.rewards().is_some());
    match (is_sent, is_judged) {
        (true, false) => PromptOutcome::Invalid,
        (false, false) => PromptOutcome::DroppedInvalid,
        (true, true) if group.teaches_nothing() => PromptOutcome::TrainedZeroAdvantage,
        (true, true) => PromptOutcome::Trained,
        (false, true) => PromptOutcome::DroppedZeroAdvantage,
    }
}

/// Tokens of a response as the learner gets it, with what an environment added.
fn length(sample: &Sample) -> u32 {
    sample.parts.iter().fold(0, |tokens, part| part.tokens.saturating_add(tokens))
}
