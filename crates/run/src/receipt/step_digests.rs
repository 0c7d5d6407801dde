//! Digests of what a step was made of: prompts, tokens, verdicts, advantages.

use std::collections::BTreeMap;

use super::canonical::Canonical;
use super::line::StepContent;
use crate::rollouts::{Rollout, RolloutSegment, TurnPrompt};

/// Collects the samples of a step, in any order.
///
/// The digests are taken over, in this order:
/// - prompts, for each group: number, problem, its index, token ids, and those of the prompt with a hint, if there is one;
/// - tokens, for each sample: group, number, [`tokens_digest`] or an empty text;
/// - verdicts, for each sample: group, number, why it ended, verdict, reason (empty without a verdict), reward, shaped
///   reward, number of components, and name and value of each;
/// - advantages, for each sample: group, number, advantage, weight, why it was not trained on (or an empty text), outcome
///   of its group.
#[derive(Default)]
pub struct StepDigests {
    prompts: BTreeMap<u64, String>,
    samples: BTreeMap<(u64, u32), SampleDigests>,
    contradictions: Vec<String>,
}

struct SampleDigests {
    tokens: String,
    verdict: String,
    advantage: String,
}

impl StepDigests {
    /// Adds a sample with the token ids of its prompt, and of the prompt with a hint. `tokens` is the [`tokens_digest`]
    /// of its answer; `None` where it has none.
    pub fn add(&mut self, rollout: &Rollout, prompts: (&[u32], Option<&[u32]>), tokens: Option<&str>) {
        let Rollout { group, sample, .. } = *rollout;
        let mut prompt = Canonical::default();
        prompt.number(group).text(&rollout.problem).number(rollout.index).ids(prompts.0);
        if let Some(hinted) = prompts.1 {
            prompt.ids(hinted);
        }
        let prompt = prompt.finish();
        if *self.prompts.entry(group).or_insert_with(|| prompt.clone()) != prompt {
            let what = format!("has another prompt in sample {sample} of prompt {group} than in those before");
            self.contradictions.push(what);
        }
        let tokens = tokens.unwrap_or_default().to_owned();
        let row = SampleDigests { tokens, verdict: verdict(rollout), advantage: advantage(rollout) };
        if self.samples.insert((group, sample), row).is_some() {
            self.contradictions.push(format!("has sample {sample} of prompt {group} twice"));
        }
    }

    /// Adds a sample from a file of rollouts. Returns whether it has its tokens: without them the digests of prompts and
    /// tokens are not those of the step.
    pub fn add_recorded(&mut self, rollout: &Rollout) -> bool {
        let Rollout { prompt_token_ids, segments, token_ids, token_log_probabilities, turn_prompts, .. } = rollout;
        let prompts = (prompt_token_ids.as_deref().unwrap_or_default(), rollout.hinted_prompt_token_ids.as_deref());
        let (tokens, is_complete) = match (token_ids, token_log_probabilities) {
            (Some(ids), Some(values)) => (Some(tokens_digest(segments, ids, values, turn_prompts)), true),
            (None, None) => (None, rollout.tokens == 0),
            _ => (None, false),
        };
        self.add(rollout, prompts, tokens.as_deref());
        is_complete && prompt_token_ids.is_some()
    }

    /// What the samples of one step cannot say together, to follow the name of their file.
    pub fn contradictions(&self) -> &[String] {
        &self.contradictions
    }

    /// The digests of all that was added.
    pub fn finish(self) -> StepContent {
        let of_samples = |part: fn(&SampleDigests) -> &str| {
            let mut all = Canonical::default();
            for ((group, sample), row) in &self.samples {
                all.number(*group).number(u64::from(*sample)).text(part(row));
            }
            all.finish()
        };
        let mut prompts = Canonical::default();
        for prompt in self.prompts.values() {
            prompts.text(prompt);
        }
        StepContent {
            groups: self.prompts.len() as u64,
            samples: self.samples.len() as u64,
            prompts: prompts.finish(),
            tokens: of_samples(|row| &row.tokens),
            verdicts: of_samples(|row| &row.verdict),
            advantages: of_samples(|row| &row.advantage),
        }
    }
}

/// The digest of the tokens of an answer: the version and length of each segment, the ids, the engine's
/// log-probabilities (absent for tokens that were not sampled), and the prompts of turns that have their own.
pub fn tokens_digest(
    segments: &[RolloutSegment],
    ids: &[u32],
    log_probabilities: &[Option<f32>],
    prompts: &[TurnPrompt],
) -> String {
    let mut tokens = Canonical::default();
    tokens.number(segments.len() as u64);
    for RolloutSegment { version, tokens: length } in segments {
        tokens.number(version.map_or(0, |version| version + 1)).number(u64::from(*length));
    }
    tokens.ids(ids).log_probabilities(log_probabilities).number(prompts.len() as u64);
    for TurnPrompt { first, token_ids } in prompts {
        tokens.number(u64::from(*first)).ids(token_ids);
    }
    tokens.finish()
}

