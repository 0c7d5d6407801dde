//! How far the policy that a step begins with is from those that sampled its tokens, for each lag.
//!
//! The lag of a token is the number of versions that the weights which sampled it are behind those of the step. The
//! token's ratio is `exp(old_logp - rollout_logp)`: the policy at the beginning of the step over the policy that
//! sampled, from which a correction makes its factor c. With the decoupled objective (arXiv 2110.00641, eq. 5) this is
//! the ratio of the proximal policy to the rollout policy.

use std::collections::BTreeMap;

use crate::correction::Factors;
use crate::error::{Error, validate_length};
use crate::histogram::LogHistogram;
use crate::log_ratio::saturate;
use crate::loss::rollout_logp;
use crate::{KlEstimator, Real, ResponseTokens, Settings};

/// Consecutive trainable tokens that one version sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagRun {
    /// Versions that it is behind the step's.
    pub lag: u32,
    /// Number of tokens in the run.
    pub tokens: usize,
}

/// Statistics over tokens of one lag.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mismatch {
    tokens: usize,
    factor_sum: f64,
    factor_squares: f64,
    bounded: usize,
    ratio_sum: f64,
    ratio_squares: f64,
    k1_sum: f64,
    k3_sum: f64,
    ratios: LogHistogram,
}

impl Mismatch {
    /// Number of trainable tokens with this lag.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The ratio that a share `q` of the tokens does not exceed, by nearest rank and to 1 part in 2048.
    #[must_use]
    pub fn ratio_quantile(&self, q: f64) -> Option<f64> {
        self.ratios.quantile(q)
    }

    /// The effective sample size of the ratios as a share of the tokens, (sum r)^2 / (n sum r^2): what a correction
    /// without bounds would leave. Their logarithms saturate at [`MAX_LOG_RATIO`](crate::MAX_LOG_RATIO).
    #[must_use]
    pub fn ratio_sample_size(&self) -> Option<f64> {
        self.sample_size(self.ratio_sum, self.ratio_squares)
    }

    /// The effective sample size of the correction's factors as a share of the tokens, (sum c)^2 / (n sum c^2); 1
    /// without a correction, absent where all factors are 0.
    #[must_use]
    pub fn sample_size_of_factors(&self) -> Option<f64> {
        self.sample_size(self.factor_sum, self.factor_squares)
    }

    /// The share of tokens to which a bound of the correction applied: masked or truncated.
    #[must_use]
    pub fn bounded_fraction(&self) -> Option<f64> {
        self.per_token(self.bounded as f64)
    }

    /// The estimate `k1` of KL(sampler, step's policy) in nats: the mean of `d = rollout_logp - old_logp`.
    #[must_use]
    pub fn kl_k1(&self) -> Option<f64> {
        self.per_token(self.k1_sum)
    }

    /// The estimate `k3` of the same: the mean of `exp(-d) - 1 + d`, each at most 10.
    #[must_use]
    pub fn kl_k3(&self) -> Option<f64> {
        self.per_token(self.k3_sum)
    }

    fn add(&mut self, log_ratio: f64, factor: f64, bounded: bool) {
        let ratio = libm::exp(saturate(log_ratio));
        self.tokens += 1;
        self.factor_sum += factor;
        self.factor_squares += factor * factor;
        self.bounded += usize::from(bounded);
        self.ratio_sum += ratio;
        self.ratio_squares += ratio * ratio;
        self.k1_sum += KlEstimator::K1.value_and_slope(-log_ratio).0;
        self.k3_sum += KlEstimator::K3.value_and_slope(-log_ratio).0;
        self.ratios.add(log_ratio);
    }

    fn sample_size(&self, sum: f64, squares: f64) -> Option<f64> {
        (squares > 0.0).then(|| sum * sum / (self.tokens as f64 * squares))
    }

    fn per_token(&self, sum: f64) -> Option<f64> {
        (self.tokens > 0).then(|| sum / self.tokens as f64)
    }
}

/// The statistics of a step's tokens for each lag that occurs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MismatchByLag {
    by_lag: BTreeMap<u32, Mismatch>,
}

impl MismatchByLag {
    /// Adds a response. `lags` covers its trainable tokens in their order; empty stands for a lag of 0 everywhere. A
    /// factor of a sequence is that of the whole response, whichever versions sampled it. `logp` is not read.
    ///
    /// # Errors
    /// Slices of different lengths; absent `rollout_logp`.
    pub fn add<T: Real>(
        &mut self,
        settings: &Settings,
        tokens: &ResponseTokens<'_, T>,
        lags: &[LagRun],
    ) -> Result<(), Error> {
        tokens.validate_lengths()?;
        let trainable = tokens.trainable();
        let whole = [LagRun { lag: 0, tokens: trainable }];
        let lags = if lags.is_empty() { &whole } else { lags };
        validate_length("lags", lags.iter().map(|run| run.tokens).sum(), "trainable tokens", trainable)?;
        let drawn_with = tokens.rollout_logp.unwrap_or_default();
        validate_length("rollout_logp", drawn_with.len(), "mask", tokens.mask.len())?;
        let factors =
            Factors::new(settings.correction, settings.correction_bounds(), tokens, rollout_logp(settings, tokens)?);
        let values = tokens.mask.iter().zip(tokens.old_logp).zip(drawn_with);
        let mut log_ratios =
            values.filter(|((trainable, _), _)| **trainable).map(|((_, old), drawn)| old.to_f64() - drawn.to_f64());
        for run in lags {
            let of_lag = self.by_lag.entry(run.lag).or_default();
            for log_ratio in log_ratios.by_ref().take(run.tokens) {
                let (factor, bounded) = factors.of_token(log_ratio);
                of_lag.add(log_ratio, factor, bounded);
            }
        }
        Ok(())
    }

    /// Trainable tokens of all lags.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.by_lag.values().map(Mismatch::tokens).sum()
    }

    /// Each lag that occurs, ascending, with its statistics.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Mismatch)> {
        self.by_lag.iter().filter(|(_, of_lag)| of_lag.tokens > 0).map(|(lag, of_lag)| (*lag, of_lag))
    }

    /// The mean lag of a token; absent without tokens.
    #[must_use]
    pub fn mean_lag(&self) -> Option<f64> {
        let sum: f64 = self.iter().map(|(lag, of_lag)| f64::from(lag) * of_lag.tokens as f64).sum();
        let tokens = self.tokens();
        (tokens > 0).then(|| sum / tokens as f64)
    }
}
