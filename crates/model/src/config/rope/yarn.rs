//! YaRN (<https://arxiv.org/abs/2309.00071>) as transformers computes it: frequencies whose waves turn often within the
//! original context are kept, those that turn less than once are divided by a factor, and between the two there is a
//! ramp over the pairs of a head.

use std::f64::consts::TAU;

use serde_json::{Value, json};

use crate::error::Result;

/// What YaRN does to frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// What slow frequencies are divided by, 1 or more.
    pub factor: f64,
    /// The context before scaling, in positions.
    pub original_max_position_embeddings: f64,
    /// Turns within the original context from which on a frequency is kept.
    pub beta_fast: f64,
    /// Turns within the original context up to which a frequency is divided; at most `beta_fast`.
    pub beta_slow: f64,
    /// What cosines and sines are multiplied by, above 0.
    pub attention_factor: f64,
    /// Whether the ramp begins and ends at whole pairs.
    pub is_truncated: bool,
}

impl Yarn {
    /// With the defaults of transformers for what `number` does not find.
    pub(super) fn new(
        number: impl Fn(&str) -> Result<Option<f64>>,
        is_truncated: bool,
        original_max_position_embeddings: f64,
        context: usize,
    ) -> Result<Self> {
        let factor = number("factor")?.unwrap_or(context as f64 / original_max_position_embeddings);
        let not_zero = |name: &str| -> Result<Option<f64>> { Ok(number(name)?.filter(|&number| number != 0.0)) };
        let implied = match (not_zero("mscale")?, not_zero("mscale_all_dim")?) {
            (Some(scale), Some(all)) => growth(factor, scale) / growth(factor, all),
            _ => growth(factor, 1.0),
        };
        Ok(Self {
            factor,
            original_max_position_embeddings,
            beta_fast: not_zero("beta_fast")?.unwrap_or(32.0),
            beta_slow: not_zero("beta_slow")?.unwrap_or(1.0),
            attention_factor: number("attention_factor")?.unwrap_or(implied),
            is_truncated,
        })
    }

    pub(super) fn to_json(self) -> Value {
        json!({
            "rope_type": "yarn",
            "factor": self.factor,
            "original_max_position_embeddings": self.original_max_position_embeddings as u64,
            "beta_fast": self.beta_fast,
            "beta_slow": self.beta_slow,
            "attention_factor": self.attention_factor,
            "truncate": self.is_truncated,
        })
    }

    /// Names and values with the least that is allowed.
    pub(super) fn numbers(&self) -> [(&'static str, f64, f64); 5] {
        [
            ("factor", self.factor, 1.0),
            ("original_max_position_embeddings", self.original_max_position_embeddings, 1.0),
            ("beta_slow", self.beta_slow, f64::MIN_POSITIVE),
            ("beta_fast", self.beta_fast, self.beta_slow),
            ("attention_factor", self.attention_factor, f64::MIN_POSITIVE),
        ]
    }

    /// From the wavelengths of a head's pairs (over 2π), in f32 as in transformers.
    pub(super) fn frequencies(&self, wavelengths: impl Iterator<Item = f32>, theta: f64, head_dim: usize) -> Vec<f32> {
        let [first, last] = self.ramp(theta, head_dim);
        let begin = first as f32;
        let length = (last - first) as f32;
        let scaled = |(i, wavelength): (usize, f32)| {
            let kept = 1.0 - ((i as f32 - begin) / length).clamp(0.0, 1.0);
            1.0 / (self.factor as f32 * wavelength) * (1.0 - kept) + 1.0 / wavelength * kept
        };
        wavelengths.enumerate().map(scaled).collect()
    }

    /// The pairs at which the ramp begins and ends.
    fn ramp(&self, theta: f64, head_dim: usize) -> [f64; 2] {
        let pair = |turns: f64| {
            let waves = self.original_max_position_embeddings / (turns * TAU);
            head_dim as f64 * libm::log(waves) / (2.0 * libm::log(theta))
        };
        let mut first = pair(self.beta_fast);
        let mut last = pair(self.beta_slow);
        if self.is_truncated {
            (first, last) = (first.floor(), last.ceil());
        }
        (first, last) = (first.max(0.0), last.min(head_dim as f64 - 1.0));
        // As in transformers, so that nothing is divided by 0.
        if first == last {
            last += 0.001;
        }
        [first, last]
    }
}

/// How much larger the attention's logits are to be with a context that many times as long, as the paper recommends.
fn growth(factor: f64, scale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * scale * libm::log(factor) + 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_waves_are_kept_and_slow_ones_divided() {
        let number = |name: &str| Ok((name == "factor").then_some(4.0));
        let yarn = Yarn::new(number, true, 32_768.0, 131_072).unwrap();
        // 0.1 ln 4 + 1, from the paper.
        assert!((yarn.attention_factor - 1.138_629_436).abs() < 1e-9);
        let wavelengths = |i: usize| 1e6f64.powf(i as f64 / 64.0) as f32;
        let found = yarn.frequencies((0..64).map(wavelengths), 1e6, 128);
        for (i, found) in found.into_iter().enumerate() {
            // In f64 from the definition, with the pairs of 32 turns and of one.
            let exact = 1e6f64.powf(-(i as f64) / 64.0);
            let pair = |turns: f64| 64.0 * (32_768.0 / (turns * TAU)).ln() / 1e6f64.ln();
            let first = pair(32.0).floor();
            let last = pair(1.0).ceil();
            let divided = ((i as f64 - first) / (last - first)).clamp(0.0, 1.0);
            let wanted = exact * (1.0 - divided) + exact / 4.0 * divided;
            assert!((f64::from(found) / wanted - 1.0).abs() < 1e-5, "{i}: {found} for {wanted}");
        }
    }
}
