//! A sample that is audited, from its segments and the learner's statistics to tokens.

use std::collections::BTreeSet;

use evenkeel_proto::v1::{Segment, SegmentSource, TokenStatistics};
use evenkeel_seeds::Uniforms;

use super::checks::Token;
use crate::rollout::Sample;

/// The logarithm of 0.05, the share of the likeliest token that `below_floor` is about.
const LN_FLOOR: f64 = -2.995_732_273_553_991;

/// A chosen sample as it came from the engine, whatever its verdict.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AuditedSample {
    pub(super) engine: String,
    pub(super) prompt: Vec<u32>,
    pub(super) response: Vec<u32>,
    /// For each token of the response its log-probability and the version that sampled it; `None` where no engine
    /// sampled it.
    sampled: Vec<Option<(f32, u64)>>,
}

impl AuditedSample {
    /// `None` for a sample that could not be generated.
    pub(super) fn of(prompt: &[u32], sample: &Sample) -> Option<Self> {
        // Of an episode whose turns have prompts of their own the first sequence: which it is does not depend on what
        // was sampled.
        let own = sample.contexts.first().filter(|context| context.segment == 0);
        let prompt = own.map_or(prompt, |context| &context.token_ids);
        let mut later = sample.contexts.iter().map(|context| context.segment as usize).filter(|first| *first > 0);
        let first = later.next().unwrap_or(sample.segments.len());
        let segments = &sample.segments[..first.min(sample.segments.len())];
        let response: Vec<u32> = segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
        let sampled = segments.iter().flat_map(sampled_tokens).collect();
        (!response.is_empty()).then(|| Self {
            engine: sample.engine.clone(),
            prompt: prompt.to_vec(),
            response,
            sampled,
        })
    }

    /// The versions that sampled tokens of it.
    pub(super) fn versions(&self) -> BTreeSet<u64> {
        self.sampled.iter().flatten().map(|(_, version)| *version).collect()
    }

    /// The tokens that a version sampled, from the `first` of the response on. `statistics` are the learner's under
    /// that version; ties among equally likely tokens are broken by `uniforms`, of which each token takes the next.
    pub(super) fn tokens(
        &self,
        version: u64,
        first: usize,
        statistics: &TokenStatistics,
        ends: &[u32],
        uniforms: &mut impl FnMut() -> f64,
    ) -> Vec<Token> {
        let tokens = self.sampled.iter().enumerate().skip(first);
        let of_version =
            tokens.filter_map(|(at, sampled)| sampled.filter(|(_, by)| *by == version).map(|(log_p, _)| (at, log_p)));
        of_version
            .filter_map(|(at, log_p)| token(statistics, at, log_p, ends.contains(&self.response[at]), uniforms()))
            .collect()
    }
}

fn sampled_tokens(segment: &Segment) -> Vec<Option<(f32, u64)>> {
    match (segment.source(), segment.policy_version) {
        (SegmentSource::Sampled, Some(version)) => {
            segment.log_probabilities.iter().map(|log_p| Some((*log_p, version))).collect()
        }
        _ => vec![None; segment.token_ids.len()],
    }
}

/// `None` where the statistics lack the token.
fn token(statistics: &TokenStatistics, at: usize, engine: f32, is_end: bool, uniform: f64) -> Option<Token> {
    let get = |list: &[f32]| list.get(at).copied().map(f64::from);
    let learner = get(&statistics.log_probabilities)?;
    let below = get(&statistics.less_likely)? + uniform * get(&statistics.equally_likely)?;
    let is_drawable = learner != f64::NEG_INFINITY;
    let floor = get(&statistics.largest_log_probabilities)? + LN_FLOOR;
    Some(Token {
        learner,
        engine: f64::from(engine),
        surprise: if is_drawable { get(&statistics.surprises)? } else { 0.0 },
        entropy: get(&statistics.entropies)?,
        variance: get(&statistics.variances)?,
        rare: [
            (is_drawable && below < 0.01, 0.01),
            (is_drawable && below < 0.05, 0.05),
            (is_drawable && *statistics.ranks.get(at)? > 50, get(&statistics.beyond_rank_50)?),
            (is_drawable && learner < floor, get(&statistics.below_floor)?),
        ],
        is_end,
        end_probability: get(&statistics.end_probabilities)?,
    })
}

/// Numbers that break ties, one after the other.
pub(super) fn ties(mut uniforms: Uniforms, from: u64) -> impl FnMut() -> f64 {
    let mut next = from;
    move || {
        next += 1;
        uniforms.at(next)
    }
}
