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

/// A linear layer that may have an adapter: one of each decoder layer, or the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LinearModule {
    /// Projection of attention's input to queries.
    #[serde(rename = "q_proj")]
    Query,
    /// Projection of attention's input to keys.
    #[serde(rename = "k_proj")]
    Key,
    /// Projection of attention's input to values.
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
    /// The head, which is one layer and belongs to no decoder layer.
    #[serde(rename = "lm_head")]
    Head,
}

impl LinearModule {
    /// The layers of every decoder layer, in the order of its parameters.
    pub const OF_LAYERS: [Self; 7] =
        [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];
    /// All targets, the head last.
    pub const ALL: [Self; 8] =
        [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down, Self::Head];

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
            Self::Head => "lm_head",
        }
    }

    /// Parameters of the layer in a decoder layer; `None` for the head.
    const fn in_layer(self, layer: &mut LayerIds) -> Option<&mut LinearIds> {
        match self {
            Self::Query => Some(&mut layer.query),
            Self::Key => Some(&mut layer.key),
            Self::Value => Some(&mut layer.value),
            Self::Output => Some(&mut layer.output),
            Self::Gate => Some(&mut layer.gate),
            Self::Up => Some(&mut layer.up),
            Self::Down => Some(&mut layer.down),
            Self::Head => None,
        }
    }
}

/// Calls back with every linear layer of a model that these modules name, in the order of the adapters' parameters:
/// decoder layer by decoder layer, then the head.
pub(crate) fn each_linear(
    modules: &[LinearModule],
    ids: &mut ModelIds,
    mut visit: impl FnMut(LinearModule, &mut LinearIds),
) {
    for layer in &mut ids.layers {
        for &module in modules {
            if let Some(linear) = module.in_layer(layer) {
                visit(module, linear);
            }
        }
    }
    if modules.contains(&LinearModule::Head) {
        visit(LinearModule::Head, &mut ids.head);
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
    /// The linear layers that have an adapter, in every decoder layer where they belong to one: ascending, each once,
    /// at least one.
    pub targets: Vec<LinearModule>,
}

impl LoraShape {
    /// What B A is multiplied by.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// Refuses what no adapter of a base has: a rank of 0, or above the smaller side of a target; a scale that is no
    /// positive number; the head of a model whose embedding it is, where an adapter would change one of the two and no
    /// file could hold the merged model.
    ///
    /// # Errors
    /// The first of these fields, with its value and what is allowed.
    pub fn validate(&self, base: &[ParameterSpec], ids: &ModelIds) -> Result<(), FieldError> {
        self.validate_alone()?;
        if self.targets.contains(&LinearModule::Head) && ids.is_tied() {
            let allowed = "linear layers of the decoder: the head of this model is tied to its embedding";
            return Err(FieldError::new("targets", LinearModule::Head, allowed));
        }
        let mut sides = Vec::new();
        each_linear(&self.targets, &mut ids.clone(), |module, linear| {
            let shape = &base[linear.weight.index()].shape;
            sides.push((module, shape[0].min(shape[1])));
        });
        match sides.into_iter().find(|&(_, most)| self.rank > most) {
            Some((module, most)) => {
                let allowed = format!("1 to {most}, the smaller side of {module}");
                Err(FieldError::new("rank", self.rank, allowed))
            }
            None => Ok(()),
        }
    }

    /// Refuses what no adapter of any base has.
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
        each_linear(&self.targets, ids, |_, linear| {
            let weight = &specs[linear.weight.index()];
            let path = weight.name.strip_suffix(".weight").unwrap_or(&weight.name).to_owned();
            let out = weight.shape[0];
            let input = weight.shape[1];
            let mut push = |part: &str, shape| {
                let name = format!("{PREFIX}{path}{part}");
                specs.push(ParameterSpec { name, shape, kind: ParameterKind::Adapter });
                ParameterId::at(specs.len() - 1)
            };
            let a = push(LORA_A, vec![self.rank, input]);
            let b = push(LORA_B, vec![out, self.rank]);
            linear.adapter = Some(AdapterIds { a, b });
        });
    }
}
