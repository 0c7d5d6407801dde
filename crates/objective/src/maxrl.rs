//! MaxRL, arXiv 2602.02710: advantages over the mean reward of their group, (r - mean) / mean. Where rewards are 0 and
//! 1 and K of N are right, a right answer has (N - K) / K and a wrong one -1. The expected gradient is then that of the
//! log-likelihood of a right answer, expanded to as many terms as there are samples, so that prompts with few right
//! answers count for more. A group without a right answer has no advantages.

use crate::error::{Error, Location};

/// Refuses rewards below 0: the mean is that of successes.
///
/// # Errors
/// The first such reward of a valid response.
pub(crate) fn validate(rewards: &[f64], valid: &[bool]) -> Result<(), Error> {
    match rewards.iter().zip(valid).position(|(reward, valid)| *valid && *reward < 0.0) {
        None => Ok(()),
        Some(response) => {
            let error = Error::refused("reward", rewards[response], "at least 0 with advantage = maxrl");
            Err(error.within(Location::response(response)))
        }
    }
}

/// The advantage of a reward that is `deviation` above the mean of its group.
pub(crate) fn advantage(deviation: f64, mean: f64) -> f64 {
    // A mean of 0 here is one of rewards below the smallest number.
    if mean == 0.0 { 0.0 } else { deviation / mean }
}
