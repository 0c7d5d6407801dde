//! The policy loss of one response and its gradient with respect to each log-probability, in one pass over the tokens.

use std::ops::Range;

use crate::correction::{Factor, FactorCount};
use crate::error::{Error, Place, same_length};
use crate::lanes::{LANES, load_difference, load_keep, sum, trainable_tokens};
use crate::policy::{MAX_LOG_RATIO, Rule, Terms};
use crate::{Correction, Real, Settings};

/// The tokens of one response. Every slice has one element for each token, trainable or not; what stands at a token
/// whose mask is false is never computed with.
#[derive(Debug, Clone, Copy)]
pub struct ResponseTokens<'a, T> {
    /// Whether a token is trainable: sampled by the policy, and not padding, a tool's answer or injected text.
    pub mask: &'a [bool],
    /// Natural log-probabilities under the weights being trained.
    pub logp: &'a [T],
    /// Natural log-probabilities under the learner's weights before the first update on this batch.
    pub old_logp: &'a [T],
    /// Natural log-probabilities under the engine's policy that sampled; needed where a correction is set.
    pub behaviour_logp: Option<&'a [T]>,
}

impl<T: Real> ResponseTokens<'_, T> {
    /// The number of trainable tokens, T of the formulas.
    #[must_use]
    pub fn trainable(&self) -> usize {
        trainable_tokens(self.mask)
    }

    /// Refuses slices of different lengths.
    pub(crate) fn check_lengths(&self) -> Result<(), Error> {
        let length = self.mask.len();
        same_length("logp", self.logp.len(), "mask", length)?;
        same_length("old_logp", self.old_logp.len(), "mask", length)?;
        self.behaviour_logp.map_or(Ok(()), |logp| same_length("behaviour_logp", logp.len(), "mask", length))
    }

    /// Where blocks start.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = usize> + use<T> {
        (0..self.mask.len()).step_by(LANES)
    }

    /// The tokens of the block that starts at a token.
    pub(crate) fn block(&self, start: usize) -> Range<usize> {
        start..self.mask.len().min(start + LANES)
    }

    /// The sum over trainable tokens of `map(a - b)`; `map` takes 0 to 0.
    pub(crate) fn sum_of_differences(&self, a: &[T], b: &[T], map: impl Fn(f64) -> f64) -> f64 {
        let (mut keep, mut lanes) = ([0; LANES], [0.0; LANES]);
        let mut total = 0.0;
        for block in self.blocks().map(|start| self.block(start)) {
            load_keep(&self.mask[block.clone()], &mut keep);
            load_difference(&keep, &a[block.clone()], &b[block], &mut lanes);
            lanes.iter_mut().for_each(|x| *x = map(*x));
            total += sum(&lanes);
        }
        total
    }
}

/// Sums over trainable tokens. They add up over responses and micro-batches, in any split; the fractions and means of
/// the log are quotients of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyStats {
    /// The part of the loss: minus the sum of w c phi.
    pub loss: f64,
    /// Trainable tokens.
    pub tokens: usize,
    /// Tokens on which a clip bound acted, as verl's `pg_clipfrac` counts them: `ppo`, `dual-clip` and `gspo` where the
    /// clipped term is the smaller one; `cispo` where the ratio is out of bounds; `gmpo` where the log-ratio is out of
    /// bounds on either side and A > 0; `aspo` where the term is constant.
    pub clipped: usize,
    /// Tokens at the cap c, as verl's `pg_clipfrac_lower` counts them: `dual-clip` where A < 0, `aspo` on both sides;
    /// for `gmpo` the tokens out of bounds with A < 0; 0 for the others.
    pub clipped_lower: usize,
    /// Sum of `old_logp - logp`, each saturated at [`MAX_LOG_RATIO`]: divided by `tokens` it is verl's `ppo_kl`.
    pub negative_log_ratio: f64,
    /// Sum of the correction's factors c; `tokens` where there is no correction.
    pub correction_sum: f64,
    /// Tokens whose factor a bound of the correction capped or set to 0.
    pub correction_bounded: usize,
}

