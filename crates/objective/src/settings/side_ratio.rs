//! How much the positive side counts under `sides`: one number, or one that changes over the steps.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Settings, not_negative};
use crate::{Aggregation, Error, SideDial};

/// The factor of the positive side's weights: a number, or a list of [step, number] with straight lines between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a number, or a list of [step, number]")]
pub enum SideRatio {
    /// A number for every step.
    Constant(f64),
    /// A number at each of some steps, which rise. Before the first and after the last one it stays.
    Steps(Vec<(u64, f64)>),
}

impl SideRatio {
    /// The factor at a step, counted from 1.
    #[must_use]
    pub fn at(&self, step: u64) -> f64 {
        let points = match self {
            Self::Constant(ratio) => return *ratio,
            Self::Steps(points) => points,
        };
        let after = points.partition_point(|(at, _)| *at <= step);
        match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
            (Some(&(from, low)), Some(&(to, high))) => low + (high - low) * ((step - from) as f64 / (to - from) as f64),
            (Some(&(_, ratio)), None) | (None, Some(&(_, ratio))) => ratio,
            (None, None) => 1.0,
        }
    }

    /// # Errors
    /// An empty list, steps that do not rise from 1 on, a number below 0 or not finite.
    fn validate(&self) -> Result<(), Error> {
        let points = match self {
            Self::Constant(ratio) => return SideDial { ratio: *ratio, ..SideDial::default() }.validate(),
            Self::Steps(points) => points,
        };
        if points.is_empty() {
            return Err(Error::refused("side_ratio", "an empty list", "a number, or at least one [step, number]"));
        }
        let mut least = 1;
        for &(step, ratio) in points {
            let at = format_args!("[{step}, {ratio}]").to_string();
            if step < least {
                return Err(Error::refused("side_ratio", at, format!("a step of at least {least} at this place")));
            }
            if !not_negative(ratio) {
                return Err(Error::refused("side_ratio", at, "a finite number, at least 0, at every step"));
            }
            least = step.saturating_add(1);
        }
        Ok(())
    }
}

impl fmt::Display for SideRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(ratio) => write!(f, "{ratio}"),
            Self::Steps(points) => {
                let point_text = |(step, ratio): &(u64, f64)| format!("{ratio} at step {step}");
                f.write_str(&points.iter().map(point_text).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Checks the settings that only `sides` has.
///
/// # Errors
/// Either of them with another rule; an exponent outside 0 to 1; a ratio that is refused.
pub(super) fn validate(settings: &Settings) -> Result<(), Error> {
    let Settings { aggregation, length_exponent, side_ratio, .. } = settings;
    if *aggregation != Aggregation::Sides {
        let absent = || format!("absent with aggregation = {aggregation}; only sides has it");
        if let Some(exponent) = length_exponent {
            return Err(Error::refused("length_exponent", exponent, absent()));
        }
        if let Some(ratio) = side_ratio {
            return Err(Error::refused("side_ratio", ratio, absent()));
        }
    }
    if let Some(exponent) = *length_exponent {
        SideDial { length_exponent: exponent, ..SideDial::default() }.validate()?;
    }
    side_ratio.as_ref().map_or(Ok(()), SideRatio::validate)
}
