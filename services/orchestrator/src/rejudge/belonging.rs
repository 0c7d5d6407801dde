//! Whether a recorded sample belongs to the run's data, and its text to its tokens.

use evenkeel_proto::v1::FinishReason;
use evenkeel_run::Rollout;

use super::{Rejudge, is_unanswered};
use crate::data::PromptSampler;
use crate::error::RunError;

impl Rejudge {
    /// The first sample of a step that the data or its own tokens contradict, by its place among these, and what it has,
    /// to follow its name.
    ///
    /// # Errors
    /// Tokens that the tokenizer refuses.
    pub fn contradiction(&self, rollouts: &[Rollout]) -> Result<Option<(usize, String)>, RunError> {
        let mut order = self.order.clone();
        for (place, rollout) in rollouts.iter().enumerate() {
            let what = match self.other_row(rollout, &mut order) {
                None => self.other_text(rollout)?,
                found => found,
            };
            if let Some(what) = what {
                return Ok(Some((place, what)));
            }
        }
        Ok(None)
    }

    /// How the prompt of a sample differs from that in its place of the data order.
    fn other_row(&self, rollout: &Rollout, order: &mut PromptSampler) -> Option<String> {
        let place = order.at(rollout.group);
        let row = &self.prompts[place];
        if rollout.index != place as u64 || *row.id != *rollout.problem {
            let (found, index) = (&rollout.problem, rollout.index);
            return Some(format!(
                "is of `{found}`, row {index} of the data, and the data order has `{}`, row {place}, in its place",
                row.id
            ));
        }
        if rollout.prompt_token_ids.as_ref().is_some_and(|ids| **ids != *row.token_ids) {
            return Some(format!("has another prompt than `{}` of the data", row.id));
        }
        if rollout.prompt_token_ids.is_some() && rollout.hinted_prompt_token_ids.as_deref() != row.hinted.as_deref() {
            return Some(format!("has another prompt with a hint than `{}` of the data", row.id));
        }
        let is_known = row.task.known_answers() == rollout.gold;
        (!is_known).then(|| format!("has other gold answers than `{}` of the data", row.id))
    }

    /// How the text of a sample, or its number of tokens, differs from its tokens.
    fn other_text(&self, rollout: &Rollout) -> Result<Option<String>, RunError> {
        let Some(ids) = rollout.token_ids.as_ref().filter(|_| !is_unanswered(rollout)) else { return Ok(None) };
        let sampled = rollout.segments.iter().filter(|segment| segment.version.is_some());
        let tokens: u32 = sampled.map(|segment| segment.tokens).sum();
        if tokens != rollout.tokens {
            return Ok(Some(format!("says that it has {} tokens, and has {tokens}", rollout.tokens)));
        }
        if self.tokenizer.decode(&self.answer_tokens(rollout)?)? != rollout.text {
            return Ok(Some("has another text than its tokens".to_owned()));
        }
        let (ends, stops) = (self.tokenizer.ends(), &self.settings.sampling.stop_token_ids);
        let is_stopped = rollout.turns.is_empty() && rollout.finish_reason.known() == Some(FinishReason::Stop);
        let last = ids.last().filter(|last| !ends.contains(last) && !stops.contains(last));
        let last = last.filter(|_| is_stopped && !ends.is_empty());
        Ok(last.map(|last| format!("has stopped after token {last}, which ends no response")))
    }
}
