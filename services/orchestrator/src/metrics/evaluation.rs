//! The metrics of an evaluation: mean@k, and pass@k without the bias of drawing with replacement.

use std::time::Duration;

use evenkeel_proto::v1::FinishReason;

use super::{Line, Spread};
use crate::rollout::SampledGroup;

/// The values of an evaluation with `k` samples for each problem.
pub(crate) fn evaluation_values(line: &mut Line, source: &str, k: u32, groups: &[SampledGroup], elapsed: Duration) {
    let core = |name: &str| format!("val-core/{source}/{name}");
    let aux = |name: &str| format!("val-aux/{source}/{name}");
    // First over a problem's samples, then over problems: every problem counts the same, however many verdicts it got.
    let scores = groups.iter().filter_map(|group| {
        Spread::of(group.samples.iter().filter_map(|sample| sample.rewards()).map(|rewards| rewards.raw)).mean()
    });
    line.set(core(&format!("acc/mean@{k}")), Spread::of(scores).mean());
    if k > 1 {
        line.set(core(&format!("acc/pass@{k}")), Spread::of(groups.iter().filter_map(pass_at_all)).mean());
    }
    let samples = || groups.iter().flat_map(|group| &group.samples);
    let sampled = || samples().filter(|sample| sample.is_sampled());
    line.spread(&aux("response_length"), Spread::of(sampled().map(|sample| sample.tokens as f64)));
    let clipped = sampled().map(|sample| f64::from(u8::from(sample.finish_reason == FinishReason::Length)));
    line.set(aux("response_length/clip_ratio"), Spread::of(clipped).mean());
    line.set(aux("problems"), groups.len() as f64);
    line.set(aux("invalid_samples"), samples().filter(|sample| sample.rewards().is_none()).count() as f64);
    line.set("timing_s/testing", elapsed.as_secs_f64());
}

/// 1 where any valid sample is right: of k samples drawn, the unbiased pass@k. `None` where no verdict stands.
fn pass_at_all(group: &SampledGroup) -> Option<f64> {
    let mut valid = group.samples.iter().filter(|sample| sample.rewards().is_some()).peekable();
    valid.peek()?;
    Some(f64::from(u8::from(valid.any(|sample| sample.is_correct()))))
}
