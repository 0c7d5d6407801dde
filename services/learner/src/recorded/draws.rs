//! The tokens of recorded samples, drawn again: each must be the one that its seed and the logits give.

use evenkeel_model::sampling::{SampledFrom, TokenDraw, Truncation};
use evenkeel_proto::{GroupId, Purpose, SamplingSettings};
use evenkeel_run::{Rollout, rollout_name};
use evenkeel_seeds::{Stream, Uniforms};

use super::error::Deviation;
use crate::error::{LearnerError, Result};
use crate::learner::Learner;
use crate::scoring::score;
use crate::sequence::Sequence;

/// How a run with identical engines drew its samples.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// How a whole response is drawn; the seed is each sample's own.
    pub sampling: SamplingSettings,
    /// `run.seed`.
    pub seed: u64,
    /// Tokens of each segment but the last, where several versions may sample a response; `None` otherwise.
    pub segment_tokens: Option<u32>,
    /// Whether the place of a turn counts sampled tokens alone, as where turns may have prompts of their own.
    pub counts_sampled: bool,
    /// Tokens that end a response: none of the first `min_tokens` is one of them.
    pub end_tokens: Vec<u32>,
}

/// How many tokens were drawn again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawnAgain {
    /// Tokens that their seeds give.
    pub tokens: u64,
    /// Samples that were interrupted within a segment, and continued with another seed.
    pub interrupted: u64,
}

impl DrawnAgain {
    /// Adds those of another step or version.
    pub fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.interrupted += other.interrupted;
    }
}

/// Tokens of a sample that one request drew.
#[derive(Clone, Debug, PartialEq)]
struct DrawnPart {
    /// Index of the first.
    first: usize,
    tokens: usize,
    /// The weights that drew them.
    version: u64,
    /// How they were drawn, with their own seed.
    sampling: SamplingSettings,
    /// Whether they go on with an interrupted request.
    is_continued: bool,
}

impl Drawing {
    /// Draws the tokens again that a version sampled, with the weights of a learner, which are of that version.
    ///
    /// # Errors
    /// A failure of the device. The inner error is the first sample that is another one.
    pub(super) fn draw(
        &self,
        learner: &Learner,
        rollouts: &[Rollout],
        version: u64,
    ) -> Result<Result<DrawnAgain, Deviation>> {
        let mut all = DrawnAgain::default();
        for group in rollouts.chunk_by(|one, other| one.group == other.group) {
            match self.draw_group(learner, group, version)? {
                Ok(drawn) => all.add(drawn),
                Err(deviation) => return Ok(Err(deviation)),
            }
        }
        Ok(Ok(all))
    }

