//! Groups as the learner got them, from rollouts.

use std::collections::BTreeSet;

use evenkeel_objective::LagRun;
use evenkeel_proto::Label;
use evenkeel_proto::v1::{FinishReason, Outcome};
use evenkeel_run::{PromptLine, Rollout};

use crate::group::{ComparedPart, Comparison, Response, ResponseGroup, RewardPart};

/// What a run's settings decide between a rollout and what the learner gets of it.
pub struct SentSamples {
    /// `sampling.min_tokens`: so many tokens at the beginning of a response were drawn without end tokens.
    pub min_tokens: usize,
    /// `shaping.mask_truncated`: responses that were cut off are left out of the loss.
    pub mask_truncated: bool,
    /// Weight of a component in the shaped reward, by its name.
    pub weight: Box<dyn Fn(&str) -> f64 + Send + Sync>,
}

/// Why no groups can be made of the rollouts of a step.
#[derive(Debug)]
pub(super) enum UnreadGroups {
    /// Something was not kept; the text names the setting that keeps it.
    NotKept(String),
    /// The rollouts contradict the step's line or themselves, as no run writes them.
    Contradiction(String),
}

/// Makes the groups of one step.
pub(super) struct GroupReader<'a> {
    pub(super) rewards: &'a SentSamples,
    /// The version that the step was trained from.
    pub(super) base_version: u64,
    /// Whether the engines' log-probabilities were the learner's, to the bit.
    pub(super) is_exact: bool,
    /// The ids of a prompt that was recorded as text alone.
    pub(super) encode: &'a dyn Fn(&str) -> Result<Vec<u32>, String>,
}

