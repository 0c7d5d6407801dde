//! The metrics of an evaluation: mean@k, and pass@k without the bias of sampling with replacement.

use std::time::Duration;

use evenkeel_proto::v1::FinishReason;

use crate::metrics::{MetricsLine, Statistics};
use crate::rollout::{Sample, SampledGroup};

/// The values of an evaluation with `k` samples for each problem.
pub(super) fn evaluation_values(
    line: &mut MetricsLine,
    source: &str,
    k: u32,
    groups: &[SampledGroup],
    elapsed: Duration,
) {
    let core = |name: &str| format!("val-core/{source}/{name}");
    let aux = |name: &str| format!("val-aux/{source}/{name}");
    // First over a problem's samples, then over problems: every problem counts the same, however many of its samples have a verdict.
    let scores = groups.iter().filter_map(|group| {
        Statistics::of(group.samples().iter().filter_map(Sample::rewards).map(|rewards| rewards.raw)).mean()
    });
    line.set(core(&format!("acc/mean@{k}")), Statistics::of(scores).mean());
    if k > 1 {
        line.set(core(&format!("acc/pass@{k}")), Statistics::of(groups.iter().filter_map(pass_at_k)).mean());
    }
    let samples = || groups.iter().flat_map(SampledGroup::samples);
    let generated = || samples().filter(|sample| sample.is_generated());
    line.set_statistics(&aux("response_length"), Statistics::of(generated().map(|sample| sample.tokens as f64)));
    let clipped = generated().map(|sample| f64::from(u8::from(sample.finish_reason == FinishReason::Length)));
    line.set(aux("response_length/clip_ratio"), Statistics::of(clipped).mean());
    line.set(aux("problems"), groups.len() as f64);
    line.set(aux("invalid_samples"), samples().filter(|sample| sample.rewards().is_none()).count() as f64);
    line.set("timing_s/testing", elapsed.as_secs_f64());
}

/// 1 where any valid sample is correct: of all k samples, the unbiased pass@k. `None` where none has a verdict.
fn pass_at_k(group: &SampledGroup) -> Option<f64> {
    let mut valid = group.samples().iter().filter(|sample| sample.rewards().is_some()).peekable();
    valid.peek()?;
    Some(f64::from(u8::from(valid.any(|sample| sample.is_correct()))))
}
