//! Distributions, and counting over trials.

use evenkeel_seeds::{ChaCha12Rng, Stream, rng};
use evenkeel_statistics::Interval;
use rand::Rng;
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};

/// A distribution with mean 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Normal,
    /// Bounded, without tails.
    Uniform,
    /// Student's t with 3 degrees of freedom: heavy tails.
    Heavy,
    /// Exponential: skewed.
    Skewed,
}

pub(crate) const SYMMETRIC: [Shape; 3] = [Shape::Normal, Shape::Uniform, Shape::Heavy];

impl Shape {
    pub(crate) fn draw(self, rng: &mut ChaCha12Rng) -> f64 {
        match self {
            Self::Normal => rng.sample(StandardNormal),
            Self::Uniform => rng.random::<f64>() - 0.5,
            Self::Heavy => StudentT::new(3.0).unwrap().sample(rng),
            Self::Skewed => rng.sample::<f64, _>(Exp1) - 1.0,
        }
    }

    pub(crate) fn draws(self, count: usize, rng: &mut ChaCha12Rng) -> Vec<f64> {
        (0..count).map(|_| self.draw(rng)).collect()
    }
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("EVENKEEL_LONG").is_some()
}

/// `short` trials, or `long` ones.
pub(crate) fn trials(short: u32, long: u32) -> u32 {
    if is_long() { long } else { short }
}

/// The random numbers of a trial.
pub(crate) fn trial_rng(trial: u32) -> ChaCha12Rng {
    rng(1_811, Stream::Demonstration { step: 0, row: u64::from(trial) })
}

/// How often an interval contained the truth, and how often there was none.
#[derive(Default, Clone, Copy)]
pub(crate) struct Coverage {
    trials: u32,
    hits: u32,
    missing: u32,
    width: f64,
}

impl Coverage {
    pub(crate) fn count(&mut self, interval: Option<Interval>, truth: f64) {
        self.trials += 1;
        match interval {
            None => self.missing += 1,
            Some(interval) => {
                self.hits += u32::from(interval.contains(truth));
                self.width += interval.high - interval.low;
            }
        }
    }

    /// Share of the trials with an interval; NaN without any.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.trials - self.missing)
    }

    pub(crate) fn missing(&self) -> f64 {
        f64::from(self.missing) / f64::from(self.trials)
    }

    /// Percent, Monte Carlo standard error, mean width.
    pub(crate) fn shown(&self) -> String {
        let count = f64::from(self.trials - self.missing);
        if self.missing == self.trials {
            return "none".to_owned();
        }
        let share = self.share();
        let error = (share * (1.0 - share) / count).sqrt();
        let missing = if self.missing > 0 { format!(", none in {:.1}", 100.0 * self.missing()) } else { String::new() };
        format!("{:.1} ± {:.1} (width {:.2}{missing})", 100.0 * share, 100.0 * error, self.width / count)
    }
}
