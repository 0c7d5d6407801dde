//! The parameters of a model: their Hugging Face names and shapes, and the fp32 master tensors.

use candle_core::{DType, Device, Tensor};
use evenkeel_seeds::{Stream, rng};
use rand_distr::{Distribution, Normal};

use crate::config::Config;
use crate::error::{ModelError, Result};

/// A parameter of [`Parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(usize);

impl ParameterId {
    /// The parameter at this index in the order of [`parameter_specs`].
    pub const fn at(index: usize) -> Self {
        Self(index)
    }

    /// The index in the order of [`parameter_specs`].
    pub const fn index(self) -> usize {
        self.0
    }
}

/// What a parameter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// An embedding, or the weight of a linear layer.
    Matrix,
    /// The weight of an RMSNorm.
    Norm,
    /// The bias of a linear layer.
    Bias,
}

impl ParameterKind {
    /// Whether decoupled weight decay applies: to matrices, not to norms and biases.
    pub const fn decays(self) -> bool {
        matches!(self, Self::Matrix)
    }
}

/// Name, shape and kind of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// The name in a Hugging Face checkpoint.
    pub name: String,
    /// Row-major shape; linear weights are (out, in).
    pub shape: Vec<usize>,
    /// What it is for.
    pub kind: ParameterKind,
}

/// A linear layer's weight and, if the architecture has one, its bias.
#[derive(Clone, Copy, Debug)]
pub struct LinearIds {
    /// (out, in).
    pub weight: ParameterId,
    /// (out).
    pub bias: Option<ParameterId>,
}

/// One decoder layer: its parameters, and whether it knows positions.
#[derive(Clone, Debug)]
pub struct LayerIds {
    /// Whether its queries and keys are rotated by their positions.
    pub is_rotated: bool,
    /// RMSNorm before attention.
    pub input_norm: ParameterId,
    /// Query projection.
    pub query: LinearIds,
    /// Key projection.
    pub key: LinearIds,
    /// Value projection.
    pub value: LinearIds,
    /// RMSNorm of each head's query, if the model has them.
    pub query_norm: Option<ParameterId>,
    /// RMSNorm of each head's key.
    pub key_norm: Option<ParameterId>,
    /// Projection of the attention's output.
    pub output: LinearIds,
    /// RMSNorm before the feed-forward block.
    pub post_norm: ParameterId,
    /// Gate of the feed-forward block.
    pub gate: LinearIds,
    /// Value of the feed-forward block.
    pub up: LinearIds,
    /// Projection back to the residual stream.
    pub down: LinearIds,
}

/// The parameters of each part of a model.
#[derive(Clone, Debug)]
pub struct ModelIds {
    /// Token embedding, (vocabulary, hidden).
    pub embedding: ParameterId,
    /// One entry for each decoder layer.
    pub layers: Vec<LayerIds>,
    /// RMSNorm before the head.
    pub norm: ParameterId,
    /// The head, (vocabulary, hidden); the embedding if they are tied.
    pub head: ParameterId,
}

/// Lists a model's parameters in the order of all reductions and files.
pub fn parameter_specs(config: &Config) -> (Vec<ParameterSpec>, ModelIds) {
    let mut list = SpecList(Vec::new());
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let (query, kv) = (config.query_width(), config.kv_width());
    let names = config.architecture.tensors();
    let biases = config.biases;
    let embedding = list.matrix(names.embedding.into(), config.vocab_size, hidden);
    let layers = (0..config.num_layers).map(|layer| {
        let name = |part: &str| format!("{}.{layer}.{part}", names.layers);
        LayerIds {
            is_rotated: !config.layers_without_rope.contains(&layer),
            input_norm: list.norm(name(names.input_norm), hidden),
            query: list.linear(name(names.query), query, hidden, biases.query),
            key: list.linear(name(names.key), kv, hidden, biases.key),
            value: list.linear(name(names.value), kv, hidden, biases.value),
            query_norm: config.query_key_norm.then(|| list.norm(name(names.query_norm), config.head_dim)),
            key_norm: config.query_key_norm.then(|| list.norm(name(names.key_norm), config.head_dim)),
            output: list.linear(name(names.output), hidden, query, biases.output),
            post_norm: list.norm(name(names.post_norm), hidden),
            gate: list.linear(name(names.gate), inner, hidden, biases.mlp),
            up: list.linear(name(names.up), inner, hidden, biases.mlp),
            down: list.linear(name(names.down), hidden, inner, biases.mlp),
        }
    });
    let layers = layers.collect();
    let norm = list.norm(names.norm.into(), hidden);
    let head = match config.tie_word_embeddings {
        true => embedding,
        false => list.matrix(names.head.into(), config.vocab_size, hidden),
    };
    (list.0, ModelIds { embedding, layers, norm, head })
}

struct SpecList(Vec<ParameterSpec>);

