//! From raw to shaped rewards: components with their weights, DAPO's soft penalty for overlong responses among them.

use std::collections::BTreeMap;

use evenkeel_proto::v1::Outcome;

use super::sample::{Components, RewardPart, Rewards};
use crate::settings::{BARE, CORRECTNESS, FORMAT, LENGTH, PolicySamplingSettings, ShapingSettings};

/// The part of a verdict that rewards are made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VerdictReward {
    pub(crate) outcome: Outcome,
    pub(crate) raw: f64,
    /// Further numbers of the verdict, by name.
    pub(crate) components: BTreeMap<String, f64>,
}

/// The shaping of the settings.
#[derive(Debug, Clone)]
pub(super) struct Shaping {
    settings: ShapingSettings,
    buffer: f64,
    max_tokens: f64,
}

impl Shaping {
    pub(super) fn new(shaping: &ShapingSettings, sampling: &PolicySamplingSettings) -> Self {
        Self {
            settings: shaping.clone(),
            buffer: shaping.overlong_buffer_tokens.into(),
            max_tokens: sampling.max_tokens.into(),
        }
    }

    /// The rewards of a response of that many tokens, and the components that the shaped one is the weighted sum of.
    /// `bare` says whether the response is its answer and nothing besides, and is asked where that has a weight.
    pub(super) fn rewards(
        &self,
        verdict: &VerdictReward,
        tokens: usize,
        bare: impl FnOnce() -> bool,
    ) -> (Rewards, Components) {
        let raw = verdict.raw;
        let ShapingSettings { correct, wrong, .. } = self.settings;
        let mut components = verdict.components.clone();
        // Not wrong + (correct - wrong) * raw, which is off by a rounding at 1.
        components.insert(CORRECTNESS.to_owned(), raw * correct + (1.0 - raw) * wrong);
        let has_answer = f64::from(u8::from(verdict.outcome != Outcome::NoAnswer));
        components.entry(FORMAT.to_owned()).or_insert(has_answer);
        if self.settings.weight(BARE) > 0.0 {
            components.insert(BARE.to_owned(), if bare() { raw } else { 0.0 });
        }
        if self.buffer > 0.0 {
            components.insert(LENGTH.to_owned(), -self.penalty(tokens));
        }
        let part = |(name, value): (String, f64)| {
            let weight = self.settings.weight(&name);
            (name, RewardPart { weight, value })
        };
        let parts: Components = components.into_iter().map(part).collect();
        let weighted = parts.values().filter(|part| part.weight != 0.0);
        let shaped = weighted.map(|RewardPart { weight, value }| weight * value).sum();
        (Rewards { raw, shaped }, parts)
    }

    /// None up to the buffer, the whole of it from `max_tokens` on.
    fn penalty(&self, tokens: usize) -> f64 {
        let over = tokens as f64 - (self.max_tokens - self.buffer);
        self.settings.overlong_penalty * (over / self.buffer).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(raw: f64) -> VerdictReward {
        let outcome = if raw > 0.0 { Outcome::Correct } else { Outcome::Incorrect };
        VerdictReward { outcome, raw, components: BTreeMap::new() }
    }

    fn shaping(settings: ShapingSettings) -> Shaping {
        Shaping::new(&settings, &PolicySamplingSettings { max_tokens: 100, ..PolicySamplingSettings::default() })
    }

    #[test]
    fn the_overlong_penalty_grows_over_its_buffer_and_stops() {
        let settings =
            ShapingSettings { overlong_buffer_tokens: 20, overlong_penalty: 0.5, ..ShapingSettings::default() };
        let shaping = shaping(settings);
        let penalties =
            [1, 80, 90, 100, 120].map(|tokens| 1.0 - shaping.rewards(&verdict(1.0), tokens, || false).0.shaped);
        assert_eq!(penalties, [0.0, 0.0, 0.25, 0.5, 0.5]);
    }

    #[test]
    fn by_default_the_shaped_reward_is_the_raw_one_to_the_bit() {
        let shaping = shaping(ShapingSettings::default());
        for raw in [0.0, 1.0, 1.0 / 3.0, 0.1 + 0.2] {
            assert_eq!(shaping.rewards(&verdict(raw), 100, || false).0, Rewards { raw, shaped: raw });
        }
    }

    #[test]
    fn raw_rewards_are_between_wrong_and_correct_and_the_penalty_is_relative_to_that() {
        let settings = ShapingSettings { correct: 1.0, wrong: -1.0, ..ShapingSettings::default() };
        let penalised = ShapingSettings { overlong_buffer_tokens: 20, ..settings.clone() };
        let rewards_of =
            |settings: &ShapingSettings, raw: f64| shaping(settings.clone()).rewards(&verdict(raw), 100, || false).0;
        assert_eq!([0.0, 0.25, 1.0].map(|raw| rewards_of(&settings, raw).shaped), [-1.0, -0.5, 1.0]);
        assert_eq!(
            [0.0, 1.0].map(|raw| rewards_of(&penalised, raw)),
            [(0.0, -2.0), (1.0, 0.0)].map(|(raw, shaped)| Rewards { raw, shaped })
        );
        let uneven = ShapingSettings { correct: 0.1, wrong: 0.3 - 0.4, ..ShapingSettings::default() };
        assert_eq!(rewards_of(&uneven, 1.0).shaped, 0.1);
    }

    #[test]
    fn a_right_answer_with_nothing_besides_is_worth_more_where_that_has_a_weight() {
        let weights =
            |weights: &[(&str, f64)]| weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        let with = shaping(ShapingSettings { weights: weights(&[("bare", 0.25)]), ..ShapingSettings::default() });
        let shaped = |raw: f64, bare: bool| with.rewards(&verdict(raw), 10, || bare).0.shaped;
        assert_eq!(
            [shaped(1.0, true), shaped(1.0, false), shaped(0.0, true), shaped(0.0, false)],
            [1.25, 1.0, 0.0, 0.0]
        );
        let without = shaping(ShapingSettings::default());
        assert!(!without.rewards(&verdict(1.0), 10, || true).1.contains_key("bare"), "nobody asked");
    }

    #[test]
    fn a_reward_is_the_weighted_sum_of_its_components() {
        let weights = [("correctness", 0.5), ("format", 0.25), ("style", 2.0)];
        let weights = weights.map(|(name, weight)| (name.to_owned(), weight)).into();
        let shaping = shaping(ShapingSettings { weights, ..ShapingSettings::default() });
        let components = BTreeMap::from([("style".to_owned(), -0.25), ("unweighted".to_owned(), 1.0)]);
        let (rewards, parts) = shaping.rewards(&VerdictReward { components, ..verdict(1.0) }, 10, || false);
        assert_eq!(rewards, Rewards { raw: 1.0, shaped: 0.5 + 0.25 - 0.5 });
        assert_eq!(parts["style"], RewardPart { weight: 2.0, value: -0.25 });
        assert_eq!(parts["unweighted"].weight, 0.0);
        let missing = VerdictReward { outcome: Outcome::NoAnswer, ..verdict(0.0) };
        assert_eq!(shaping.rewards(&missing, 10, || false).1["format"].value, 0.0);
        let own = VerdictReward { components: [("format".to_owned(), 0.5)].into(), ..missing };
        assert_eq!(shaping.rewards(&own, 10, || false).1["format"].value, 0.5, "the verifier knows better");
    }
}
