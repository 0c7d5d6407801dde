//! From raw to shaped rewards: DAPO's soft penalty for overlong answers.

use super::sample::Rewards;
use crate::settings::{SamplingSettings, ShapingSettings};

/// The penalty of the settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shaping {
    buffer: f64,
    penalty: f64,
    max_tokens: f64,
}

impl Shaping {
    pub(super) fn new(shaping: &ShapingSettings, sampling: &SamplingSettings) -> Self {
        Self {
            buffer: shaping.overlong_buffer_tokens.into(),
            penalty: shaping.overlong_penalty,
            max_tokens: sampling.max_tokens.into(),
        }
    }

    /// The rewards of an answer of that many tokens: no penalty up to the buffer, the whole penalty from `max_tokens` on.
    pub(super) fn rewards(&self, raw: f64, tokens: usize) -> Rewards {
        if self.buffer == 0.0 {
            return Rewards { raw, shaped: raw };
        }
        let over = tokens as f64 - (self.max_tokens - self.buffer);
        Rewards { raw, shaped: raw - self.penalty * (over / self.buffer).clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlong_penalty_grows_over_its_buffer_and_stops() {
        let sampling = SamplingSettings { max_tokens: 100, ..SamplingSettings::default() };
        let settings =
            ShapingSettings { overlong_buffer_tokens: 20, overlong_penalty: 0.5, ..ShapingSettings::default() };
        let shaping = Shaping::new(&settings, &sampling);
        let penalties = [1, 80, 90, 100, 120].map(|tokens| 1.0 - shaping.rewards(1.0, tokens).shaped);
        assert_eq!(penalties, [0.0, 0.0, 0.25, 0.5, 0.5]);
    }
}
