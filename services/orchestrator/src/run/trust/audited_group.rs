//! A sampled group as the sampler audit sees it.

use evenkeel_proto::arithmetic_of;
use evenkeel_proto::v1::{Segment, SegmentSource, TurnContext};
use evenkeel_trust::{AuditedGroup, AuditedSample, DrawnAnswer, DrawnToken, SeededRun};

use crate::rollout::{Sample, SampledGroup, engines_of};

impl AuditedGroup for SampledGroup {
    fn prompt(&self) -> u64 {
        self.number()
    }

    fn sequences(&self, number: u32) -> u32 {
        self.samples().get(number as usize).map_or(0, |sample| {
            sequences(self.prompt_token_ids(), &sample.contexts, sample.segments.len()).len() as u32
        })
    }

    fn sample(&self, number: u32, sequence: u32) -> Vec<AuditedSample> {
        let Some(sample) = self.samples().get(number as usize) else { return Vec::new() };
        let all = sequences(self.prompt_token_ids(), &sample.contexts, sample.segments.len());
        let Some((first, prompt)) = all.get(sequence as usize).copied() else { return Vec::new() };
        let end = all.get(sequence as usize + 1).map_or(sample.segments.len(), |(next, _)| *next);
        let segments = &sample.segments[first..end];
        let early = if first == 0 { early(segments, &sample.contexts, self.sampling().min_tokens) } else { 0 };
        by_engine(prompt, segments, early)
    }

    fn is_of_one_version(&self) -> bool {
        self.versions().is_some_and(|versions| versions.start() == versions.end())
    }

    fn is_whole(&self) -> bool {
        let is_drawn = |segment: &Segment| segment.source() == SegmentSource::Sampled;
        // A turn with a prompt of its own was drawn from another distribution than those of other samples.
        let is_one_draw = |sample: &Sample| sample.contexts.is_empty() && !sample.segments.is_empty();
        self.samples().iter().all(|sample| is_one_draw(sample) && sample.segments.iter().all(is_drawn))
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        let drawn = self.samples().iter().filter(|sample| !sample.segments.is_empty() && sample.contexts.is_empty());
        let answer = drawn.map(|sample| {
            let tokens = sample.segments.iter().flat_map(|segment| {
                segment.token_ids.iter().copied().zip(segment.log_probabilities.iter().copied().map(f64::from))
            });
            // An answer is a copy from its beginning on, or not at all.
            let first = sample.segments.iter().find(|segment| !segment.engine.is_empty());
            let engine = first.map(|segment| segment.engine.clone()).unwrap_or_default();
            DrawnAnswer { engine, tokens: tokens.collect() }
        });
        answer.collect()
    }
}

/// The first segment of each sequence of a sample of so many segments, with the prompt before it. An episode whose turns
/// have prompts of their own has several; `prompt` is that of its group.
fn sequences<'a>(prompt: &'a [u32], contexts: &'a [TurnContext], segments: usize) -> Vec<(usize, &'a [u32])> {
    let own = contexts.first().filter(|context| context.segment == 0);
    let first = own.map_or(prompt, |own| &own.token_ids);
    let later = contexts.iter().filter(|context| context.segment > 0);
    let later = later.map(|context| (context.segment as usize, &context.token_ids[..]));
    std::iter::once((0, first)).chain(later).filter(|(segment, _)| *segment < segments).collect()
}

/// A sequence as each engine has drawn of it: each answers for its own tokens. Those of others count as nobody's, so
/// that the first `min_tokens` of each engine are left out.
fn by_engine(prompt: &[u32], segments: &[Segment], early: usize) -> Vec<AuditedSample> {
    let response: Vec<u32> = segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
    let sample = |engine: &str| AuditedSample {
        engine: engine.to_owned(),
        arithmetic: arithmetic_of(segments.iter().filter(|segment| segment.engine == engine))
            .unwrap_or_default()
            .to_owned(),
        prompt: prompt.to_vec(),
        response: response.clone(),
        drawn: segments.iter().flat_map(|segment| drawn_tokens(segment, engine)).collect(),
        seeded: seeded(segments, engine),
        early,
    };
    engines_of(segments).into_iter().map(sample).collect()
}

