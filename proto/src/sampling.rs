//! Sampling settings with every field there and in range.

use evenkeel_seeds::Stream;

use crate::FieldError;
use crate::v1::Sampling;

/// Largest seed: engines take signed 64-bit integers.
const MAX_SEED: u64 = i64::MAX as u64;

/// [`Sampling`] after its check: nothing is absent, so no engine's own default decides anything.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingSettings {
    /// At least 0; 0 takes the most probable token.
    pub temperature: f32,
    /// Above 0, at most 1; 1 keeps all tokens.
    pub top_p: f32,
    /// 0 keeps all tokens.
    pub top_k: u32,
    /// 0 to 1; 0 drops no token.
    pub min_p: f32,
    /// Above 0; 1 does nothing.
    pub repetition_penalty: f32,
    /// At least 1.
    pub max_tokens: u32,
    /// At most `max_tokens`.
    pub min_tokens: u32,
    /// At most 2^63 - 1.
    pub seed: u64,
    /// Whether the engine gets the seed. Without it the engine's own random numbers decide.
    pub seeded: bool,
    /// Ids that end the response besides the end of sequence.
    pub stop_token_ids: Vec<u32>,
    /// Go on after the end of sequence.
    pub ignore_eos: bool,
}

impl SamplingSettings {
    /// The policy as it is: temperature 1, nothing truncated, nothing penalised.
    pub fn plain(max_tokens: u32, seed: u64) -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            max_tokens,
            min_tokens: 0,
            seed,
            seeded: true,
            stop_token_ids: Vec::new(),
            ignore_eos: false,
        }
    }

    /// Settings for the rest of a response that has `sampled` tokens, fewer than `max_tokens`: what is left of the
    /// limits, and a seed of its own, since the same one would repeat the random numbers of the first tokens.
    pub fn rest(&self, sampled: u32) -> Self {
        if sampled == 0 {
            return self.clone();
        }
        Self {
            max_tokens: self.max_tokens - sampled,
            min_tokens: self.min_tokens.saturating_sub(sampled),
            seed: evenkeel_seeds::seed(self.seed, Stream::Continuation { tokens: sampled.into() }),
            ..self.clone()
        }
    }

    /// These parameters for at most this many tokens, 1 or more.
    pub fn at_most(self, tokens: u32) -> Self {
        let max_tokens = self.max_tokens.min(tokens);
        Self { max_tokens, min_tokens: self.min_tokens.min(max_tokens), ..self }
    }

    /// Whether every token of the vocabulary can be drawn, so that the log-probabilities are those of the whole
    /// distribution.
    pub fn is_untruncated(&self) -> bool {
        self.top_p == 1.0 && self.top_k == 0 && self.min_p == 0.0
    }
}

impl TryFrom<&Sampling> for SamplingSettings {
    type Error = FieldError;

    fn try_from(sampling: &Sampling) -> Result<Self, FieldError> {
        let settings = Self {
            temperature: number("temperature", sampling.temperature, "a finite number, at least 0", |v| v >= 0.0)?,
            top_p: number("top_p", sampling.top_p, "above 0, at most 1", |v| v > 0.0 && v <= 1.0)?,
            top_k: present("top_k", sampling.top_k, "an integer, 0 keeps all tokens")?,
            min_p: number("min_p", sampling.min_p, "0 to 1", |v| (0.0..=1.0).contains(&v))?,
            repetition_penalty: number(
                "repetition_penalty",
                sampling.repetition_penalty,
                "a finite number above 0",
                |v| v > 0.0,
            )?,
            max_tokens: present("max_tokens", sampling.max_tokens, "at least 1")?,
            min_tokens: present("min_tokens", sampling.min_tokens, "0 to max_tokens")?,
            seed: present("seed", sampling.seed, "0 to 2^63 - 1")?,
            seeded: !sampling.unseeded,
            stop_token_ids: sampling.stop_token_ids.clone(),
            ignore_eos: present("ignore_eos", sampling.ignore_eos, "true or false")?,
        };
        if settings.max_tokens == 0 {
            return Err(FieldError::new("max_tokens", 0, "at least 1"));
        }
        if settings.min_tokens > settings.max_tokens {
            let allowed = format!("0 to max_tokens, which is {}", settings.max_tokens);
            return Err(FieldError::new("min_tokens", settings.min_tokens, allowed));
        }
        if settings.seed > MAX_SEED {
            return Err(FieldError::new("seed", settings.seed, "0 to 2^63 - 1"));
        }
        Ok(settings)
    }
}

