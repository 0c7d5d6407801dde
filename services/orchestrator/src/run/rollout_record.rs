//! The samples of a step as they are kept: what was sampled and judged here, with what the learner says it did with
//! each.

use evenkeel_proto::v1::{FinishReason, SampleReport, TrainReport, TurnContext};
use evenkeel_run::{NotTrained, Rollout, TurnPrompt};

use super::prompt_record::outcome;
use super::step_groups::SampledStep;
use crate::error::RunError;
use crate::rollout::{Sample, SampleStatus, SampledGroup};
use crate::settings::{KeptRollouts, LoopSettings};
use crate::text::Tokenizer;

/// Makes the lines of a step.
pub(super) struct RolloutRecord {
    kept: KeptRollouts,
    mask_truncated: bool,
    tokenizer: Tokenizer,
}

impl RolloutRecord {
    pub(super) fn new(settings: &LoopSettings, tokenizer: Tokenizer) -> Self {
        Self { kept: settings.run.rollouts, mask_truncated: settings.shaping.mask_truncated, tokenizer }
    }

    /// The samples of a step, counted from 0, that is done. `None` where none are kept.
    ///
    /// # Errors
    /// A prompt that the tokenizer cannot turn into text.
    pub(super) fn rollouts(
        &self,
        step: u64,
        sampled: &SampledStep,
        report: &TrainReport,
    ) -> Result<Option<Vec<Rollout>>, RunError> {
        let batch = &sampled.batch;
        let sent: usize = batch.groups.iter().map(|group| group.samples().len()).sum();
        // A learner of an earlier version says nothing about samples.
        let mut reports = report.sample_reports.as_slice();
        if reports.len() != sent {
            reports = &[];
        }
        let mut groups: Vec<(&SampledGroup, Option<&[SampleReport]>, bool)> = Vec::new();
        for group in &batch.groups {
            let of_group = reports.split_off(..group.samples().len());
            groups.push((group, of_group, true));
        }
        groups.extend(batch.dropped.iter().map(|group| (group, None, false)));
        match self.kept {
            KeptRollouts::Off => return Ok(None),
            KeptRollouts::All => {}
            KeptRollouts::Groups(most) => {
                let chosen = chosen(groups.iter().map(|(group, ..)| group.number()), most as usize);
                groups.retain(|(group, ..)| chosen.contains(&group.number()));
            }
        }
        let mut rollouts = Vec::with_capacity(groups.len());
        for (group, reports, is_sent) in groups {
            self.add(step, group, reports, is_sent, &mut rollouts)?;
        }
        Ok(Some(rollouts))
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
                detail: detail.detail.clone(),
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
                token_ids: sample.logged_tokens(|segment| segment.token_ids.clone()),
                token_log_probabilities: sample.logged_tokens(|segment| match &segment.log_probabilities[..] {
                    [] => vec![None; segment.token_ids.len()],
                    sampled => sampled.iter().copied().map(Some).collect(),
                }),
                turn_prompts: turn_prompts(sample),
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

/// The prompts of turns that have their own, where the tokens of the sample are kept.
fn turn_prompts(sample: &Sample) -> Vec<TurnPrompt> {
    let tokens = |until: usize| sample.segments[..until].iter().map(|segment| segment.token_ids.len()).sum::<usize>();
    let prompt = |context: &TurnContext| TurnPrompt {
        first: u32::try_from(tokens((context.segment as usize).min(sample.segments.len()))).unwrap_or(u32::MAX),
        token_ids: context.token_ids.clone(),
    };
    if sample.segments.is_empty() { Vec::new() } else { sample.contexts.iter().map(prompt).collect() }
}

/// So many prompts of a step, by a hash of their numbers: which came first, or were short, makes no difference.
fn chosen(prompts: impl Iterator<Item = u64>, most: usize) -> Vec<u64> {
    let mut prompts: Vec<u64> = prompts.collect();
    prompts.sort_by_key(|prompt| (evenkeel_seeds::upper_half(&format!("rollouts/{prompt}")), *prompt));
    prompts.truncate(most);
    prompts
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