/// The seeds of segments that an engine sampled, where they have one.
fn seeded(segments: &[Segment], engine: &str) -> Vec<SeededRun> {
    let mut first = 0;
    let run = |segment: &Segment| {
        let count = segment.token_ids.len();
        let run = segment.seed.filter(|_| segment.engine == engine).map(|seed| SeededRun { first, count, seed });
        first += count;
        run
    };
    segments.iter().filter_map(run).collect()
}

/// The first tokens of a sample that no end token could be among: those of its first turn, as far as `min_tokens` says.
/// How many are left of these for a later turn, or one with a prompt of its own, depends on what came before it.
fn early(segments: &[Segment], contexts: &[TurnContext], min_tokens: u32) -> usize {
    if contexts.first().is_some_and(|context| context.segment == 0) {
        return 0;
    }
    let turn = segments.iter().take_while(|segment| segment.source() == SegmentSource::Sampled);
    turn.map(|segment| segment.token_ids.len()).sum::<usize>().min(min_tokens as usize)
}

/// How an engine has drawn the tokens of a segment.
fn drawn_tokens(segment: &Segment, engine: &str) -> Vec<Option<DrawnToken>> {
    match (segment.source(), segment.policy_version) {
        (SegmentSource::Sampled, Some(version)) if segment.engine == engine => {
            let token = |&log_probability| Some(DrawnToken { log_probability, version });
            segment.log_probabilities.iter().map(token).collect()
        }
        _ => vec![None; segment.token_ids.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_with_a_prompt_of_its_own_begins_a_sequence() {
        let context = |segment, token_ids: &[u32]| TurnContext { segment, token_ids: token_ids.to_vec() };
        assert_eq!(sequences(&[1], &[], 3), [(0, &[1][..])]);
        let rewritten = [context(0, &[1, 2]), context(2, &[1, 9])];
        assert_eq!(sequences(&[1], &rewritten, 4), [(0, &[1, 2][..]), (2, &[1, 9])]);
        assert_eq!(sequences(&[1], &[context(1, &[5]), context(3, &[6])], 3), [(0, &[1][..]), (1, &[5])]);
        assert!(sequences(&[1], &rewritten, 0).is_empty(), "it could not be generated");
    }

    #[test]
    fn each_engine_answers_for_the_turns_that_it_has_drawn() {
        let turn = |engine: &str, arithmetic: &str, id, seed| Segment {
            engine: engine.to_owned(),
            arithmetic: arithmetic.to_owned(),
            seed,
            ..Segment::sampled(vec![id; 2], vec![-1.0; 2], 3)
        };
        let segments = [
            turn("a", "bits", 7, Some(5)),
            Segment::injected(vec![8]),
            turn("b", "", 9, None),
            turn("a", "bits", 6, Some(4)),
        ];
        let found = by_engine(&[1], &segments, 2);
        let names: Vec<_> = found.iter().map(|sample| (sample.engine.as_str(), sample.arithmetic.as_str())).collect();
        assert_eq!(names, [("a", "bits"), ("b", "")]);
        let drawn = |sample: &AuditedSample| -> Vec<usize> {
            (0..sample.drawn.len()).filter(|&at| sample.drawn[at].is_some()).collect()
        };
        assert_eq!((drawn(&found[0]), drawn(&found[1])), (vec![0, 1, 5, 6], vec![3, 4]));
        let seeds: Vec<_> = found[0].seeded.iter().map(|run| (run.first, run.count, run.seed)).collect();
        assert_eq!(seeds, [(0, 2, 5), (5, 2, 4)]);
        assert!(found[1].seeded.is_empty());
        assert!(found.iter().all(|sample| sample.response == [7, 7, 8, 9, 9, 6, 6] && sample.early == 2));
    }

    #[test]
    fn tokens_that_could_not_end_a_response_are_known_in_its_first_turn_alone() {
        let sampled = |tokens: usize| Segment::sampled(vec![7; tokens], vec![-1.0; tokens], 3);
        let segments = [sampled(2), sampled(3), Segment::injected(vec![8]), sampled(9)];
        let counts = [0, 4, 20].map(|min_tokens| early(&segments, &[], min_tokens));
        assert_eq!(counts, [0, 4, 5]);
        let own = [TurnContext { segment: 0, token_ids: vec![1] }];
        assert_eq!(early(&segments, &own, 4), 0);
    }
}
