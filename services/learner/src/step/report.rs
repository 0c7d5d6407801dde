//! The report of a step.

use evenkeel_objective::{Aggregation, MismatchByLag, PolicyStats, Quantities, Settings, TermStats};
use evenkeel_run::metric::MetricName;

use super::equality::ComparedTokens;
use super::group_weights::GroupWeights;
use super::loss::ResponseStats;
use super::response_report::ResponseReport;
use super::rule_gradients::GradientProbe;
use crate::skip_reason::SkipReason;
use crate::trainer::Updated;

/// Losses, gradients and ratios of one optimizer update.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateStats {
    /// The whole loss: of the policy, of further terms and of the entropy.
    pub loss: f64,
    /// The policy's part of it.
    pub policy_loss: f64,
    /// The part of each further term, such as the KL term.
    pub term_losses: Vec<f64>,
    /// The entropy term's part of it.
    pub entropy_loss: f64,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Global norm of what the update added to the weights, clipping, weight decay and rounding included; absent where
    /// nothing was changed, and on a GPU.
    pub update_norm: Option<f64>,
    /// Learning rate of the update.
    pub learning_rate: f64,
    /// Why nothing was changed; absent if the update was applied.
    pub skipped: Option<SkipReason>,
    /// Sums over the trainable tokens that went through the model, without the mini-batch normalizer in `loss`.
    pub policy: PolicyStats,
    /// Sums over the same of each further term, likewise.
    pub terms: Vec<TermStats>,
    /// Mean entropy of the same tokens, nats; absent if there were none.
    pub entropy: Option<f64>,
    /// Largest ratio exp(logp - old_logp) of any of them.
    pub largest_ratio: f64,
    /// Mean of abs(logp - rollout_logp) over them, the mismatch between engine and learner.
    pub rollout_gap: Option<f64>,
}

impl UpdateStats {
    /// Statistics of responses, with this many further terms in the loss.
    pub(super) fn of(responses: &[ResponseStats], terms: usize, scale: f64, update: Updated) -> Self {
        let sum = ResponseStats::sum_of(responses, terms);
        let per_token = |total: f64| (sum.policy.tokens > 0).then(|| total / sum.policy.tokens as f64);
        Self {
            loss: scale * sum.loss(),
            policy_loss: scale * sum.policy.loss,
            term_losses: sum.terms.iter().map(|term| scale * term.loss).collect(),
            entropy_loss: scale * sum.entropy_loss,
            grad_norm: update.grad_norm,
            update_norm: update.update_norm,
            learning_rate: update.learning_rate,
            skipped: update.skipped,
            policy: sum.policy,
            terms: sum.terms,
            entropy: per_token(sum.entropy_sum),
            largest_ratio: sum.largest_ratio,
            rollout_gap: per_token(sum.rollout_gap),
        }
    }
}

/// The rule `sides` at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SidesReport {
    /// What multiplied the positive side.
    pub ratio: f64,
    /// Groups that have answers to learn from and gave no gradient: at a ratio of 0, those without a wrong answer.
    pub silenced_groups: usize,
}

impl SidesReport {
    /// Absent under other rules. `objective` is that of the step.
    pub(super) fn of(objective: &Settings, groups: &[GroupWeights]) -> Option<Self> {
        let is_silenced = |group: &&GroupWeights| {
            let view = group.view();
            let mut trained = view.advantages.iter().zip(view.trainable_tokens).filter(|(_, tokens)| **tokens > 0);
            !group.has_signal && trained.any(|(advantage, _)| *advantage != 0.0)
        };
        let dial = objective.constants().sides?;
        Some(Self { ratio: dial.ratio, silenced_groups: groups.iter().filter(is_silenced).count() })
    }
}

/// One step over a whole batch of groups.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Steps done, including this one: the version of the weights after it.
    pub version: u64,
    /// Number of groups received.
    pub groups: usize,
    /// Groups with an advantage other than 0.
    pub groups_with_signal: usize,
    /// Number of responses received.
    pub responses: usize,
    /// Invalid responses: their verification failed for a reason that is not their own.
    pub invalid: usize,
    /// Mean verified reward of the valid responses, before shaping.
    pub raw_reward: Option<f64>,
    /// Mean shaped reward of the valid responses.
    pub reward: Option<f64>,
    /// Mean length of the valid responses in tokens, whatever their mask.
    pub response_length: Option<f64>,
    /// Responses that went through the model.
    pub trained_responses: usize,
    /// Rule that weighted the tokens of the loss.
    pub aggregation: Aggregation,
    /// Quantities of the paper that the step reproduces.
    pub quantities: Quantities,
    /// The optimizer updates, in order; none if no token was trainable.
    pub updates: Vec<UpdateStats>,
    /// What further terms of the loss report.
    pub metrics: Vec<(MetricName, f64)>,
    /// The gradients of all rules, if they were requested.
    pub probe: Option<GradientProbe>,
    /// Statistics for each lag of the trainable tokens that went through the model, if they were requested. Tokens of
    /// later mini-batches are measured before the first update as well, but with `old_logp = rollout` under the weights
    /// of their own first pass.
    pub lags: Option<MismatchByLag>,
    /// Tokens whose log-probability was compared with the engine's, and is equal, and others.
    pub compared: ComparedTokens,
    /// The two sides under the rule `sides`; absent under others.
    pub sides: Option<SidesReport>,
    /// What the step did with each response, in the order of the groups.
    pub response_reports: Vec<ResponseReport>,
}

impl StepReport {
    pub(super) fn of(
        groups: &[GroupWeights],
        aggregation: Aggregation,
        quantities: Quantities,
        trained_responses: usize,
        updates: Vec<UpdateStats>,
        version: u64,
    ) -> Self {
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        Self {
            version,
            groups: groups.len(),
            groups_with_signal: groups.iter().filter(|group| group.has_signal).count(),
            responses: groups.iter().map(|group| group.advantages.len()).sum(),
            invalid: groups.iter().map(|group| group.invalid).sum(),
            raw_reward: mean(&mut groups.iter().flat_map(|group| group.raw_rewards.iter().copied())),
            reward: mean(&mut groups.iter().flat_map(|group| group.rewards.iter().copied())),
            response_length: mean(&mut groups.iter().flat_map(|group| group.lengths.iter().map(|&n| n as f64))),
            trained_responses,
            aggregation,
            quantities,
            updates,
            metrics: Vec::new(),
            probe: None,
            lags: None,
            compared: ComparedTokens::default(),
            sides: None,
            response_reports: Vec::new(),
        }
    }
}
