//! Named rules: the default ones, and those of each kind of data that needs others.

use std::fmt;
use std::str::FromStr;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

use crate::{DecimalComma, Decimals, Equations, Marker, Order, Percent, Rules, TextCase, Units};

/// Sets of rules that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// [`Rules::default`]: for training and for benchmarks whose prompts ask for a box.
    #[default]
    Default,
    /// Strict: exact decimals, a percent sign is always a hundredth, lists are ordered, case matters.
    Exact,
    /// GSM8K: the answer follows `####` (or is in a box), and currency signs are ignored.
    Gsm8k,
    /// DAPO-Math-17k, whose prompts ask for a last line "Answer: ...".
    Dapo,
    /// The default, falling back to the last expression of a text without a marker. For comparison with other graders
    /// only.
    Unmarked,
}

impl Profile {
    /// Every profile, the default one first.
    pub const ALL: [Self; 5] = [Self::Default, Self::Exact, Self::Gsm8k, Self::Dapo, Self::Unmarked];

    /// Name of the profile in settings and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Exact => "exact",
            Self::Gsm8k => "gsm8k",
            Self::Dapo => "dapo",
            Self::Unmarked => "unmarked",
        }
    }

    /// All names, the default one first.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.map(Self::name).to_vec()
    }

    /// Rules that the name stands for.
    pub fn rules(self) -> Rules {
        let default = Rules::default();
        match self {
            Self::Default => default,
            Self::Exact => Rules {
                decimals: Decimals::Exact,
                percent: Percent::Hundredth,
                units: Units::Require,
                order: Order::Strict,
                text_case: TextCase::Exact,
                equations: Equations::Strict,
                decimal_comma: DecimalComma::List,
                ..default
            },
            Self::Gsm8k => Rules {
                markers: vec![Marker::Hashes, Marker::Boxed, Marker::AnswerLine],
                units: Units::Ignore,
                ..default
            },
            Self::Dapo => Rules { markers: vec![Marker::AnswerLine, Marker::Boxed], ..default },
            Self::Unmarked => {
                let markers = vec![Marker::Boxed, Marker::Hashes, Marker::AnswerLine, Marker::Unmarked];
                Rules { markers, ..default }
            }
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = FieldError;

    fn from_str(name: &str) -> Result<Self, FieldError> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == name);
        found.ok_or_else(|| FieldError::new("profile", format_args!("`{name}`"), Self::names().join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name_and_has_valid_rules() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(profile.rules().validate(), Ok(()));
        }
    }

    #[test]
    fn an_unknown_profile_lists_those_that_exist() {
        let error = "aime".parse::<Profile>().unwrap_err();
        assert_eq!(error.to_string(), "profile is `aime`, allowed: default, exact, gsm8k, dapo, unmarked");
    }
}
