//! The plane of length variation and length gap.
//!
//! The criterion prefers token to sequence where lengths vary much and the gap is mild, and sequence to token where
//! they vary little and the gap is large. It says neither how much is much nor what holds where both are large or both
//! small. The convention here puts the gap on the scale of the variation, as the number of deviations of length that
//! wrong and right answers lie apart: more variation and a smaller gap make that number smaller, less variation and a
//! larger gap make it larger, as the criterion has it, and where both grow alike it stays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run::Lengths;

/// Up to this many deviations the gap is mild for its variation.
const MILD: f64 = 0.5;
/// From this many on it is large.
const LARGE: f64 = 1.0;
/// Where variation and the gap's part of a mean answer are both below it, lengths are so alike that the rules are as
/// well.
const ALIKE: f64 = 0.1;

/// A place in the plane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlanePoint {
    /// Coefficient of variation of lengths within a group.
    pub variation: f64,
    /// How many tokens longer answers with a negative advantage are.
    pub gap: f64,
    /// Mean length in tokens.
    pub length: f64,
}

/// What the criterion prefers in a place, by this program's convention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// Token to sequence: the gap is at most half a deviation of length.
    Token,
    /// Sequence to token: the gap is one deviation of length or more.
    Sequence,
    /// No preference: the gap is between half a deviation and one.
    Neither,
    /// No preference: lengths hardly differ, and so do the rules.
    Alike,
}

impl PlanePoint {
    /// The mean over steps. `None` without steps.
    pub fn of(steps: &[Lengths]) -> Option<Self> {
        Self::mean(steps.iter().map(|at| Self { variation: at.variation, gap: at.gap, length: at.mean }))
    }

    /// The mean of places. `None` without one.
    pub(crate) fn mean(places: impl Iterator<Item = Self>) -> Option<Self> {
        let mut sum = Self { variation: 0.0, gap: 0.0, length: 0.0 };
        let mut count = 0.0;
        for place in places {
            sum.variation += place.variation;
            sum.gap += place.gap;
            sum.length += place.length;
            count += 1.0;
        }
        let mean = Self { variation: sum.variation / count, gap: sum.gap / count, length: sum.length / count };
        (count > 0.0).then_some(mean)
    }

    /// The gap as a part of a mean answer.
    pub fn relative_gap(&self) -> f64 {
        if self.length > 0.0 { self.gap / self.length } else { 0.0 }
    }

    /// The size of the gap in deviations of length. Absent where lengths do not vary.
    pub fn deviations(&self) -> Option<f64> {
        Some(self.relative_gap().abs() / self.variation).filter(|deviations| deviations.is_finite())
    }

    /// What the criterion prefers here.
    pub fn preference(&self) -> Preference {
        if self.variation < ALIKE && self.relative_gap().abs() < ALIKE {
            return Preference::Alike;
        }
        match self.deviations() {
            Some(deviations) if deviations <= MILD => Preference::Token,
            Some(deviations) if deviations < LARGE => Preference::Neither,
            _ => Preference::Sequence,
        }
    }

    /// The place in words: `length variation 0.42, a gap of 8.1 tokens (35 % of a mean answer, 0.8 deviations of
    /// length)`.
    pub fn text(&self) -> String {
        let [gap, share] = self.shown_gap();
        let deviations = self.deviations().map_or_else(String::new, |of| format!(", {of:.1} deviations of length"));
        format!("length variation {:.2}, a gap of {gap} tokens ({share} of a mean answer{deviations})", self.variation)
    }

    /// The gap in tokens and as a part of a mean answer, for people.
    pub fn shown_gap(&self) -> [String; 2] {
        // A gap that rounds to zero has no sign.
        let rounded = |value: f64, scale: f64| (value * scale).round() / scale + 0.0;
        [format!("{:.1}", rounded(self.gap, 10.0)), format!("{:.0} %", rounded(100.0 * self.relative_gap(), 1.0))]
    }
}

impl Preference {
    /// Name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Sequence => "sequence",
            Self::Neither => "neither",
            Self::Alike => "nothing: lengths alike",
        }
    }

    /// The preference as the end of a sentence: `where the criterion ...`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Token => "prefers token to sequence",
            Self::Sequence => "prefers sequence to token",
            Self::Neither => "prefers neither token nor sequence",
            Self::Alike => "says nothing, since lengths hardly differ",
        }
    }
}

/// Mean over runs at each step that all of them have.
pub(super) fn mean_course(runs: &[&[Lengths]]) -> Vec<Lengths> {
    let mut by_step: BTreeMap<u64, Vec<Lengths>> = BTreeMap::new();
    for at in runs.iter().copied().flatten() {
        by_step.entry(at.step).or_default().push(*at);
    }
    let mean = |(step, all): (u64, Vec<Lengths>)| {
        let PlanePoint { variation, gap, length } = PlanePoint::of(&all)?;
        (all.len() == runs.len()).then_some(Lengths { step, variation, gap, mean: length })
    };
    by_step.into_iter().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variation: f64, gap: f64) -> PlanePoint {
        PlanePoint { variation, gap, length: 20.0 }
    }

    #[test]
    fn the_gap_is_read_on_the_scale_of_the_variation() {
        let preferences = [(0.6, 1.0), (0.3, 8.0), (0.3, -8.0), (0.4, 6.0), (0.05, 1.0), (0.0, 8.0), (0.05, 4.0)]
            .map(|(variation, gap)| place(variation, gap).preference());
        use Preference::{Alike, Neither, Sequence, Token};
        assert_eq!(preferences, [Token, Sequence, Sequence, Neither, Alike, Sequence, Sequence]);
        assert_eq!(place(0.0, 8.0).deviations(), None);
    }

    #[test]
    fn more_variation_never_leads_from_token_and_a_larger_gap_never_to_it() {
        let places = || (1..20).flat_map(|v| (0..20).map(move |g| (f64::from(v) / 10.0, f64::from(g))));
        for (variation, gap) in places().filter(|(v, g)| place(*v, *g).preference() == Preference::Token) {
            assert_eq!(place(variation + 0.1, gap).preference(), Preference::Token, "{variation} {gap}");
            assert!(place(variation, gap - 0.5).preference() == Preference::Token || gap < 0.5, "{variation} {gap}");
        }
    }

    #[test]
    fn a_place_is_put_into_words() {
        assert_eq!(
            place(0.5, 8.0).text(),
            "length variation 0.50, a gap of 8.0 tokens (40 % of a mean answer, 0.8 deviations of length)"
        );
        assert_eq!(place(0.0, -2.0).text(), "length variation 0.00, a gap of -2.0 tokens (-10 % of a mean answer)");
        assert_eq!(place(0.5, -0.04).shown_gap(), ["0.0", "0 %"]);
    }

    #[test]
    fn a_course_has_the_steps_that_all_runs_have() {
        let lengths_at = |step, gap| Lengths { step, variation: 0.5, gap, mean: 10.0 };
        let course =
            mean_course(&[&[lengths_at(0, 1.0), lengths_at(1, 2.0)], &[lengths_at(1, 4.0), lengths_at(2, 5.0)]]);
        assert_eq!(course, [lengths_at(1, 3.0)]);
    }
}
