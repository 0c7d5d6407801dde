//! The numbers that stand for a run.

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

/// A number that stands for a run. Accuracies are averages over benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// mean@k of the last evaluation.
    LastAccuracy,
    /// The highest mean@k of all evaluations.
    PeakAccuracy,
    /// From the peak to the last mean@k.
    AccuracyDrop,
    /// The average of mean@k over the steps of training: the area under its curve.
    AccuracyArea,
    /// best@k of the last evaluation.
    LastBest,
    /// The highest best@k of all evaluations.
    PeakBest,
    /// From the peak to the last best@k.
    BestDrop,
    /// Mean raw reward of the last ten steps.
    LastReward,
    /// Mean raw reward over the steps of training.
    RewardArea,
    /// The first step at which the mean raw reward of ten steps reaches what was asked for. A run that never reaches it
    /// counts with its last step, which is too few: the mean is over steps within the length of the runs.
    StepsToReward,
}

impl Measure {
    /// Every measure, in the order in which they are reported.
    pub const ALL: [Self; 10] = [
        Self::LastAccuracy,
        Self::PeakAccuracy,
        Self::AccuracyDrop,
        Self::AccuracyArea,
        Self::LastBest,
        Self::PeakBest,
        Self::BestDrop,
        Self::LastReward,
        Self::RewardArea,
        Self::StepsToReward,
    ];

    /// How tables and sentences call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LastAccuracy => "last mean@k",
            Self::PeakAccuracy => "peak mean@k",
            Self::AccuracyDrop => "drop of mean@k",
            Self::AccuracyArea => "average mean@k of training",
            Self::LastBest => "last best@k",
            Self::PeakBest => "peak best@k",
            Self::BestDrop => "drop of best@k",
            Self::LastReward => "last reward",
            Self::RewardArea => "mean reward of training",
            Self::StepsToReward => "steps to the reward",
        }
    }

    /// The measure of a key such as `last-accuracy`.
    ///
    /// # Errors
    /// A key that none has, with the name of its field.
    pub fn parse(field: &str, key: &str) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|measure| measure.key() == key).ok_or_else(|| {
            let allowed: Vec<String> = Self::ALL.into_iter().map(Self::key).collect();
            FieldError::quoted(field, key, allowed.join(", "))
        })
    }

    /// What stands in `compare.json`, with dashes.
    fn key(self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json.as_str().unwrap_or_default().replace('_', "-")
    }

    /// Whether more is better: not of drops and steps.
    pub fn is_higher_better(self) -> bool {
        !matches!(self, Self::AccuracyDrop | Self::BestDrop | Self::StepsToReward)
    }

    /// A value as text: steps with one decimal, everything else with three.
    pub fn shown(self, value: f64) -> String {
        let decimals = if self == Self::StepsToReward { 1 } else { 3 };
        // No "-0.000".
        let shown = format!("{value:.decimals$}");
        if shown.trim_start_matches(['-', '0', '.']).is_empty() {
            shown.trim_start_matches('-').to_owned()
        } else {
            shown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_is_listed_once_and_in_order() {
        assert!(Measure::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        let json = serde_json::to_string(&Measure::ALL[2]).unwrap();
        assert_eq!(json, "\"accuracy_drop\"");
    }

    #[test]
    fn a_measure_is_found_by_its_key() {
        assert_eq!(Measure::parse("--primary", "last-accuracy"), Ok(Measure::LastAccuracy));
        assert_eq!(Measure::parse("--primary", "steps-to-reward"), Ok(Measure::StepsToReward));
        let error = Measure::parse("--primary", "last_accuracy").unwrap_err().to_string();
        assert!(error.starts_with("--primary is \"last_accuracy\", allowed: last-accuracy, peak-accuracy"), "{error}");
    }

    #[test]
    fn values_have_no_negative_zero() {
        assert_eq!(Measure::LastAccuracy.shown(-0.0001), "0.000");
        assert_eq!(Measure::LastAccuracy.shown(-0.0006), "-0.001");
        assert_eq!(Measure::StepsToReward.shown(40.0), "40.0");
    }
}