impl PolicyStats {
    /// Adds the sums of another part of the step.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.clipped_lower += other.clipped_lower;
        self.negative_log_ratio += other.negative_log_ratio;
        self.correction_sum += other.correction_sum;
        self.correction_bounded += other.correction_bounded;
    }

    /// verl's `pg_clipfrac`, over all trainable tokens that were added; absent where there is none.
    #[must_use]
    pub fn clip_fraction(&self) -> Option<f64> {
        self.per_token(self.clipped as f64)
    }

    /// verl's `pg_clipfrac_lower`; absent where there is no token.
    #[must_use]
    pub fn clip_fraction_lower(&self) -> Option<f64> {
        self.per_token(self.clipped_lower as f64)
    }

    /// verl's `ppo_kl`, the mean of `old_logp - logp`; absent where there is no token.
    #[must_use]
    pub fn ppo_kl(&self) -> Option<f64> {
        self.per_token(self.negative_log_ratio)
    }

    /// The mean factor of the correction; absent where there is no token.
    #[must_use]
    pub fn correction_mean(&self) -> Option<f64> {
        self.per_token(self.correction_sum)
    }

    /// The fraction of tokens on which a bound of the correction acted; absent where there is no token.
    #[must_use]
    pub fn correction_fraction(&self) -> Option<f64> {
        self.per_token(self.correction_bounded as f64)
    }

    fn per_token(&self, sum: f64) -> Option<f64> {
        (self.tokens > 0).then(|| sum / self.tokens as f64)
    }
}

/// The loss of one response and d loss / d logp.
///
/// `weight` is the weight of each of its tokens, the group's part alone or times the scalar of the step: loss and
/// gradient are linear in it. `grad` has one element for each token and is overwritten, with 0 at tokens that are not
/// trainable and everywhere if `advantage` or `weight` is 0. The statistics cover such a response as well, but for the
/// clipped tokens: nothing pulls on it, so nothing is clipped.
///
/// Settings are expected to have passed [`Settings::validate`], and input from outside
/// [`ResponseTokens::validate`]; what has not may give NaN or infinities, and never a panic.
///
/// # Errors
/// Slices of different lengths; a correction without `behaviour_logp`.
pub fn response_loss<T: Real>(
    settings: &Settings,
    advantage: f64,
    weight: f64,
    tokens: &ResponseTokens<'_, T>,
    grad: &mut [T],
) -> Result<PolicyStats, Error> {
    tokens.check_lengths()?;
    same_length("grad", grad.len(), "mask", tokens.mask.len())?;
    let behaviour_logp = match settings.correction {
        Correction::None => None,
        _ => Some(tokens.behaviour_logp.ok_or_else(|| missing_behaviour(settings))?),
    };
    let trainable = tokens.trainable();
    let factor = Factor::new(settings, tokens, behaviour_logp);
    let pull = weight * advantage;
    let rule = (pull != 0.0 && trainable > 0).then(|| Rule::new(settings, advantage, tokens, trainable));
    let mut count = FactorCount::new();
    // The sum of c phi, where phi is one value, is T times the mean of c times phi; and so is each slope.
    let spread = match &rule {
        Some(rule) if rule.is_one_value() => factor.spread(tokens, trainable, &mut count),
        _ => factor,
    };

    let (mut keep, mut log_ratio, mut factors) = ([0; LANES], [0.0; LANES], [0.0; LANES]);
    let mut terms = Terms::new();
    let (mut log_ratios, mut objective) = ([0.0; LANES], [0.0; LANES]);
    for start in tokens.blocks() {
        let block = tokens.block(start);
        load_keep(&tokens.mask[block.clone()], &mut keep);
        load_difference(&keep, &tokens.logp[block.clone()], &tokens.old_logp[block.clone()], &mut log_ratio);
        for (total, x) in log_ratios.iter_mut().zip(&mut log_ratio) {
            *x = x.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
            *total += *x;
        }
        spread.load(tokens, start, &keep, &mut factors, &mut count);
        let Some(rule) = &rule else {
            grad[block].fill(T::default());
            continue;
        };
        rule.apply(tokens, start, &keep, &log_ratio, &mut terms);
        for i in 0..LANES {
            objective[i] += factors[i] * terms.value[i];
            factors[i] *= terms.slope[i];
        }
        for (grad, slope) in grad[block].iter_mut().zip(&factors) {
            *grad = T::from_f64(-pull * slope);
        }
    }
    let (correction_sum, correction_bounded) = factor.totals(&count, trainable);
    let (clipped, clipped_lower) = Rule::clipped(settings, advantage, sum(&terms.below), sum(&terms.above));
    Ok(PolicyStats {
        loss: if rule.is_some() { -pull * sum(&objective) } else { 0.0 },
        tokens: trainable,
        // Counts are sums of ones, exact in f64.
        clipped: clipped as usize,
        clipped_lower: clipped_lower as usize,
        negative_log_ratio: -sum(&log_ratios),
        correction_sum,
        correction_bounded: correction_bounded as usize,
    })
}

pub(crate) fn missing_behaviour(settings: &Settings) -> Error {
    let value = format!("absent with correction = {}", settings.correction);
    Error::input("behaviour_logp", Place::default(), value, "one log-probability for each token")
}
