//! The kinds of scaled rotary positions, as `rope_type` names them.

use std::f64::consts::TAU;

use serde_json::{Value, json};

use super::yarn::Yarn;
use crate::config::fields::{number, optional_size};
use crate::config::refused;
use crate::error::{ModelError, Result};

/// How frequencies are scaled, as `rope_type` names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// `default`: not at all.
    None,
    /// `linear`: all are divided by a factor.
    Linear {
        /// Divisor of the frequencies, 1 or more.
        factor: f64,
    },
    /// `dynamic`: scaled from the first token on that does not fit into `max_position_embeddings`. No longer sequence
    /// is computed, so that nothing is scaled.
    Dynamic {
        /// Divisor of the frequencies, 1 or more.
        factor: f64,
    },
    /// `llama3`: those with long waves are divided by a factor, those with short ones kept, and between the two there
    /// is a smooth transition.
    Llama3 {
        /// Divisor of the frequencies with long waves, 1 or more.
        factor: f64,
        /// `original_max_position_embeddings` / this is the shortest of the long waves, in positions.
        low_freq_factor: f64,
        /// `original_max_position_embeddings` / this is the longest of the short waves, in positions; more than the
        /// other.
        high_freq_factor: f64,
        /// The context before scaling, in positions.
        original_max_position_embeddings: f64,
    },
    /// Scaling by wavelength with a factor on attention, `yarn`.
    Yarn(Yarn),
}

impl RopeScaling {
    /// From the value of `key`; `config` is the whole file, and `context` its `max_position_embeddings`.
    pub(crate) fn from_json(key: &str, value: &Value, config: &Value, context: usize) -> Result<Self> {
        let within = |name: &str| format!("{key}.{name}");
        let optional = |name: &str| {
            let found = value.get(name).filter(|value| !value.is_null());
            let number = |found: &Value| found.as_f64().ok_or_else(|| refused(&within(name), found, "a number"));
            found.map(number).transpose()
        };
        let field = |name: &str| optional(name)?.ok_or_else(|| refused(&within(name), "missing", "a number"));
        // Beside the object it goes before the one within, as in transformers.
        let original = || -> Result<f64> {
            let name = "original_max_position_embeddings";
            Ok(optional_size(config, name)?.map(|size| size as f64).or(optional(name)?).unwrap_or(context as f64))
        };
        if let Some(part) = number(value, "partial_rotary_factor")?.filter(|&part| part != 1.0) {
            return Err(ModelError::Unsupported {
                field: within("partial_rotary_factor"),
                value: part.to_string(),
                reason: "rotary over a part of the head is not computed".into(),
            });
        }
        match kind(value) {
            "default" => Ok(Self::None),
            "linear" => Ok(Self::Linear { factor: field("factor")? }),
            "dynamic" => {
                let original = original()?;
                if original != context as f64 {
                    let allowed = format!("max_position_embeddings = {context}, beyond which nothing is computed");
                    return Err(refused(&within("original_max_position_embeddings"), original, allowed));
                }
                Ok(Self::Dynamic { factor: field("factor")? })
            }
            "llama3" => Ok(Self::Llama3 {
                factor: field("factor")?,
                low_freq_factor: field("low_freq_factor")?,
                high_freq_factor: field("high_freq_factor")?,
                original_max_position_embeddings: original()?,
            }),
            "yarn" => {
                let original = original()?;
                let is_truncated = match value.get("truncate") {
                    None | Some(Value::Null) => true,
                    Some(flag) => flag.as_bool().ok_or_else(|| refused(&within("truncate"), flag, "true or false"))?,
                };
                Ok(Self::Yarn(Yarn::new(optional, is_truncated, original, context)?))
            }
            _ => Err(ModelError::Unsupported {
                field: key.into(),
                value: value.to_string(),
                reason: "of scaled rotary positions only linear, dynamic, llama3 and yarn are computed".into(),
            }),
        }
    }

    pub(super) fn to_json(self) -> Value {
        match self {
            Self::None => json!({"rope_type": "default"}),
            Self::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            Self::Dynamic { factor } => json!({"rope_type": "dynamic", "factor": factor}),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_max_position_embeddings as u64,
            }),
            Self::Yarn(yarn) => yarn.to_json(),
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        let numbers: &[(&str, f64, f64)] = match self {
            Self::None => &[],
            Self::Linear { factor } | Self::Dynamic { factor } => &[("factor", *factor, 1.0)],
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => &[
                ("factor", *factor, 1.0),
                ("low_freq_factor", *low_freq_factor, f64::MIN_POSITIVE),
                ("high_freq_factor", *high_freq_factor, low_freq_factor.next_up()),
                ("original_max_position_embeddings", *original_max_position_embeddings, 1.0),
            ],
            Self::Yarn(yarn) => &yarn.numbers(),
        };
        for &(field, value, least) in numbers {
            if !(value.is_finite() && value >= least) {
                return Err(refused(&format!("rope_parameters.{field}"), value, format!("a number from {least} on")));
            }
        }
        Ok(())
    }

    /// A frequency that is scaled for itself.
    pub(super) fn of(self, frequency: f32) -> f32 {
        match self {
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let factor = factor as f32;
                let original = original_max_position_embeddings;
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
            Self::None | Self::Dynamic { .. } | Self::Yarn(_) => frequency,
        }
    }
}

/// The type that an object names. Without a type, an object that has no key of a scaling is the default.
fn kind(value: &Value) -> &str {
    const PLAIN: [&str; 2] = ["rope_theta", "partial_rotary_factor"];
    match value.get("rope_type").or_else(|| value.get("type")) {
        Some(kind) => kind.as_str().unwrap_or("unreadable"),
        None => match value.as_object() {
            Some(keys) if keys.keys().all(|key| PLAIN.contains(&key.as_str())) => "default",
            _ => "unnamed",
        },
    }
}
