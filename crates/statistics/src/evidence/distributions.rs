//! Small policies whose every quantity is a sum, and tokens drawn from them.

use evenkeel_seeds::{Stream, Uniforms};

/// A distribution over a few tokens.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) probabilities: Vec<f64>,
}

impl Policy {
    pub(super) fn of(probabilities: Vec<f64>) -> Self {
        Self { probabilities }
    }

    pub(super) fn softmax(logits: &[f64], temperature: f64) -> Self {
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self::normalised(logits.iter().map(|logit| libm::exp((logit - top) / temperature)).collect())
    }

    fn normalised(weights: Vec<f64>) -> Self {
        let sum: f64 = weights.iter().sum();
        Self::of(weights.into_iter().map(|weight| weight / sum).collect())
    }

    pub(super) fn at_temperature(&self, temperature: f64) -> Self {
        Self::normalised(self.probabilities.iter().map(|p| libm::pow(*p, 1.0 / temperature)).collect())
    }

    pub(super) fn greedy(&self) -> Self {
        let top = self.probabilities.iter().copied().fold(0.0, f64::max);
        Self::normalised(self.probabilities.iter().map(|p| f64::from(u8::from(*p == top))).collect())
    }

    pub(super) fn min_p(&self, share: f64) -> Self {
        let least = share * self.probabilities.iter().copied().fold(0.0, f64::max);
        Self::normalised(self.probabilities.iter().map(|p| if *p < least { 0.0 } else { *p }).collect())
    }

    pub(super) fn top_p(&self, mass: f64) -> Self {
        let kept = |p: f64| self.probabilities.iter().filter(|other| **other > p).sum::<f64>() < mass;
        Self::normalised(self.probabilities.iter().map(|p| if kept(*p) { *p } else { 0.0 }).collect())
    }

    fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.probabilities.iter().filter(|p| **p > 0.0).map(|p| p * of(libm::log(*p))).sum()
    }

    pub(super) fn entropy(&self) -> f64 {
        -self.mean(|log_p| log_p)
    }

    pub(super) fn variance(&self) -> f64 {
        let entropy = self.entropy();
        self.mean(|log_p| (log_p + entropy) * (log_p + entropy))
    }

    /// log p + H, clipped to ±4, less its mean.
    pub(super) fn surprise(&self, token: usize) -> f64 {
        let entropy = self.entropy();
        let clipped = |log_p: f64| (log_p + entropy).clamp(-4.0, 4.0);
        clipped(libm::log(self.probabilities[token])) - self.mean(clipped)
    }

    /// The mass of tokens less likely than this one, and of those as likely.
    pub(super) fn less_likely(&self, token: usize) -> (f64, f64) {
        let p = self.probabilities[token];
        let less: f64 = self.probabilities.iter().filter(|other| **other < p).sum();
        (less, self.probabilities.iter().filter(|other| **other == p).sum())
    }

    fn draw(&self, uniform: f64) -> usize {
        let mut below = 0.0;
        let mut last = 0;
        for (token, p) in self.probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            below += p;
            last = token;
            if uniform < below {
                break;
            }
        }
        last
    }
}

/// Random policies of 40 tokens, some sharp and some flat.
pub(super) fn policies(seed: u64, count: u64) -> impl Iterator<Item = Policy> {
    let mut uniforms = Uniforms::new(seed, Stream::Bootstrap);
    (0..count).map(move |position| {
        let scale = 1.0 + 3.0 * uniforms.at(position * 41);
        let logits: Vec<f64> = (1..41).map(|token| scale * 3.0 * (uniforms.at(position * 41 + token) - 0.5)).collect();
        Policy::softmax(&logits, 1.0)
    })
}

/// Draws tokens of random policies as `lie` changes each, until `done` (of the policy, the token and a number that is
/// uniform) says so. Returns how many that took, `None` for more than `most`.
pub(super) fn run(
    seed: u64,
    most: usize,
    lie: impl Fn(&Policy) -> Policy,
    mut done: impl FnMut(&Policy, usize, f64) -> bool,
) -> Option<usize> {
    let pool: Vec<(Policy, Policy)> = policies(1, 400).map(|p| (lie(&p), p)).collect();
    let mut uniforms = Uniforms::new(seed, Stream::SignFlips);
    (0..most).find_map(|position| {
        let at = position as u64 * 3;
        let (drawn_from, p) = &pool[(uniforms.at(at) * pool.len() as f64) as usize];
        let token = drawn_from.draw(uniforms.at(at + 1));
        done(p, token, uniforms.at(at + 2)).then_some(position + 1)
    })
}
