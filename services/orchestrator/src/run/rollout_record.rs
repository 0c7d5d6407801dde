//! The samples of a step as they are kept: what was sampled and judged here, with what the learner says it did with
//! each.

use evenkeel_proto::v1::{FinishReason, SampleReport, TrainReport};
use evenkeel_run::{NotTrained, Rollout, StepContent, StepDigests};

use super::prompt_record::outcome;
use super::step_groups::{KeptTokens, SampledStep};
use crate::error::RunError;
use crate::rollout::{Sample, SampleStatus, SampledGroup};
use crate::settings::{KeptRollouts, LoopSettings};
use crate::text::Tokenizer;

/// The samples of a step.
pub(super) struct StepSamples {
    /// The kept ones; `None` where none are.
    pub(super) kept: Option<Vec<Rollout>>,
    /// Digests of all of them.
    pub(super) content: StepContent,
}

/// Makes the lines of a step.
pub(super) struct RolloutRecord {
    kept: KeptRollouts,
    /// Whether the token ids of prompts are.
    keeps_tokens: bool,
    mask_truncated: bool,
    tokenizer: Tokenizer,
}

impl RolloutRecord {
    pub(super) fn new(settings: &LoopSettings, tokenizer: Tokenizer) -> Self {
        Self {
            kept: settings.run.rollouts,
            keeps_tokens: KeptTokens::of(&settings.run).tokens,
            mask_truncated: settings.shaping.mask_truncated,
            tokenizer,
        }
    }

    /// The samples of a step that is done.
    ///
    /// # Errors
    /// A prompt that the tokenizer cannot turn into text.
    pub(super) fn samples(
        &self,
        step: u64,
        sampled: &SampledStep,
        report: &TrainReport,
    ) -> Result<StepSamples, RunError> {
        let batch = &sampled.batch;
        let sent: usize = batch.groups.iter().map(|group| group.samples().len()).sum();
        // A learner of an earlier version says nothing about samples.
        let mut reports = report.sample_reports.as_slice();
        if reports.len() != sent {
            reports = &[];
        }
        let mut digests = StepDigests::default();
        let mut rollouts = Vec::new();
        for group in &batch.groups {
            let of_group = reports.split_off(..group.samples().len());
            self.add(step, group, of_group, true, &mut rollouts)?;
        }
        for group in &batch.dropped {
            self.add(step, group, None, false, &mut rollouts)?;
        }
        let groups = batch.groups.iter().chain(&batch.dropped);
        let samples = groups.flat_map(|group| group.token_digests().iter().map(move |tokens| (group, tokens)));
        for (rollout, (group, tokens)) in rollouts.iter().zip(samples) {
            let prompts = (group.prompt_token_ids(), group.hinted_prompt_token_ids());
            digests.add(rollout, prompts, tokens.as_deref());
        }
        let kept = match self.kept {
            KeptRollouts::Off => None,
            KeptRollouts::All => Some(rollouts),
            KeptRollouts::Groups(most) => {
                let groups = batch.groups.iter().chain(&batch.dropped);
                let chosen = chosen(groups.map(SampledGroup::number), most as usize);
                rollouts.retain(|rollout| chosen.contains(&rollout.group));
                Some(rollouts)
            }
        };
        Ok(StepSamples { kept, content: digests.finish() })
    }

