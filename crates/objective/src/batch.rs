//! The whole objective of a mini-batch at once, for callers with all groups in memory; a learner that takes groups as
//! they arrive calls the parts itself.

use crate::error::Error;
use crate::{
    Aggregation, GroupTerms, MiniBatchCounts, PolicyStats, Real, ResponseTokens, RewardComponent, Settings, TermStats,
    response_kl, response_loss,
};

/// A response of a group.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a, T> {
    /// The reward; not read if the response is invalid.
    pub reward: f64,
    /// False if verification failed for a reason that is not the response's own; it then enters nothing.
    pub valid: bool,
    /// Log-probabilities of the response, token by token.
    pub tokens: ResponseTokens<'a, T>,
    /// Natural log-probabilities under the reference policy, one for each token; required if `kl_coefficient` is set.
    pub reference_logp: Option<&'a [T]>,
}

/// The objective of a mini-batch. The outer index of each list is the group, the next one the response.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchLoss<T> {
    /// The policy loss plus the KL term.
    pub loss: f64,
    /// Advantages; 0 for an invalid response.
    pub advantages: Vec<Vec<f64>>,
    /// The weight of each trainable token of a response, 0 if it has none.
    pub weights: Vec<Vec<f64>>,
    /// The weight of KL and entropy terms of each trainable token of a response, 0 if it has none.
    pub regularizer_weights: Vec<Vec<f64>>,
    /// d loss / d logp, one for each token, 0 at tokens that are not trainable.
    pub gradients: Vec<Vec<Vec<T>>>,
    /// Sums over the valid responses; its loss is the policy loss.
    pub policy: PolicyStats,
    /// Sums of the KL term over the valid responses that have `reference_logp`.
    pub kl: TermStats,
    /// The counts P, N and Q of the mini-batch.
    pub counts: MiniBatchCounts,
}

/// Computes advantages, weights, loss and gradient of a whole mini-batch.
///
/// Settings must pass [`Settings::validate`]. An `entropy_coefficient` is refused: the entropy of a token does not
/// follow from its log-probability. Check external input with [`validate_batch`](crate::validate_batch) first.
///
/// # Errors
/// Settings out of range; an entropy coefficient; slices of different lengths; a reward that is not finite; a missing
/// `rollout_logp` or `reference_logp`.
pub fn batch_loss<T: Real>(settings: &Settings, groups: &[Vec<Response<'_, T>>]) -> Result<BatchLoss<T>, Error> {
    batch_loss_of_components(settings, groups, &[])
}

/// Computes [`batch_loss`] for rewards that are sums of components, which `gdpo` normalises one by one. `components`
/// has those of each group, in the order of `groups`; a group without any has its reward as the only one.
///
/// # Errors
/// As [`batch_loss`]; a component with another number of values than its group has responses, or out of range.
pub fn batch_loss_of_components<T: Real>(
    settings: &Settings,
    groups: &[Vec<Response<'_, T>>],
    components: &[Vec<RewardComponent>],
) -> Result<BatchLoss<T>, Error> {
    settings.validate()?;
    if settings.entropy_coefficient != 0.0 {
        let allowed = "0 for batch_loss, which has no entropies; add the term with entropy_slope";
        return Err(Error::refused("entropy_coefficient", settings.entropy_coefficient, allowed));
    }
    let mut out = BatchLoss {
        loss: 0.0,
        advantages: Vec::with_capacity(groups.len()),
        weights: Vec::with_capacity(groups.len()),
        regularizer_weights: Vec::with_capacity(groups.len()),
        gradients: Vec::with_capacity(groups.len()),
        policy: PolicyStats::default(),
        kl: TermStats::default(),
        counts: MiniBatchCounts::default(),
    };
    for (g, group) in groups.iter().enumerate() {
        let of_group = components.get(g).map_or(&[][..], Vec::as_slice);
        let terms = weigh(settings, group, of_group).map_err(|error| error.at(g, None))?;
        out.counts.add(terms.counts);
        out.advantages.push(terms.advantages);
        out.weights.push(terms.weights);
        out.regularizer_weights.push(terms.regularizer_weights);
    }
    let normalizer = out.counts.policy_scale(settings.aggregation, settings.advantage);
    let regularizer_normalizer = out.counts.normalizer(Aggregation::Token);
    out.weights.iter_mut().flatten().for_each(|w| *w *= normalizer);
    out.regularizer_weights.iter_mut().flatten().for_each(|w| *w *= regularizer_normalizer);

    for (g, group) in groups.iter().enumerate() {
        let mut gradients = Vec::with_capacity(group.len());
        for (i, response) in group.iter().enumerate() {
            let mut grad = vec![T::default(); response.tokens.mask.len()];
            if response.valid {
                let advantage = out.advantages[g][i];
                let weight = out.weights[g][i];
                let policy = response_loss(settings, advantage, weight, &response.tokens, &mut grad);
                out.policy.add(&policy.map_err(|error| error.at(g, Some(i)))?);
                let kl = kl_term(settings, out.regularizer_weights[g][i], response, &mut grad);
                out.kl.add(&kl.map_err(|error| error.at(g, Some(i)))?);
            }
            gradients.push(grad);
        }
        out.gradients.push(gradients);
    }
    out.loss = out.policy.loss + out.kl.loss;
    Ok(out)
}

fn weigh<T: Real>(
    settings: &Settings,
    group: &[Response<'_, T>],
    components: &[RewardComponent],
) -> Result<GroupTerms, Error> {
    let rewards: Vec<f64> = group.iter().map(|response| response.reward).collect();
    let valid: Vec<bool> = group.iter().map(|response| response.valid).collect();
    let trainable: Vec<usize> = group.iter().map(|r| if r.valid { r.tokens.trainable() } else { 0 }).collect();
    GroupTerms::with_components(settings, &rewards, components, &valid, &trainable)
}

fn kl_term<T: Real>(
    settings: &Settings,
    weight: f64,
    response: &Response<'_, T>,
    grad: &mut [T],
) -> Result<TermStats, Error> {
    let tokens = &response.tokens;
    match response.reference_logp {
        Some(reference) => response_kl(settings, weight, tokens.mask, tokens.logp, reference, grad),
        None if settings.kl_coefficient == 0.0 => Ok(TermStats::default()),
        None => {
            let value = format!("absent with kl_coefficient = {}", settings.kl_coefficient);
            Err(Error::refused("reference_logp", value, "one log-probability for each token"))
        }
    }
}
