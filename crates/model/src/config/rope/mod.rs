//! Rotary position embedding: its base, and how its frequencies are scaled for longer contexts.

mod scaling;
mod yarn;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::fields::number;
use super::refused;
use crate::error::Result;
pub use scaling::RopeScaling;
pub use yarn::Yarn;

/// The keys of transformers 5 and of 4.
const KEYS: [&str; 2] = ["rope_parameters", "rope_scaling"];

/// The frequencies of rotary position embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies, above 0.
    pub theta: f64,
    /// What is done to them.
    pub scaling: RopeScaling,
}

impl Rope {
    /// Frequencies for a base, without scaling.
    pub const fn plain(theta: f64) -> Self {
        Self { theta, scaling: RopeScaling::None }
    }

    /// Reads the `config.json` of any architecture: `rope_parameters` (transformers 5), or `rope_theta` and
    /// `rope_scaling` (4). Where both are given they have to agree.
    pub(super) fn from_json(json: &Value, default_theta: f64, context: usize) -> Result<Self> {
        let theta = theta(json)?.unwrap_or(default_theta);
        let mut found: Option<(&str, RopeScaling)> = None;
        for key in KEYS {
            let Some(value) = json.get(key).filter(|value| !value.is_null()) else { continue };
            let scaling = RopeScaling::from_json(key, value, json, context)?;
            match found {
                Some((other, agreed)) if agreed != scaling => {
                    return Err(refused(key, value, format!("what {other} says, since both are given")));
                }
                _ => found = Some((key, scaling)),
            }
        }
        Ok(Self { theta, scaling: found.map_or(RopeScaling::None, |(_, scaling)| scaling) })
    }

    /// Writes it in both spellings: transformers 5 reads `rope_parameters`, 4 and most engines read `rope_theta` and
    /// `rope_scaling`.
    pub(crate) fn write(&self, json: &mut Value) {
        let mut parameters = self.scaling.to_json();
        if self.scaling != RopeScaling::None {
            json["rope_scaling"] = parameters.clone();
        }
        json["rope_theta"] = json!(self.theta);
        parameters["rope_theta"] = json!(self.theta);
        json["rope_parameters"] = parameters;
    }

    pub(super) fn validate(&self, head_dim: usize) -> Result<()> {
        if !(self.theta.is_finite() && self.theta > 0.0) {
            return Err(refused("rope_theta", self.theta, "a number above 0"));
        }
        self.scaling.validate()?;
        match self.frequencies(head_dim).into_iter().find(|frequency| !frequency.is_finite()) {
            Some(frequency) => {
                let allowed = format!("one that gives finite frequencies with the scaling, not {frequency}");
                Err(refused("rope_theta", self.theta, allowed))
            }
            None => Ok(()),
        }
    }

    /// The angle between neighbouring positions for each pair of a head, (`head_dim` / 2): theta^(-2i / d), scaled. In
    /// f32 as in transformers and vLLM: the rounding of a frequency is part of the model.
    pub(crate) fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let wavelength = |i: usize| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            libm::pow(self.theta, f64::from(exponent)) as f32
        };
        let wavelengths = (0..head_dim / 2).map(wavelength);
        match self.scaling {
            RopeScaling::Yarn(yarn) => yarn.frequencies(wavelengths, self.theta, head_dim),
            scaling => wavelengths.map(|wavelength| scaling.of(1.0 / wavelength)).collect(),
        }
    }

    /// What cosines and sines are multiplied by.
    pub(crate) fn amplitude(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor as f32,
            _ => 1.0,
        }
    }
}

/// `rope_theta`, from within `rope_parameters` or `rope_scaling` or beside them; those that are given must agree.
fn theta(json: &Value) -> Result<Option<f64>> {
    let mut found: Option<(String, f64)> = None;
    for key in KEYS {
        let inner = json.get(key).map_or(Ok(None), |value| number(value, "rope_theta"))?;
        found = agreed(found, format!("{key}.rope_theta"), inner)?;
    }
    Ok(agreed(found, "rope_theta".into(), number(json, "rope_theta")?)?.map(|(_, theta)| theta))
}

fn agreed(found: Option<(String, f64)>, field: String, theta: Option<f64>) -> Result<Option<(String, f64)>> {
    match (found, theta) {
        (Some((other, first)), Some(theta)) if first != theta => {
            Err(refused(&field, theta, format!("{other} = {first}, since both are given")))
        }
        (found, theta) => Ok(found.or_else(|| theta.map(|theta| (field, theta)))),
    }
}