fn verdict(rollout: &Rollout) -> String {
    let mut verdict = Canonical::default();
    // Why there is no verdict may name a machine.
    let reason = if rollout.reward.is_some() { &*rollout.reason } else { "" };
    verdict.text(rollout.finish_reason.label()).text(rollout.verdict.label()).text(reason);
    verdict.float(rollout.reward).float(rollout.shaped_reward).number(rollout.components.len() as u64);
    for (name, value) in &rollout.components {
        verdict.text(name).float(Some(*value));
    }
    verdict.finish()
}

fn advantage(rollout: &Rollout) -> String {
    let mut advantage = Canonical::default();
    advantage.float(rollout.advantage).float(rollout.weight);
    advantage.text(rollout.not_trained.as_ref().map_or("", |why| why.label())).text(rollout.group_outcome.label());
    advantage.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollouts::example;

    fn with_tokens(group: u64, sample: u32) -> Rollout {
        Rollout {
            prompt_token_ids: Some(vec![1, 2]),
            token_ids: Some(vec![3; 9]),
            token_log_probabilities: Some(vec![Some(-0.1); 9]),
            ..example(1, group, sample)
        }
    }

    fn content(rollouts: &[Rollout]) -> StepContent {
        let mut digests = StepDigests::default();
        assert!(rollouts.iter().all(|rollout| digests.add_recorded(rollout)));
        digests.finish()
    }

    #[test]
    fn the_order_in_which_samples_finished_does_not_count() {
        let mut rollouts = vec![with_tokens(0, 0), with_tokens(0, 1), with_tokens(4, 0), with_tokens(4, 1)];
        let content_before = content(&rollouts);
        rollouts.reverse();
        assert_eq!(content(&rollouts), content_before);
        assert_eq!((content_before.groups, content_before.samples), (2, 4));
    }

    #[test]
    fn each_digest_is_of_its_own_part() {
        let before = content(&[with_tokens(0, 0)]);
        let changed = |change: fn(&mut Rollout)| {
            let mut rollout = with_tokens(0, 0);
            change(&mut rollout);
            let now = content(&[rollout]);
            [now.prompts != before.prompts, now.tokens != before.tokens, now.verdicts != before.verdicts]
                .into_iter()
                .chain([now.advantages != before.advantages])
                .collect::<Vec<_>>()
        };
        assert_eq!(changed(|rollout| rollout.index += 1), [true, false, false, false]);
        assert_eq!(changed(|rollout| rollout.prompt_token_ids = Some(vec![1, 3])), [true, false, false, false]);
        assert_eq!(changed(|rollout| rollout.hinted_prompt_token_ids = Some(vec![1])), [true, false, false, false]);
        assert_eq!(changed(|rollout| rollout.token_ids = Some(vec![4; 9])), [false, true, false, false]);
        assert_eq!(changed(|rollout| rollout.segments[0].version = None), [false, true, false, false]);
        assert_eq!(changed(|rollout| rollout.reward = Some(0.25)), [false, false, true, false]);
        assert_eq!(changed(|rollout| rollout.reason = "other".to_owned()), [false, false, true, false]);
        assert_eq!(changed(|rollout| rollout.advantage = Some(1.5 + 1e-12)), [false, false, false, true]);
        assert_eq!(changed(|rollout| rollout.text = "other".to_owned()), [false; 4], "tokens say what it is");
    }

    #[test]
    fn a_sample_that_is_there_twice_or_has_another_prompt_than_its_group_is_a_contradiction() {
        let said = |other: Rollout| {
            let mut digests = StepDigests::default();
            digests.add_recorded(&with_tokens(0, 0));
            digests.add_recorded(&other);
            digests.contradictions().join("; ")
        };
        assert_eq!(said(with_tokens(0, 1)), "");
        assert_eq!(said(Rollout { reward: Some(0.25), ..with_tokens(0, 0) }), "has sample 0 of prompt 0 twice");
        let another = "has another prompt in sample 1 of prompt 0 than in those before";
        assert_eq!(said(Rollout { index: 9, ..with_tokens(0, 1) }), another);
        assert_eq!(said(Rollout { problem: "other".to_owned(), ..with_tokens(0, 1) }), another);
        assert_eq!(said(Rollout { prompt_token_ids: Some(vec![1, 3]), ..with_tokens(0, 1) }), another);
    }

    #[test]
    fn samples_without_their_tokens_have_the_same_verdicts_and_advantages() {
        let mut digests = StepDigests::default();
        assert!(!digests.add_recorded(&example(1, 0, 0)));
        assert!(!digests.add_recorded(&Rollout { token_ids: None, ..with_tokens(0, 1) }));
        let whole = content(&[with_tokens(0, 0), with_tokens(0, 1)]);
        assert_eq!(digests.finish().differing(&whole), ["prompts", "tokens"]);
        let mut digests = StepDigests::default();
        let failed = Rollout { token_ids: None, token_log_probabilities: None, tokens: 0, ..with_tokens(0, 0) };
        assert!(digests.add_recorded(&failed));
    }
}
