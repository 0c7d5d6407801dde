//! The shape of LoRA adapters: for a linear layer W they add (alpha / rank) B A, with A (rank, in) and B (out, rank).

use std::fmt;
use std::str::FromStr;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

use crate::parameters::{AdapterIds, LayerIds, LinearIds, ModelIds, ParameterId, ParameterKind, ParameterSpec};

/// What the names of an adapter's tensors begin with in PEFT's files.
pub(crate) const PREFIX: &str = "base_model.model.";
/// How the names of both tensors of an adapter end.
pub(crate) const LORA_A: &str = ".lora_A.weight";
pub(crate) const LORA_B: &str = ".lora_B.weight";

/// A linear layer of each decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LinearModule {
    /// Query projection.
    #[serde(rename = "q_proj")]
    Query,
    /// Key projection.
    #[serde(rename = "k_proj")]
    Key,
    /// Value projection.
    #[serde(rename = "v_proj")]
    Value,
    /// Projection of the attention's output.
    #[serde(rename = "o_proj")]
    Output,
    /// Gate of the feed-forward block.
    #[serde(rename = "gate_proj")]
    Gate,
    /// Value of the feed-forward block.
    #[serde(rename = "up_proj")]
    Up,
    /// Projection back to the residual stream.
    #[serde(rename = "down_proj")]
    Down,
}

impl LinearModule {
    /// All of them, in the order of a layer's parameters.
    pub const ALL: [Self; 7] = [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// The last part of its name in every supported architecture.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::Output => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// Its parameters in a layer.
    pub const fn of(self, layer: &LayerIds) -> LinearIds {
        match self {
            Self::Query => layer.query,
            Self::Key => layer.key,
            Self::Value => layer.value,
            Self::Output => layer.output,
            Self::Gate => layer.gate,
            Self::Up => layer.up,
            Self::Down => layer.down,
        }
    }

    /// Notes that it has no adapter.
    pub(crate) fn forget(self, layer: &mut LayerIds) {
        self.of_mut(layer).adapter = None;
    }

    fn of_mut(self, layer: &mut LayerIds) -> &mut LinearIds {
        match self {
            Self::Query => &mut layer.query,
            Self::Key => &mut layer.key,
            Self::Value => &mut layer.value,
            Self::Output => &mut layer.output,
            Self::Gate => &mut layer.gate,
            Self::Up => &mut layer.up,
            Self::Down => &mut layer.down,
        }
    }
}

impl fmt::Display for LinearModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LinearModule {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|module| module.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            FieldError::quoted("target", text, format!("one of {names}"))
        })
    }
}

/// Rank, scale and linear layers of adapters.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraShape {
    /// Rows of A and columns of B, 1 or more.
    pub rank: usize,
    /// What B A is multiplied by, times the rank.
    pub alpha: f64,
    /// The linear layers that have an adapter, in every decoder layer: ascending, each once, at least one.
    pub targets: Vec<LinearModule>,
}

impl LoraShape {
    /// What B A is multiplied by.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// Refuses what no adapter of a base has: a rank of 0, or above the smaller side of a target; a scale that is no positive number.
    ///
    /// # Errors
    /// The first of these fields, with its value and what is allowed.
    pub fn validate(&self, base: &[ParameterSpec], ids: &ModelIds) -> Result<(), FieldError> {
        self.validate_alone()?;
        for module in &self.targets {
            for layer in &ids.layers {
                let shape = &base[module.of(layer).weight.index()].shape;
                let most = shape[0].min(shape[1]);
                if self.rank > most {
                    let allowed = format!("1 to {most}, the smaller side of {module}");
                    return Err(FieldError::new("rank", self.rank, allowed));
                }
            }
        }
        Ok(())
    }

    /// The same without a base.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn validate_alone(&self) -> Result<(), FieldError> {
        if self.rank == 0 {
            return Err(FieldError::new("rank", 0, "1 or more"));
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0 && (self.scale() as f32).is_normal()) {
            return Err(FieldError::new("alpha", self.alpha, "a finite number above 0"));
        }
        if self.targets.is_empty() {
            return Err(FieldError::new("targets", "empty", "at least one linear layer"));
        }
        match self.targets.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(FieldError::new("targets", pair[1], "each linear layer once")),
            None => Ok(()),
        }
    }

    /// Appends the adapters' parameters to those of a base, and notes them in its linear layers.
    pub(crate) fn extend(&self, specs: &mut Vec<ParameterSpec>, ids: &mut ModelIds) {
        for layer in &mut ids.layers {
            for &module in &self.targets {
                let linear = module.of_mut(layer);
                let weight = &specs[linear.weight.index()];
                let path = weight.name.strip_suffix(".weight").unwrap_or(&weight.name).to_owned();
                let (out, input) = (weight.shape[0], weight.shape[1]);
                let mut push = |part: &str, shape| {
                    let name = format!("{PREFIX}{path}{part}");
                    specs.push(ParameterSpec { name, shape, kind: ParameterKind::Adapter });
                    ParameterId::at(specs.len() - 1)
                };
                let a = push(LORA_A, vec![self.rank, input]);
                let b = push(LORA_B, vec![out, self.rank]);
                linear.adapter = Some(AdapterIds { a, b });
            }
        }
    }
}