impl From<SamplingSettings> for Sampling {
    fn from(settings: SamplingSettings) -> Self {
        Self {
            temperature: Some(settings.temperature),
            top_p: Some(settings.top_p),
            top_k: Some(settings.top_k),
            min_p: Some(settings.min_p),
            repetition_penalty: Some(settings.repetition_penalty),
            max_tokens: Some(settings.max_tokens),
            min_tokens: Some(settings.min_tokens),
            seed: Some(settings.seed),
            stop_token_ids: settings.stop_token_ids,
            ignore_eos: Some(settings.ignore_eos),
            unseeded: !settings.seeded,
        }
    }
}

fn present<T>(field: &str, value: Option<T>, allowed: &str) -> Result<T, FieldError> {
    value.ok_or_else(|| FieldError::missing(field, allowed))
}

fn number(field: &str, value: Option<f32>, allowed: &str, in_range: impl Fn(f32) -> bool) -> Result<f32, FieldError> {
    let value = present(field, value, allowed)?;
    if value.is_finite() && in_range(value) { Ok(value) } else { Err(FieldError::new(field, value, allowed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut Sampling)) -> String {
        let mut sampling = Sampling::from(SamplingSettings::plain(16, 1));
        change(&mut sampling);
        SamplingSettings::try_from(&sampling).unwrap_err().to_string()
    }

    #[test]
    fn the_rest_of_a_response_has_its_own_seed_and_what_is_left_of_the_limits() {
        let sampling = SamplingSettings { min_tokens: 3, ..SamplingSettings::plain(10, 7) };
        assert_eq!(sampling.rest(0), sampling);
        let rest = sampling.rest(4);
        assert_eq!((rest.max_tokens, rest.min_tokens), (6, 0));
        assert_ne!(rest.seed, 7);
        assert_eq!(rest.seed, sampling.rest(4).seed);
        assert_ne!(rest.seed, sampling.rest(5).seed);
    }

    #[test]
    fn fewer_tokens_may_be_asked_for_than_the_response_may_have() {
        let sampling = SamplingSettings { min_tokens: 3, ..SamplingSettings::plain(10, 7) };
        let first = sampling.clone().at_most(2);
        assert_eq!((first.max_tokens, first.min_tokens, first.seed), (2, 2, 7));
        assert_eq!(sampling.clone().at_most(50), sampling);
    }

    #[test]
    fn settings_survive_the_wire() {
        let settings =
            SamplingSettings { stop_token_ids: vec![2], seeded: false, ..SamplingSettings::plain(16, MAX_SEED) };
        assert_eq!(SamplingSettings::try_from(&Sampling::from(settings.clone())), Ok(settings));
    }

    #[test]
    fn nothing_may_be_left_to_the_engine() {
        assert_eq!(refused(|s| s.temperature = None), "temperature is absent, required: a finite number, at least 0");
        assert_eq!(refused(|s| s.top_k = None), "top_k is absent, required: an integer, 0 keeps all tokens");
        assert_eq!(refused(|s| s.seed = None), "seed is absent, required: 0 to 2^63 - 1");
        assert_eq!(refused(|s| s.ignore_eos = None), "ignore_eos is absent, required: true or false");
    }

    #[test]
    fn values_out_of_range_are_named() {
        assert_eq!(
            refused(|s| s.temperature = Some(-0.5)),
            "temperature is -0.5, allowed: a finite number, at least 0"
        );
        assert_eq!(
            refused(|s| s.temperature = Some(f32::NAN)),
            "temperature is NaN, allowed: a finite number, at least 0"
        );
        assert_eq!(refused(|s| s.top_p = Some(0.0)), "top_p is 0, allowed: above 0, at most 1");
        assert_eq!(refused(|s| s.max_tokens = Some(0)), "max_tokens is 0, allowed: at least 1");
        assert_eq!(refused(|s| s.min_tokens = Some(17)), "min_tokens is 17, allowed: 0 to max_tokens, which is 16");
        assert_eq!(refused(|s| s.seed = Some(MAX_SEED + 1)), "seed is 9223372036854775808, allowed: 0 to 2^63 - 1");
    }

    #[test]
    fn truncation_is_noticed() {
        assert!(SamplingSettings::plain(1, 0).is_untruncated());
        assert!(!SamplingSettings { top_p: 0.9, ..SamplingSettings::plain(1, 0) }.is_untruncated());
    }
}