    fn draw_group(&self, learner: &Learner, group: &[Rollout], version: u64) -> Result<Result<DrawnAgain, Deviation>> {
        let mut drawn = DrawnAgain::default();
        let (mut sequences, mut draws, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for rollout in group {
            let parts = match self.parts(rollout) {
                Ok(parts) => parts,
                Err(what) => return Ok(Err(deviation(rollout, &what))),
            };
            let own: Vec<&DrawnPart> = parts.iter().filter(|part| part.version == version).collect();
            drawn.interrupted += u64::from(own.iter().any(|part| part.is_continued));
            for (first, prompt, tokens) in sequences_of(rollout) {
                let of_sequence = draws_of(&own, first..first + tokens.len());
                let count = of_sequence.iter().filter(|draw| draw.number.is_some()).count();
                if count == 0 {
                    continue;
                }
                drawn.tokens += count as u64;
                let path = format!("sample {} of prompt {}", rollout.sample, rollout.group);
                match Sequence::of_pair(learner.config(), &path, prompt, tokens) {
                    Ok(sequence) => sequences.push(sequence),
                    Err(LearnerError::Input(error)) => return Ok(Err(deviation(rollout, &error.to_string()))),
                    Err(error) => return Err(error),
                }
                draws.push(of_sequence);
                places.push((rollout, first, tokens));
            }
        }
        if sequences.is_empty() {
            return Ok(Ok(drawn));
        }
        let SamplingSettings { temperature, top_p, top_k, min_p, .. } = self.sampling;
        let truncation = Truncation { top_k: top_k as usize, top_p, min_p };
        let from = SampledFrom { temperature, truncation, end_tokens: &self.end_tokens };
        let trainer = learner.trainer();
        let batches = trainer.pack(&sequences)?;
        let scores = score(trainer.network(), &batches, temperature, Some(from), &draws)?;
        for ((rollout, first, tokens), scores) in places.into_iter().zip(scores) {
            let differs = |(token, drawn): (&u32, &Option<u32>)| drawn.is_some_and(|drawn| drawn != *token);
            if let Some(at) = tokens.iter().zip(&scores.drawn).position(differs) {
                let (found, expected) = (tokens[at], scores.drawn[at].unwrap_or_default());
                let what = format!("has token {found} at {}, and seed and logits give {expected}", first + at);
                return Ok(Err(deviation(rollout, &what)));
            }
        }
        Ok(Ok(drawn))
    }

    /// The parts of a sample that were drawn, each with its seed. The seed follows from the place of the part.
    fn parts(&self, rollout: &Rollout) -> Result<Vec<DrawnPart>, String> {
        let id = GroupId { purpose: Purpose::Train, step: rollout.step, prompt: rollout.group }.sample(rollout.sample);
        let whole = SamplingSettings { seed: id.seed(self.seed), ..self.sampling.clone() };
        let prompt = rollout.prompt_token_ids.as_ref().map_or(0, Vec::len);
        let rest = |of: &SamplingSettings, tokens: usize| {
            let place = u32::try_from(tokens).ok().filter(|place| *place < of.max_tokens);
            place
                .map(|place| of.rest(place))
                .ok_or_else(|| format!("has more tokens than sampling.max_tokens = {}", self.sampling.max_tokens))
        };
        let mut parts: Vec<DrawnPart> = Vec::new();
        // Tokens so far, those that were sampled, those since the last prompt, and what that prompt has besides the
        // row's.
        let (mut at, mut sampled, mut since, mut own) = (0_usize, 0_usize, 0_usize, 0_usize);
        let mut request: Option<(usize, SamplingSettings)> = None;
        for segment in &rollout.segments {
            let tokens = segment.tokens as usize;
            if let Some(turn) = rollout.turn_prompts.iter().find(|turn| turn.first as usize == at) {
                (own, since, request) = (turn.token_ids.len().saturating_sub(prompt), 0, None);
            }
            if let Some(version) = segment.version {
                let is_next = self.segment_tokens.is_some_and(|tokens| sampled.is_multiple_of(tokens.max(1) as usize));
                if is_next && rollout.turns.is_empty() {
                    request = None;
                }
                let is_continued = request.is_some();
                let place = if self.counts_sampled { sampled } else { sampled.max(own + since) };
                let (first, of) = match request.take() {
                    Some(request) => request,
                    None => (at, rest(&whole, place)?),
                };
                parts.push(DrawnPart { first: at, tokens, version, sampling: rest(&of, at - first)?, is_continued });
                request = Some((first, of));
                sampled += tokens;
            } else {
                request = None;
            }
            (at, since) = (at + tokens, since + tokens);
        }
        if let Some(ids) = rollout.token_ids.as_ref().filter(|ids| ids.len() != at) {
            return Err(format!("has {} token ids and segments of {at} tokens", ids.len()));
        }
        if sampled > self.sampling.max_tokens as usize {
            return Err(format!("has more tokens than sampling.max_tokens = {}", self.sampling.max_tokens));
        }
        Ok(parts)
    }
}

fn deviation(rollout: &Rollout, what: &str) -> Deviation {
    let (sample, prompt) = (rollout.sample, rollout.group);
    Deviation { file: rollout_name(rollout.step), what: format!("sample {sample} of prompt {prompt} {what}") }
}

/// The sequences of a sample: the index of the first token, the prompt, and the tokens after it.
fn sequences_of(rollout: &Rollout) -> Vec<(usize, &[u32], &[u32])> {
    let (Some(prompt), Some(tokens)) = (&rollout.prompt_token_ids, &rollout.token_ids) else { return Vec::new() };
    let row = (0, prompt.as_slice());
    let own = rollout.turn_prompts.iter().map(|turn| (turn.first as usize, turn.token_ids.as_slice()));
    let all: Vec<_> = std::iter::once(row).chain(own).collect();
    let end = |index: usize| all.get(index + 1).map_or(tokens.len(), |(next, _)| (*next).min(tokens.len()));
    let sequence = all.iter().enumerate().filter_map(|(index, &(first, prompt))| {
        let own = tokens.get(first..end(index)).filter(|own| !own.is_empty())?;
        Some((first, prompt, own))
    });
    sequence.collect()
}

/// What is known of the draws of a range of tokens.
fn draws_of(parts: &[&DrawnPart], range: std::ops::Range<usize>) -> Vec<TokenDraw> {
    let mut draws = vec![TokenDraw::default(); range.len()];
    for part in parts {
        let mut uniforms = Uniforms::new(part.sampling.seed, Stream::Tokens);
        for number in 0..part.tokens {
            let Some(draw) = (part.first + number).checked_sub(range.start).and_then(|at| draws.get_mut(at)) else {
                continue;
            };
            let cannot_end = number < part.sampling.min_tokens as usize;
            *draw = TokenDraw { number: Some(uniforms.at(number as u64)), cannot_end };
        }
    }
    draws
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn drawing() -> Drawing {
        let sampling = SamplingSettings { min_tokens: 3, ..SamplingSettings::plain(20, 0) };
        Drawing { sampling, seed: 7, segment_tokens: None, counts_sampled: false, end_tokens: vec![1] }
    }

    fn rollout(segments: Value, more: Value) -> Rollout {
        let mut value = json!({
            "step": 3, "group": 5, "sample": 1, "problem": "a", "index": 0, "data_source": "a", "prompt": "ab",
            "text": "x", "tokens": 3, "finish_reason": "stop", "verdict": "correct", "reason": "", "reward": 1.0,
            "shaped_reward": 0.5, "group_outcome": "trained", "segments": segments, "prompt_token_ids": [1, 2],
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn whole() -> SamplingSettings {
        let seed = GroupId { purpose: Purpose::Train, step: 3, prompt: 5 }.sample(1).seed(7);
        SamplingSettings { seed, ..drawing().sampling }
    }

    /// The seed, the tokens without an end, and whether each part goes on with an interrupted one.
    fn seeds(drawing: &Drawing, rollout: &Rollout) -> Vec<(u64, u32, bool)> {
        let parts = drawing.parts(rollout).unwrap();
        parts.iter().map(|part| (part.sampling.seed, part.sampling.min_tokens, part.is_continued)).collect()
    }

    #[test]
    fn a_response_in_one_segment_has_the_seed_of_its_sample() {
        let rollout = rollout(json!([{"version": 2, "tokens": 9}]), json!({}));
        assert_eq!(seeds(&drawing(), &rollout), [(whole().seed, 3, false)]);
    }

    #[test]
    fn segments_of_several_versions_have_seeds_of_their_place_and_an_interrupted_one_is_noted() {
        let rollout = rollout(json!([{"version": 1, "tokens": 2}, {"version": 2, "tokens": 3}]), json!({}));
        let (first, second) = (whole(), whole().rest(2));
        let drawing = Drawing { segment_tokens: Some(2), ..drawing() };
        assert_eq!(seeds(&drawing, &rollout), [(first.seed, 3, false), (second.seed, 1, false)]);
        let drawing = Drawing { segment_tokens: None, ..drawing };
        assert_eq!(seeds(&drawing, &rollout), [(first.seed, 3, false), (second.seed, 1, true)]);
    }

    #[test]
    fn a_turn_is_drawn_by_its_place_with_or_without_what_was_added() {
        let segments =
            json!([{"version": 2, "tokens": 4}, {"version": null, "tokens": 5}, {"version": 2, "tokens": 1}]);
        let rollout = rollout(segments, json!({}));
        let rest_from = |place| (whole().rest(place).seed, 0, false);
        assert_eq!(seeds(&drawing(), &rollout)[1], rest_from(9));
        assert_eq!(seeds(&Drawing { counts_sampled: true, ..drawing() }, &rollout)[1], rest_from(4));
    }

    #[test]
    fn a_prompt_of_a_turn_counts_beyond_that_of_the_row_and_begins_a_sequence() {
        let more = json!({
            "turn_prompts": [{"first": 4, "token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9]}],
            "token_ids": [5, 5, 5, 5, 6],
        });
        let rollout = rollout(json!([{"version": 2, "tokens": 4}, {"version": 2, "tokens": 1}]), more);
        assert_eq!(seeds(&drawing(), &rollout)[1], (whole().rest(7).seed, 0, false));
        let found: Vec<_> =
            sequences_of(&rollout).into_iter().map(|(at, prompt, own)| (at, prompt.len(), own.len())).collect();
        assert_eq!(found, [(0, 2, 4), (4, 9, 1)]);
        let parts = drawing().parts(&rollout).unwrap();
        let draws = draws_of(&parts.iter().collect::<Vec<_>>(), 4..5);
        assert!(draws[0].number.is_some() && !draws[0].cannot_end);
        let draws = draws_of(&parts.iter().collect::<Vec<_>>(), 0..4);
        assert_eq!(draws.iter().filter(|draw| draw.cannot_end).count(), 3);
    }

    #[test]
    fn a_sample_with_more_tokens_than_may_be_drawn_is_another_one() {
        for segments in
            [json!([{"version": 2, "tokens": 21}]), json!([{"version": 2, "tokens": 20}, {"version": 2, "tokens": 1}])]
        {
            let error = drawing().parts(&rollout(segments, json!({}))).unwrap_err();
            assert!(error.contains("sampling.max_tokens = 20"), "{error}");
        }
    }
}