impl SpecList {
    fn push(&mut self, name: String, shape: Vec<usize>, kind: ParameterKind) -> ParameterId {
        self.0.push(ParameterSpec { name, shape, kind });
        ParameterId(self.0.len() - 1)
    }

    fn matrix(&mut self, name: String, rows: usize, columns: usize) -> ParameterId {
        self.push(name, vec![rows, columns], ParameterKind::Matrix)
    }

    fn norm(&mut self, name: String, length: usize) -> ParameterId {
        self.push(name, vec![length], ParameterKind::Norm)
    }

    fn linear(&mut self, name: String, out: usize, input: usize, bias: bool) -> LinearIds {
        let weight = self.matrix(format!("{name}.weight"), out, input);
        LinearIds { weight, bias: bias.then(|| self.push(format!("{name}.bias"), vec![out], ParameterKind::Bias)) }
    }
}

/// The fp32 master values of all parameters on one device: the only copy of the weights. A narrower compute type is cast
/// from them when it is used, one layer at a time.
#[derive(Clone, Debug)]
pub struct Parameters {
    specs: Vec<ParameterSpec>,
    ids: ModelIds,
    values: Vec<Tensor>,
}

impl Parameters {
    /// From values in the order of [`parameter_specs`], converted to contiguous fp32 tensors on `device`.
    pub fn new(config: &Config, values: Vec<Tensor>, device: &Device) -> Result<Self> {
        let (specs, ids) = parameter_specs(config);
        if values.len() != specs.len() {
            return Err(ModelError::input("number of parameters", values.len(), format!("{}", specs.len())));
        }
        let values = specs.iter().zip(values).map(|(spec, value)| {
            if value.dims() != spec.shape {
                let field = format!("shape of `{}`", spec.name);
                return Err(ModelError::input(field, format!("{:?}", value.dims()), format!("{:?}", spec.shape)));
            }
            Ok(value.to_device(device)?.to_dtype(DType::F32)?.contiguous()?.detach())
        });
        let values = values.collect::<Result<_>>()?;
        Ok(Self { specs, ids, values })
    }

    /// Random values as in transformers: matrices N(0, `deviation`²), norms 1, biases 0. Each parameter has its own random
    /// stream.
    pub fn random(config: &Config, seed: u64, deviation: f32, device: &Device) -> Result<Self> {
        let normal = Normal::new(0.0f32, deviation)
            .map_err(|_| ModelError::input("deviation", deviation, "a finite number, 0 or above"))?;
        let (specs, _) = parameter_specs(config);
        let values = specs.iter().enumerate().map(|(id, spec)| {
            let count = spec.shape.iter().product();
            let values: Vec<f32> = match spec.kind {
                ParameterKind::Matrix => {
                    let stream = Stream::InitialWeights { tensor: id as u64 };
                    normal.sample_iter(rng(seed, stream)).take(count).collect()
                }
                ParameterKind::Norm => vec![1.0; count],
                ParameterKind::Bias => vec![0.0; count],
            };
            Ok(Tensor::from_vec(values, spec.shape.as_slice(), device)?)
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        Self::new(config, values, device)
    }

    /// Names and shapes alone: every value is the same zero in memory. For kernels that only count.
    pub fn described(config: &Config) -> Result<Self> {
        let (specs, ids) = parameter_specs(config);
        let zero = Tensor::zeros((), DType::F32, &Device::Cpu)?;
        let values = specs.iter().map(|spec| Ok(zero.broadcast_as(spec.shape.as_slice())?)).collect::<Result<_>>()?;
        Ok(Self { specs, ids, values })
    }

    /// Names and shapes, in order.
    pub fn specs(&self) -> &[ParameterSpec] {
        &self.specs
    }

    /// Name and shape of a parameter.
    pub fn spec(&self, id: ParameterId) -> &ParameterSpec {
        &self.specs[id.0]
    }

    /// The parameters of each part of the model.
    pub fn ids(&self) -> &ModelIds {
        &self.ids
    }

    /// The fp32 value of a parameter, contiguous.
    pub fn get(&self, id: ParameterId) -> &Tensor {
        &self.values[id.0]
    }

    /// Where the values are.
    pub fn device(&self) -> &Device {
        // Every model has an embedding.
        self.get(self.ids.embedding).device()
    }

    /// All values, in order.
    pub fn values(&self) -> &[Tensor] {
        &self.values
    }

    /// All values, for an optimizer to replace or change in place, keeping shape, type and layout.
    pub fn values_mut(&mut self) -> &mut [Tensor] {
        &mut self.values
    }

    /// Number of scalars.
    pub fn count(&self) -> usize {
        self.specs.iter().map(|spec| spec.shape.iter().product::<usize>()).sum()
    }

    /// A copy that shares no storage, so that in-place updates of one do not affect the other.
    pub fn deep_copy(&self) -> Result<Self> {
        let values = self.values.iter().map(Tensor::copy).collect::<Result<_, _>>()?;
        Ok(Self { specs: self.specs.clone(), ids: self.ids.clone(), values })
    }
}
