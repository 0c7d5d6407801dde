//! Rotary position embedding: its base, and how its frequencies are scaled for longer contexts.

use std::f64::consts::TAU;

use serde_json::{Value, json};

use super::fields::number;
use super::refused;
use crate::error::{ModelError, Result};

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

/// How frequencies are scaled, as `rope_type` names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// `default`: not at all.
    None,
    /// `linear`: all are divided by a factor.
    Linear {
        /// 1 or more.
        factor: f64,
    },
    /// `llama3`: those with long waves are divided by a factor, those with short ones kept, and between the two there is a smooth transition.
    Llama3 {
        /// 1 or more.
        factor: f64,
        /// `original_max_position_embeddings` / this is the shortest of the long waves, in positions.
        low_freq_factor: f64,
        /// `original_max_position_embeddings` / this is the longest of the short waves, in positions; more than the other.
        high_freq_factor: f64,
        /// The context before scaling, in positions.
        original_max_position_embeddings: f64,
    },
}

impl Rope {
    /// Without scaling.
    pub const fn plain(theta: f64) -> Self {
        Self { theta, scaling: RopeScaling::None }
    }

    /// From the `config.json` of any architecture: `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (4). Where both
    /// are given they have to agree.
    pub(super) fn from_json(json: &Value) -> Result<Self> {
        let theta = theta(json)?;
        let mut found: Option<(&str, RopeScaling)> = None;
        for key in KEYS {
            let Some(value) = json.get(key).filter(|value| !value.is_null()) else { continue };
            let scaling = RopeScaling::from_json(key, value)?;
            match found {
                Some((other, agreed)) if agreed != scaling => {
                    return Err(refused(key, value, format!("what {other} says, since both are given")));
                }
                _ => found = Some((key, scaling)),
            }
        }
        Ok(Self { theta, scaling: found.map_or(RopeScaling::None, |(_, scaling)| scaling) })
    }

    /// Writes it in both spellings: transformers 5 reads `rope_parameters`, 4 and most engines read `rope_theta` and `rope_scaling`.
    pub(super) fn write(&self, json: &mut Value) {
        let mut parameters = self.scaling.to_json();
        if self.scaling != RopeScaling::None {
            json["rope_scaling"] = parameters.clone();
        }
        json["rope_theta"] = json!(self.theta);
        parameters["rope_theta"] = json!(self.theta);
        json["rope_parameters"] = parameters;
    }

    pub(super) fn validate(&self) -> Result<()> {
        if !(self.theta.is_finite() && self.theta > 0.0) {
            return Err(refused("rope_theta", self.theta, "a number above 0"));
        }
        let numbers: &[(&str, f64, f64)] = match &self.scaling {
            RopeScaling::None => &[],
            RopeScaling::Linear { factor } => &[("factor", *factor, 1.0)],
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => &[
                ("factor", *factor, 1.0),
                ("low_freq_factor", *low_freq_factor, f64::MIN_POSITIVE),
                ("high_freq_factor", *high_freq_factor, low_freq_factor.next_up()),
                ("original_max_position_embeddings", *original_max_position_embeddings, 1.0),
            ],
        };
        for &(field, value, least) in numbers {
            if !(value.is_finite() && value >= least) {
                return Err(refused(&format!("rope_parameters.{field}"), value, format!("a number from {least} on")));
            }
        }
        Ok(())
    }

    /// The angle between neighbouring positions for each pair of a head, (`head_dim` / 2): theta^(-2i / d), scaled. In f32 as in transformers
    /// and vLLM: the rounding of a frequency is part of the model.
    pub(crate) fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let plain = |i: usize| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            1.0 / libm::pow(self.theta, f64::from(exponent)) as f32
        };
        (0..head_dim / 2).map(|i| self.scaling.of(plain(i))).collect()
    }
}

impl RopeScaling {
    fn from_json(key: &str, value: &Value) -> Result<Self> {
        let field = |name: &str| {
            let found = value.get(name).unwrap_or(&Value::Null);
            found.as_f64().ok_or_else(|| refused(&format!("{key}.{name}"), found, "a number"))
        };
        match kind(value) {
            "default" => Ok(Self::None),
            "linear" => Ok(Self::Linear { factor: field("factor")? }),
            "llama3" => Ok(Self::Llama3 {
                factor: field("factor")?,
                low_freq_factor: field("low_freq_factor")?,
                high_freq_factor: field("high_freq_factor")?,
                original_max_position_embeddings: field("original_max_position_embeddings")?,
            }),
            _ => Err(ModelError::Unsupported {
                field: key.into(),
                value: value.to_string(),
                reason: "of scaled rotary positions only linear and llama3 are computed".into(),
            }),
        }
    }

    fn to_json(self) -> Value {
        match self {
            Self::None => json!({"rope_type": "default"}),
            Self::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_max_position_embeddings as u64,
            }),
        }
    }

    fn of(self, frequency: f32) -> f32 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let (factor, original) = (factor as f32, original_max_position_embeddings);
                let wave = (TAU as f32) / frequency;
                if wave > (original / low_freq_factor) as f32 {
                    return frequency / factor;
                }
                if wave < (original / high_freq_factor) as f32 {
                    return frequency;
                }
                let waves = original as f32 / wave;
                let smooth = (waves - low_freq_factor as f32) / (high_freq_factor - low_freq_factor) as f32;
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        }
    }
}

/// `rope_parameters.rope_theta` (transformers 5), else `rope_theta` (4); if both are present they must agree.
fn theta(json: &Value) -> Result<f64> {
    let inner = match json.get("rope_parameters") {
        Some(parameters) => number(parameters, "rope_theta")?,
        None => None,
    };
    match (inner, number(json, "rope_theta")?) {
        (Some(inner), Some(outer)) if inner != outer => {
            Err(refused("rope_theta", outer, format!("rope_parameters.rope_theta = {inner}, since both are given")))
        }
        (inner, outer) => Ok(inner.or(outer).unwrap_or(10_000.0)),
    }
}

/// The type that an object names; one without a type is the default if it has no factor.
fn kind(value: &Value) -> &str {
    match value.get("rope_type").or_else(|| value.get("type")) {
        Some(kind) => kind.as_str().unwrap_or("unreadable"),
        None if value.get("factor").is_none() && value.is_object() => "default",
        None => "unnamed",
    }
}