impl GroupReader<'_> {
    /// The groups that a line says were sent, each with its rollouts, which come in the same order.
    ///
    /// # Errors
    /// Rollouts that are missing, have no tokens or do not fit the line.
    pub(super) fn groups(&self, line: &PromptLine, all: &[Rollout]) -> Result<Vec<ResponseGroup>, UnreadGroups> {
        use UnreadGroups::{Contradiction, NotKept};
        let mut groups = Vec::new();
        let mut rollouts = all;
        let sent = || {
            line.groups.iter().filter(|record| record.is_sent()).map(|record| {
                let found = all.iter().filter(|rollout| rollout.group == record.prompt).count();
                (record.prompt, found, record.lengths.len() + record.invalid.len())
            })
        };
        // First: what a prompt has too many of, another may lack.
        if let Some((prompt, found, expected)) = sent().find(|(_, found, expected)| found > expected) {
            return Err(Contradiction(format!("prompt {prompt} has {found} samples, and {expected} in prompts.jsonl")));
        }
        for (prompt, found, expected) in sent() {
            if found < expected {
                let hint = if found == 0 { " (run.rollouts keeps those of all groups with \"all\")" } else { "" };
                return Err(NotKept(format!(
                    "prompt {prompt} has {found} of {expected} samples in its rollouts{hint}"
                )));
            }
            let (own, rest) = rollouts.split_at(expected.min(rollouts.len()));
            rollouts = rest;
            if let Some(other) = own.iter().find(|rollout| rollout.group != prompt) {
                let (sample, group) = (other.sample, other.group);
                let what = format!("sample {sample} of prompt {group} is in the place of one of prompt {prompt}");
                return Err(Contradiction(what));
            }
            if let Some((place, sample)) = (0..).zip(own).find(|(place, sample)| sample.sample != *place) {
                let sample = sample.sample;
                let what = format!("sample {sample} of prompt {prompt} is in the place of sample {place}");
                return Err(Contradiction(what));
            }
            groups.push(self.group(prompt, own)?);
        }
        Ok(groups)
    }

    fn group(&self, number: u64, samples: &[Rollout]) -> Result<ResponseGroup, UnreadGroups> {
        let of_prompt = |what: &str| UnreadGroups::Contradiction(format!("prompt {number} {what}"));
        let first = samples.first().ok_or_else(|| of_prompt("has no samples"))?;
        let prompt = match &first.prompt_token_ids {
            Some(ids) => ids.clone(),
            None => (self.encode)(&first.prompt).map_err(|error| of_prompt(&format!("cannot be encoded: {error}")))?,
        };
        // A reward of one part is the whole.
        let weighted: BTreeSet<&str> = samples.iter().flat_map(|sample| self.weighted(sample)).collect();
        let has_parts = weighted.len() > 1;
        let responses = samples.iter().map(|sample| self.response(sample, &prompt, has_parts));
        let responses = responses.collect::<Result<_, _>>()?;
        let hinted_prompt = first.hinted_prompt_token_ids.clone();
        Ok(ResponseGroup { id: format!("prompt {number}"), prompt, hinted_prompt, responses })
    }

    /// The components that count in the reward of a sample.
    fn weighted<'a>(&self, sample: &'a Rollout) -> impl Iterator<Item = &'a str> {
        let names = sample.components.keys().map(String::as_str).filter(|_| sample.reward.is_some());
        names.filter(|name| (self.rewards.weight)(name) != 0.0)
    }

    fn response(&self, sample: &Rollout, prompt: &[u32], has_parts: bool) -> Result<Response, UnreadGroups> {
        let of_sample = |what: &str| format!("sample {} of prompt {} {what}", sample.sample, sample.group);
        if sample.finish_reason.known() == Some(FinishReason::Failed) && sample.token_ids.is_none() {
            // A placeholder, as the run sends it: it enters no statistic and no loss.
            let tokens = prompt.iter().rev().take(1).copied().collect();
            return Ok(Response { tokens, mask: vec![false], rollout_logp: vec![0.0], ..Response::default() });
        }
        let (Some(tokens), Some(logp)) = (&sample.token_ids, &sample.token_log_probabilities) else {
            let what = "has no tokens: the run kept its rollouts without run.rollout_tokens";
            return Err(UnreadGroups::NotKept(of_sample(what)));
        };
        let in_segments = sample.segments.iter().map(|segment| segment.tokens as usize).sum::<usize>();
        if logp.len() != tokens.len() || in_segments != tokens.len() {
            let (ids, values) = (tokens.len(), logp.len());
            let what = format!("has {ids} token ids, {values} log-probabilities and segments of {in_segments} tokens");
            return Err(UnreadGroups::Contradiction(of_sample(&what)));
        }
        let is_excluded = self.rewards.mask_truncated && sample.is_truncated();
        let outcome = Outcome::from_label(sample.verdict.label());
        let parts = self.weighted(sample).filter(|_| has_parts);
        let part = |name: &str| {
            let (weight, value) = ((self.rewards.weight)(name), sample.components[name]);
            (name.to_owned(), RewardPart { weight, value })
        };
        Ok(Response {
            mask: logp.iter().map(|logp| logp.is_some() && !is_excluded).collect(),
            rollout_logp: logp.iter().map(|logp| logp.unwrap_or(0.0)).collect(),
            lags: if is_excluded { Vec::new() } else { self.lags(sample) },
            tokens: tokens.clone(),
            comparisons: self.comparisons(sample),
            contexts: sample.turn_prompts.iter().map(|turn| (turn.first as usize, turn.token_ids.clone())).collect(),
            raw_reward: sample.reward.unwrap_or(0.0),
            reward: sample.shaped_reward.unwrap_or(0.0),
            correct: outcome.filter(|_| sample.reward.is_some()).and_then(Outcome::correct),
            components: parts.map(part).collect(),
            valid: sample.reward.is_some() && sample.shaped_reward.is_some(),
        })
    }

    /// How its tokens are compared with the learner's.
    fn comparisons(&self, sample: &Rollout) -> Vec<Comparison> {
        if !self.is_exact {
            return Vec::new();
        }
        let parts = sample.segments.iter().map(|segment| ComparedPart {
            tokens: segment.tokens as usize,
            is_sampled: segment.version.is_some(),
            is_exact: segment.version == Some(self.base_version),
        });
        Comparison::of_parts(parts, self.rewards.min_tokens)
    }

    /// How far the versions of a sample are behind the step's; empty where none is.
    fn lags(&self, sample: &Rollout) -> Vec<LagRun> {
        let mut runs: Vec<(u64, usize)> = Vec::new();
        for segment in &sample.segments {
            let (Some(version), tokens) = (segment.version, segment.tokens as usize) else { continue };
            match runs.last_mut() {
                Some((last, of_run)) if *last == version => *of_run += tokens,
                _ => runs.push((version, tokens)),
            }
        }
        if runs.iter().all(|(version, _)| *version == self.base_version) {
            return Vec::new();
        }
        let lag = |version: u64| u32::try_from(self.base_version.saturating_sub(version)).unwrap_or(u32::MAX);
        runs.into_iter().map(|(version, tokens)| LagRun { lag: lag(version), tokens }).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sample(sample: u32, more: Value) -> Rollout {
        let mut value = json!({
            "step": 3, "group": 7, "sample": sample, "problem": "a", "index": 0, "data_source": "a", "prompt": "ab",
            "text": "x", "tokens": 3, "finish_reason": "stop", "verdict": "correct", "reason": "", "reward": 1.0,
            "shaped_reward": 0.5, "group_outcome": "trained", "segments": [{"version": 9, "tokens": 3}],
            "token_ids": [4, 5, 6], "token_log_probabilities": [-0.5, null, -0.25],
        });
        for (name, changed) in more.as_object().unwrap() {
            value[name] = changed.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    fn groups(samples: &[Rollout]) -> Result<Vec<ResponseGroup>, UnreadGroups> {
        let weight = |name: &str| if name == "style" || name == "correctness" { 0.25 } else { 0.0 };
        let rewards = SentSamples { min_tokens: 0, mask_truncated: true, weight: Box::new(weight) };
        let encode = |text: &str| Ok(text.bytes().map(u32::from).collect());
        let reader = GroupReader { rewards: &rewards, base_version: 9, is_exact: true, encode: &encode };
        let group = json!({"prompt": 7, "outcome": "trained", "lengths": [3, 3]});
        let dropped = json!({"prompt": 8, "outcome": "dropped_zero_advantage", "lengths": [3]});
        let line = json!({
            "step": 3, "base_version": 9, "next": 9, "learner": {"samples": 2, "tokens": 6}, "groups": [group, dropped],
        });
        reader.groups(&serde_json::from_value(line).unwrap(), samples)
    }

    #[test]
    fn a_group_has_the_samples_of_its_prompt_as_the_learner_got_them() {
        let cut_off = json!({"finish_reason": "length", "prompt_token_ids": [1], "components": {"style": 1.0}});
        let group = &groups(&[sample(0, json!({})), sample(1, cut_off)]).unwrap()[0];
        assert_eq!((group.prompt.as_slice(), group.responses.len()), (&[97, 98][..], 2), "its text is encoded");
        let [first, second] = &group.responses[..] else { panic!("two responses") };
        assert_eq!(
            (first.mask.as_slice(), first.rollout_logp.as_slice()),
            (&[true, false, true][..], &[-0.5, 0.0, -0.25][..])
        );
        assert_eq!((first.raw_reward, first.reward, first.correct, first.valid), (1.0, 0.5, Some(true), true));
        assert!(first.lags.is_empty() && first.components.is_empty(), "a reward of one part is the whole");
        assert_eq!(second.mask, [false; 3], "shaping.mask_truncated");
        let tokens =
            json!({"prompt_token_ids": [1], "segments": [{"version": 7, "tokens": 1}, {"version": 9, "tokens": 2}]});
        let group = &groups(&[sample(0, tokens), sample(1, json!({}))]).unwrap()[0];
        assert_eq!((group.prompt.as_slice(), &group.hinted_prompt), (&[1][..], &None));
        assert_eq!(group.responses[0].lags, [LagRun { lag: 2, tokens: 1 }, LagRun { lag: 0, tokens: 2 }]);
    }

    #[test]
    fn a_group_has_the_prompt_with_its_hint() {
        let hinted = json!({"prompt_token_ids": [1], "hinted_prompt_token_ids": [1, 8]});
        let group = &groups(&[sample(0, hinted), sample(1, json!({}))]).unwrap()[0];
        assert_eq!(group.hinted_prompt, Some(vec![1, 8]));
    }

    #[test]
    fn a_sample_that_was_not_generated_keeps_its_place_and_components_keep_their_weights() {
        let failed = json!({
            "finish_reason": "failed", "verdict": "failed", "reward": null, "shaped_reward": null, "token_ids": null,
            "token_log_probabilities": null, "segments": [],
        });
        let parts = json!({"components": {"correctness": 1.0, "style": 0.5, "format": 1.0}});
        let group = &groups(&[sample(0, failed), sample(1, parts)]).unwrap()[0];
        assert_eq!((group.responses[0].tokens.as_slice(), group.responses[0].valid), (&[98][..], false));
        let parts: Vec<_> =
            group.responses[1].components.iter().map(|(name, part)| (name.as_str(), part.value)).collect();
        assert_eq!(parts, [("correctness", 1.0), ("style", 0.5)]);
    }

    #[test]
    fn samples_that_are_missing_or_without_tokens_were_not_kept() {
        let refused = |samples: &[Rollout], words: &str| match groups(samples) {
            Err(UnreadGroups::NotKept(why)) => assert!(why.contains("prompt 7") && why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        };
        refused(&[], "run.rollouts keeps");
        refused(&[sample(0, json!({}))], "has 1 of 2 samples");
        refused(&[sample(0, json!({})), sample(1, json!({"token_ids": null}))], "run.rollout_tokens");
    }

    #[test]
    fn samples_that_no_run_writes_so_contradict_it_by_prompt() {
        let refused = |samples: &[Rollout], words: &str| match groups(samples) {
            Err(UnreadGroups::Contradiction(what)) => {
                assert!(what.contains("prompt 7") && what.contains(words), "{what}")
            }
            other => panic!("{other:?}"),
        };
        let [first, second] = [0, 1].map(|number| sample(number, json!({})));
        let filtered = sample(0, json!({"group": 8}));
        refused(&[second.clone(), first.clone()], "sample 1 of prompt 7 is in the place of sample 0");
        refused(&[first.clone(), filtered, second.clone()], "sample 0 of prompt 8 is in the place of one of prompt 7");
        refused(&[first.clone(), second.clone(), second], "has 3 samples, and 2 in prompts.jsonl");
        refused(&[first, sample(1, json!({"token_ids": [4]}))], "1 token ids, 3 log-probabilities");
    }
}
