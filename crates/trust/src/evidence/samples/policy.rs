//! Policies of which everything is known, for tests.

use super::token::AuditedToken;
use crate::scorer::LearnerToken;

/// A distribution over tokens, of which the last ends an answer.
#[derive(Clone)]
pub(crate) struct Policy(pub(crate) Vec<f64>);

impl Policy {
    pub(crate) fn of(logits: impl IntoIterator<Item = f64>) -> Self {
        let weights: Vec<f64> = logits.into_iter().map(f64::exp).collect();
        let sum: f64 = weights.iter().sum();
        Self(weights.into_iter().map(|weight| weight / sum).collect())
    }

    pub(crate) fn at_temperature(&self, temperature: f64) -> Self {
        Self::of(self.0.iter().map(|p| p.ln() / temperature))
    }

    pub(crate) fn without(&self, excluded: impl Fn(usize, f64) -> bool) -> Self {
        let kept: Vec<f64> =
            self.0.iter().enumerate().map(|(token, p)| if excluded(token, *p) { 0.0 } else { *p }).collect();
        let sum: f64 = kept.iter().sum();
        Self(kept.into_iter().map(|p| p / sum).collect())
    }

    pub(crate) fn top_p(&self, mass: f64) -> Self {
        self.without(|_, p| self.0.iter().filter(|other| **other > p).sum::<f64>() >= mass)
    }

    pub(crate) fn noisy(&self, noise: f64, uniforms: &mut impl FnMut() -> f64) -> Self {
        Self::of(
            self.0
                .iter()
                .map(|p| p.ln() + noise * (uniforms() + uniforms() + uniforms() - 1.5) * 2.0)
                .collect::<Vec<_>>(),
        )
    }

    pub(crate) fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.0.iter().filter(|p| **p > 0.0).map(|p| p * of(p.ln())).sum()
    }

    pub(crate) fn draw(&self, uniform: f64) -> usize {
        let mut below = 0.0;
        let found = self.0.iter().position(|p| {
            below += p;
            uniform < below && *p > 0.0
        });
        found.unwrap_or_else(|| self.0.iter().rposition(|p| *p > 0.0).unwrap())
    }

    pub(crate) fn mass(&self, of: impl Fn(usize, f64) -> bool) -> f64 {
        self.0.iter().enumerate().filter(|(token, p)| of(*token, **p)).map(|(_, p)| *p).sum()
    }

    fn beyond_rank(&self, ranks: usize) -> f64 {
        self.mass(|_, other| self.0.iter().filter(|more| **more > other).count() >= ranks)
    }

    /// The learner's view of a token.
    pub(crate) fn view(&self, token: usize) -> LearnerToken {
        let p = self.0[token];
        let entropy = -self.mean(|log_p| log_p);
        let clipped = |log_p: f64| (log_p + entropy).clamp(-4.0, 4.0);
        let largest = self.0.iter().copied().fold(0.0, f64::max);
        LearnerToken {
            log_probability: p.ln(),
            entropy,
            variance: self.mean(|log_p| (log_p + entropy) * (log_p + entropy)),
            surprise: if p > 0.0 { clipped(p.ln()) - self.mean(clipped) } else { 0.0 },
            less_likely: self.mass(|_, other| other < p),
            equally_likely: self.mass(|_, other| other == p),
            rank: 1 + self.0.iter().filter(|other| **other > p).count() as u32,
            beyond_rank_5: self.beyond_rank(5),
            beyond_rank_50: self.beyond_rank(50),
            largest_log_probability: largest.ln(),
            below_hundredth: self.mass(|_, other| other < 0.01 * largest),
            below_floor: self.mass(|_, other| other < 0.05 * largest),
            end_probability: self.0[self.end()],
            drawn: None,
        }
    }

    /// A token that the engine reports with that log-probability.
    pub(crate) fn token(&self, token: usize, engine: f64, uniform: f64) -> AuditedToken {
        let audited =
            AuditedToken::new(&self.view(token), token as u32, engine as f32, token == self.end(), uniform, 1.0);
        AuditedToken { engine, ..audited }
    }

    /// The token that ends an answer.
    pub(crate) fn end(&self) -> usize {
        self.0.len() - 1
    }
}
