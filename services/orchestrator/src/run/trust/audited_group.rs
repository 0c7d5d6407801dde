//! A sampled group as the sampler audit sees it.

use evenkeel_proto::v1::{Segment, SegmentSource};
use evenkeel_trust::{AuditedGroup, AuditedSample, DrawnAnswer, DrawnToken, SeededRun};

use crate::rollout::SampledGroup;

impl AuditedGroup for SampledGroup {
    fn prompt(&self) -> u64 {
        self.number()
    }

    fn sample(&self, number: u32) -> Option<AuditedSample> {
        let sample = self.samples().get(number as usize)?;
        // Of an episode whose turns have prompts of their own the first sequence: which it is does not depend on what
        // was sampled.
        let own = sample.contexts.first().filter(|context| context.segment == 0);
        let prompt = own.map_or(self.prompt_token_ids(), |context| &context.token_ids);
        let mut later = sample.contexts.iter().map(|context| context.segment as usize).filter(|first| *first > 0);
        let first = later.next().unwrap_or(sample.segments.len());
        let segments = &sample.segments[..first.min(sample.segments.len())];
        let response: Vec<u32> = segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
        (!response.is_empty()).then(|| AuditedSample {
            engine: sample.engine.clone(),
            arithmetic: arithmetic(segments),
            prompt: prompt.to_vec(),
            response,
            drawn: segments.iter().flat_map(drawn_tokens).collect(),
            seeded: seeded(segments),
        })
    }

    fn is_of_one_version(&self) -> bool {
        self.versions().is_some_and(|versions| versions.start() == versions.end())
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        let drawn = self.samples().iter().filter(|sample| !sample.segments.is_empty());
        let answer = drawn.map(|sample| {
            let tokens = sample.segments.iter().flat_map(|segment| {
                segment.token_ids.iter().copied().zip(segment.log_probabilities.iter().copied().map(f64::from))
            });
            DrawnAnswer { engine: sample.engine.clone(), tokens: tokens.collect() }
        });
        answer.collect()
    }
}

/// The seeds of sampled segments, where they have one.
fn seeded(segments: &[Segment]) -> Vec<SeededRun> {
    let mut first = 0;
    let run = |segment: &Segment| {
        let count = segment.token_ids.len();
        let run = segment.seed.map(|seed| SeededRun { first, count, seed });
        first += count;
        run
    };
    segments.iter().filter_map(run).collect()
}

/// That of all sampled segments; empty if they have several.
fn arithmetic(segments: &[Segment]) -> String {
    let mut sampled = segments.iter().filter(|segment| segment.source() == SegmentSource::Sampled);
    let first = sampled.next().map(|segment| segment.arithmetic.clone()).unwrap_or_default();
    if sampled.all(|segment| segment.arithmetic == first) { first } else { String::new() }
}

fn drawn_tokens(segment: &Segment) -> Vec<Option<DrawnToken>> {
    match (segment.source(), segment.policy_version) {
        (SegmentSource::Sampled, Some(version)) => {
            let token = |&log_probability| Some(DrawnToken { log_probability, version });
            segment.log_probabilities.iter().map(token).collect()
        }
        _ => vec![None; segment.token_ids.len()],
    }
}