    fn add(
        &self,
        step: u64,
        group: &SampledGroup,
        reports: Option<&[SampleReport]>,
        is_sent: bool,
        rollouts: &mut Vec<Rollout>,
    ) -> Result<(), RunError> {
        let prompt = self.tokenizer.decode_all(group.prompt_token_ids())?;
        let gold: Vec<String> = group.task().known_answers();
        let (problem, index) = group.problem();
        for (number, sample) in (0..).zip(group.samples()) {
            let report = reports.and_then(|reports| reports.get(number as usize));
            let rewards = sample.rewards();
            let detail = &sample.verdict_detail;
            rollouts.push(Rollout {
                step,
                group: group.number(),
                sample: number,
                problem: problem.to_owned(),
                index,
                data_source: group.data_source().to_owned(),
                prompt: prompt.clone(),
                gold: gold.clone(),
                text: sample.text.clone(),
                tokens: u32::try_from(sample.tokens).unwrap_or(u32::MAX),
                finish_reason: sample.finish_reason.into(),
                verdict: sample.verdict().to_owned().into(),
                reason: sample.failure().unwrap_or(&detail.reason).to_owned(),
                detail: traceback(sample).unwrap_or(&detail.detail).to_owned(),
                extracted: detail.extracted.clone(),
                reward: rewards.map(|rewards| rewards.raw),
                shaped_reward: rewards.map(|rewards| rewards.shaped),
                components: sample.components().map(|(name, value)| (name.to_owned(), value)).collect(),
                advantage: report.map(|report| report.advantage),
                weight: report.map(|report| report.weight),
                not_trained: self.not_trained(group, sample, report, is_sent).map(Into::into),
                group_outcome: outcome(group, is_sent).into(),
                rollout_log_probability: sample.mean_log_probability,
                log_probability: report.and_then(|report| report.log_probability),
                ratio: report.and_then(|report| report.ratio),
                segments: sample.parts.clone(),
                turns: sample.turns().to_vec(),
                used_up: sample.used_up().map(str::to_owned),
                prompt_token_ids: self.keeps_tokens.then(|| group.prompt_token_ids().to_vec()),
                hinted_prompt_token_ids: group
                    .hinted_prompt_token_ids()
                    .filter(|_| self.keeps_tokens)
                    .map(<[u32]>::to_vec),
                token_ids: sample.token_ids(),
                token_log_probabilities: sample.token_log_probabilities(),
                turn_prompts: sample.turn_prompts(),
            });
        }
        Ok(())
    }

    fn not_trained(
        &self,
        group: &SampledGroup,
        sample: &Sample,
        report: Option<&SampleReport>,
        is_sent: bool,
    ) -> Option<NotTrained> {
        let is_masked = self.mask_truncated && sample.finish_reason == FinishReason::Length;
        match &sample.status {
            SampleStatus::Failed { late: true, .. } | SampleStatus::Invalid { late: true, .. } => {
                Some(NotTrained::Late)
            }
            SampleStatus::Failed { .. } => Some(NotTrained::Failed),
            SampleStatus::Invalid { .. } => Some(NotTrained::Invalid),
            SampleStatus::Valid { .. } if !is_sent => Some(NotTrained::Filtered),
            SampleStatus::Valid { .. } if is_masked => Some(NotTrained::Masked),
            SampleStatus::Valid { .. } => match report {
                Some(report) if report.trained => None,
                Some(report) if report.advantage == 0.0 => Some(NotTrained::ZeroAdvantage),
                Some(report) if report.weight == 0.0 => Some(NotTrained::ZeroWeight),
                Some(_) => Some(NotTrained::UpdateSkipped),
                None => group.teaches_nothing().then_some(NotTrained::ZeroAdvantage),
            },
        }
    }
}

/// Chooses at most `most` prompts of a step by a hash of their numbers: order and length play no part.
fn chosen(prompts: impl Iterator<Item = u64>, most: usize) -> Vec<u64> {
    let mut prompts: Vec<u64> = prompts.collect();
    prompts.sort_by_key(|prompt| (evenkeel_seeds::upper_half(&format!("rollouts/{prompt}")), *prompt));
    prompts.truncate(most);
    prompts
}

/// What follows the first line of why a sample is left out.
fn traceback(sample: &Sample) -> Option<&str> {
    Some(sample.failure_in_full()?.split_once('\n')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_that_are_kept_do_not_depend_on_which_came_first() {
        let forwards = chosen(0..40, 5);
        assert_eq!((forwards.len(), &chosen((0..40).rev(), 5)), (5, &forwards));
        assert_ne!(forwards, [0, 1, 2, 3, 4]);
        assert_eq!(chosen(0..3, 5).len(), 3);
    }
}
