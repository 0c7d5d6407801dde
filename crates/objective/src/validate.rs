//! Checks of external input. The arithmetic does not repeat them: it also runs on values that the caller computed, and
//! checking all tokens again for each loss would only cost time.

use crate::advantage::{REWARDS, validate_reward};
use crate::error::{Error, Location, validate_length};
use crate::loss::rollout_logp;
use crate::{Real, Response, ResponseTokens, Settings};

/// How far above 0 a log-probability may be: engines that compute in bf16 or f32 may round to slightly above it.
pub const LOGP_TOLERANCE: f64 = 1e-4;

/// Refuses log-probabilities at trainable tokens that are NaN, infinite or above [`LOGP_TOLERANCE`].
///
/// `mask` and `logp` have one element for each token; `field` is the name for the error.
///
/// # Errors
/// Slices of different lengths; the first refused value, with its token.
pub fn validate_logp<T: Real>(field: &'static str, mask: &[bool], logp: &[T]) -> Result<(), Error> {
    validate_length(field, logp.len(), "mask", mask.len())?;
    let is_allowed = |value: T| value.to_f64() <= LOGP_TOLERANCE && value.to_f64() > f64::NEG_INFINITY;
    // The fold has no early exit, so that it vectorises; the refused token is only searched for if there is one.
    if mask.iter().zip(logp).fold(true, |all, (&m, &value)| all & (!m | is_allowed(value))) {
        return Ok(());
    }
    match mask.iter().zip(logp).enumerate().find(|(_, (m, value))| **m && !is_allowed(**value)) {
        None => Ok(()),
        Some((token, (_, value))) => {
            let allowed = "a finite log-probability, at most 0 (tolerance 1e-4)";
            Err(Error::refused(field, value.to_f64(), allowed).within(Location::token(token)))
        }
    }
}

impl<T: Real> ResponseTokens<'_, T> {
    /// Checks an external response: at least one token, slices of equal length, valid log-probabilities at every
    /// trainable token, and `rollout_logp` if a correction is set.
    ///
    /// # Errors
    /// The first problem, without group and response: see [`Error::at`].
    pub fn validate(&self, settings: &Settings) -> Result<(), Error> {
        if self.mask.is_empty() {
            return Err(Error::refused("tokens", "empty", "at least one token"));
        }
        self.validate_lengths()?;
        validate_logp("logp", self.mask, self.logp)?;
        validate_logp("old_logp", self.mask, self.old_logp)?;
        match self.rollout_logp {
            Some(logp) => validate_logp("rollout_logp", self.mask, logp),
            None => rollout_logp(settings, self).map(drop),
        }
    }
}

/// Checks an external group: its size, and reward and tokens of every valid response. Invalid responses are not read,
/// since nothing is computed from them.
///
/// # Errors
/// The first problem, with `group` as the index of the group.
pub fn validate_group<T: Real>(settings: &Settings, group: usize, responses: &[Response<'_, T>]) -> Result<(), Error> {
    settings.validate_group_size(responses.len()).map_err(|error| Error::from(error).at(group, None))?;
    for (i, response) in responses.iter().enumerate().filter(|(_, response)| response.valid) {
        validate_response(settings, response).map_err(|error| error.at(group, Some(i)))?;
    }
    Ok(())
}

fn validate_response<T: Real>(settings: &Settings, response: &Response<'_, T>) -> Result<(), Error> {
    validate_reward(response.reward).map_err(|value| Error::refused("reward", value, REWARDS))?;
    response.tokens.validate(settings)?;
    let mask = response.tokens.mask;
    response.reference_logp.map_or(Ok(()), |logp| validate_logp("reference_logp", mask, logp))
}

/// Checks settings and a whole external mini-batch.
///
/// # Errors
/// The first problem, with its indices.
pub fn validate_batch<T: Real>(settings: &Settings, groups: &[Vec<Response<'_, T>>]) -> Result<(), Error> {
    settings.validate()?;
    groups.iter().enumerate().try_for_each(|(g, responses)| validate_group(settings, g, responses))
}
