//! Rewards that come with turns: where nothing else says what an episode is worth, it is their sum.

use evenkeel_proto::v1::{Outcome, Verdict};

use crate::failure::Failure;

/// How far a sum may miss an end of its range and is still that end: twenty times 0.05 is 1.0000000000000002.
const ROUNDING: f64 = 1e-9;

/// The sum of rewards, once there was one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rewards(Option<f64>);

impl Rewards {
    /// Adds one, where there is one.
    pub(crate) fn add(&mut self, reward: Option<f64>) {
        if let Some(reward) = reward {
            *self.0.get_or_insert(0.0) += reward;
        }
    }

    /// What they are together.
    #[cfg(any(test, feature = "openenv"))]
    pub(crate) fn sum(self) -> Option<f64> {
        self.0
    }

    /// The sum as the verdict on an episode: the lowest one counts as 0 and the highest one as 1. No reward is none,
    /// and never 0: the verifier of the task judges then.
    ///
    /// # Errors
    /// A sum outside the range; `hint` is what could be done about it. Equal seeds would earn it again.
    pub(crate) fn verdict(self, id: &str, [low, high]: [f64; 2], hint: &str) -> Result<Option<Verdict>, Failure> {
        let Some(sum) = self.0 else { return Ok(None) };
        let share = (sum - low) / (high - low);
        let ends = [0.0_f64, 1.0];
        let reward = ends.into_iter().find(|end| (share - *end).abs() <= ROUNDING).unwrap_or(share);
        if !(0.0..=1.0).contains(&reward) {
            let message = format!("the rewards of the episode are {sum} together, allowed: {low} to {high} ({hint})");
            return Err(Failure { retryable: false, ..Failure::crashed(message) });
        }
        let outcome = if reward == 1.0 { Outcome::Correct } else { Outcome::Incorrect };
        Ok(Some(Verdict::judged(id, outcome, "environment", reward)))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::EpisodeFailure;

    use super::*;

    fn verdict(rewards: &[f64], range: [f64; 2]) -> Result<Option<Verdict>, Failure> {
        let mut sum = Rewards::default();
        for reward in rewards {
            sum.add(None);
            sum.add(Some(*reward));
        }
        sum.verdict("a", range, "hint")
    }

    #[test]
    fn rewards_add_up_to_a_verdict_that_stands() {
        let cases: [(&[f64], [f64; 2], f64); 6] = [
            (&[0.0], [0.0, 1.0], 0.0),
            (&[0.25, 0.5], [0.0, 1.0], 0.75),
            (&[-0.5, 1.0], [0.0, 1.0], 0.5),
            (&[1.5, -0.5], [0.0, 1.0], 1.0),
            (&[-0.25, 0.75], [-1.0, 1.0], 0.75),
            (&[-1.0], [-1.0, 1.0], 0.0),
        ];
        for (rewards, range, reward) in cases {
            let verdict = verdict(rewards, range).unwrap().unwrap();
            assert_eq!((verdict.reward, verdict.validate()), (Some(reward), Ok(())), "{rewards:?}");
        }
    }

    #[test]
    fn without_a_reward_there_is_no_verdict() {
        assert_eq!(verdict(&[], [0.0, 1.0]), Ok(None));
        let mut none = Rewards::default();
        none.add(None);
        assert_eq!(none.sum(), None);
    }

    #[test]
    fn decimal_fractions_that_make_a_whole_are_a_whole() {
        for parts in 1..=1000_u32 {
            let equal = vec![1.0 / f64::from(parts); parts as usize];
            let found = verdict(&equal, [0.0, 1.0]).unwrap().unwrap();
            assert_eq!((found.reward, found.outcome()), (Some(1.0), Outcome::Correct), "{parts}");
        }
        let nothing = [0.3, -0.1, -0.2];
        assert!(nothing.iter().sum::<f64>() < 0.0, "rounding alone would make it a failure");
        assert_eq!(verdict(&nothing, [0.0, 1.0]).unwrap().unwrap().reward, Some(0.0));
    }

    #[test]
    fn a_sum_outside_its_range_is_a_failure_and_is_not_cut() {
        let cases: [(&[f64], [f64; 2]); 6] = [
            (&[0.75, 0.5], [0.0, 1.0]),
            (&[-0.25], [0.0, 1.0]),
            (&[1.0 + 1e-6], [0.0, 1.0]),
            (&[f64::NAN], [0.0, 1.0]),
            (&[f64::INFINITY], [-1.0, 1.0]),
            (&[f64::MAX, f64::MAX], [-1.0, 1.0]),
        ];
        for (rewards, range) in cases {
            let failure = verdict(rewards, range).unwrap_err();
            assert_eq!((failure.kind, failure.retryable), (EpisodeFailure::Crashed, false), "{rewards:?}");
            let [low, high] = range;
            let words = format!("together, allowed: {low} to {high} (hint)");
            assert!(failure.message.ends_with(&words), "{}", failure.message);
        }
    }
}
