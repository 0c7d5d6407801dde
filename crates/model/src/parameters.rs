//! The parameters of a model: their Hugging Face names and shapes, and the fp32 master tensors. Training changes all of
//! them, or adapters alone.

pub(crate) mod lora;

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use evenkeel_seeds::{Stream, rng};
use rand_distr::{Distribution, Normal, Uniform};

use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::parameters::lora::{LORA_A, LoraShape};

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
    /// A or B of a LoRA adapter.
    Adapter,
}

impl ParameterKind {
    /// Whether decoupled weight decay applies: to matrices, not to norms and biases, nor to adapters, which it would
    /// pull to the base.
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
    /// Kind of the parameter.
    pub kind: ParameterKind,
}

/// A linear layer's weight and, if the architecture has one, its bias.
#[derive(Clone, Copy, Debug)]
pub struct LinearIds {
    /// The matrix, (out, in).
    pub weight: ParameterId,
    /// One value per output, (out).
    pub bias: Option<ParameterId>,
    /// What is computed beside the weight, if anything is.
    pub adapter: Option<AdapterIds>,
}

/// A linear layer's LoRA adapter.
#[derive(Clone, Copy, Debug)]
pub struct AdapterIds {
    /// Matrix A, (rank, in).
    pub a: ParameterId,
    /// Matrix B, (out, rank).
    pub b: ParameterId,
}

/// One decoder layer: its parameters, and whether it knows positions.
#[derive(Clone, Debug)]
pub struct LayerIds {
    /// Whether its queries and keys are rotated by their positions.
    pub is_rotated: bool,
    /// RMSNorm of the input of attention.
    pub input_norm: ParameterId,
    /// Projection of the input to queries.
    pub query: LinearIds,
    /// Projection of the input to keys.
    pub key: LinearIds,
    /// Projection of the input to values.
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
    /// The head, (vocabulary, hidden); its weight is the embedding if they are tied.
    pub head: LinearIds,
}

impl ModelIds {
    /// Whether the head is the embedding.
    pub fn is_tied(&self) -> bool {
        self.head.weight == self.embedding
    }
}

/// Lists a model's parameters in the order of all reductions and files.
pub fn parameter_specs(config: &Config) -> (Vec<ParameterSpec>, ModelIds) {
    let mut list = SpecList(Vec::new());
    let hidden = config.hidden_size;
    let inner = config.intermediate_size;
    let query = config.query_width();
    let kv = config.kv_width();
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
    let head =
        if config.tie_word_embeddings { embedding } else { list.matrix(names.head.into(), config.vocab_size, hidden) };
    let head = LinearIds { weight: head, bias: None, adapter: None };
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
        let bias = bias.then(|| self.push(format!("{name}.bias"), vec![out], ParameterKind::Bias));
        LinearIds { weight, bias, adapter: None }
    }
}

/// The fp32 master values of all parameters on one device: the only copy of the weights. A narrower compute type is
/// cast from them when it is used, one layer at a time. Matrices of a frozen base may be held in bf16, which are
/// widened when they are used.
///
/// Part of them is trained: all, or with adapters these alone. Gradients, moments, updates and files of training are of
/// that part.
#[derive(Clone, Debug)]
pub struct Parameters {
    specs: Vec<ParameterSpec>,
    ids: ModelIds,
    values: Vec<Tensor>,
    lora: Option<LoraShape>,
}

impl Parameters {
    /// Parameters from values in the order of [`parameter_specs`], converted to contiguous fp32 tensors on `device`.
    /// All are trained.
    pub fn new(config: &Config, values: Vec<Tensor>, device: &Device) -> Result<Self> {
        let values = values
            .into_iter()
            .map(|value| Ok(value.to_device(device)?.to_dtype(DType::F32)?.contiguous()?))
            .collect::<Result<_>>()?;
        Self::laid_out(config, values)
    }

    /// Parameters from values in the order of [`parameter_specs`], in whatever layout they have, in fp32 or, matrices
    /// alone, in bf16.
    ///
    /// # Errors
    /// Another number of values, or one of another shape.
    pub fn laid_out(config: &Config, values: Vec<Tensor>) -> Result<Self> {
        let (specs, ids) = parameter_specs(config);
        if values.len() != specs.len() {
            return Err(ModelError::input("number of parameters", values.len(), format!("{}", specs.len())));
        }
        let held = |(spec, value): (&ParameterSpec, Tensor)| match (spec.kind, value.dtype()) {
            (ParameterKind::Matrix, DType::BF16) => of_shape(spec, &value),
            _ => in_f32(spec, &value),
        };
        let values = specs.iter().zip(values).map(held).collect::<Result<_>>()?;
        Ok(Self { specs, ids, values, lora: None })
    }

    /// Random values as in transformers: matrices N(0, `deviation`²), norms 1, biases 0. Each parameter has its own
    /// random stream.
    pub fn random(config: &Config, seed: u64, deviation: f32, device: &Device) -> Result<Self> {
        let normal = Normal::new(0.0f32, deviation)
            .map_err(|_| ModelError::input("deviation", deviation, "a finite number, 0 or above"))?;
        let (specs, _) = parameter_specs(config);
        let values = specs.iter().enumerate().map(|(id, spec)| {
            let count = spec.shape.iter().product();
            let values: Vec<f32> = match spec.kind {
                ParameterKind::Matrix | ParameterKind::Adapter => {
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
        Self::described_as(config, DType::F32)
    }

    fn described_as(config: &Config, matrices: DType) -> Result<Self> {
        let (specs, ids) = parameter_specs(config);
        let values = zeros_of(&specs, matrices)?;
        Ok(Self { specs, ids, values, lora: None })
    }

    /// Describes a base with adapters, if there are any: names and shapes without values of their own.
    ///
    /// # Errors
    /// As [`with_adapters`](Self::with_adapters).
    pub fn described_with(config: &Config, lora: Option<&LoraShape>) -> Result<Self> {
        let base = Self::described(config)?;
        match lora {
            Some(lora) => base.with_described_adapters(lora),
            None => Ok(base),
        }
    }

    /// Describes adapters beside a base whose matrices are held in bf16.
    ///
    /// # Errors
    /// As [`with_adapters`](Self::with_adapters).
    pub fn described_in_bf16(config: &Config, lora: &LoraShape) -> Result<Self> {
        Self::described_as(config, DType::BF16)?.with_described_adapters(lora)
    }

    fn with_described_adapters(self, lora: &LoraShape) -> Result<Self> {
        let (specs, _) = self.extended(lora)?;
        let adapters = zeros_of(&specs[self.specs.len()..], DType::F32)?;
        self.with_adapters(lora, adapters)
    }

    /// These parameters as a frozen base, with adapters whose values are in the order of
    /// [`adapter_specs`](Self::adapter_specs).
    ///
    /// # Errors
    /// A shape that no adapter of this base has, or values of other shapes.
    pub fn with_adapters(mut self, lora: &LoraShape, adapters: Vec<Tensor>) -> Result<Self> {
        let (specs, ids) = self.extended(lora)?;
        let added = &specs[self.specs.len()..];
        if adapters.len() != added.len() {
            return Err(ModelError::input("number of adapters' tensors", adapters.len(), format!("{}", added.len())));
        }
        let device = self.device().clone();
        for (spec, value) in added.iter().zip(adapters) {
            self.values.push(in_f32(spec, &value.to_device(&device)?)?);
        }
        Ok(Self { specs, ids, lora: Some(lora.clone()), ..self })
    }

    /// These parameters as a frozen base, with the adapters of a training that begins: A uniform within ±1 / sqrt(in),
    /// as PEFT draws it, each from its own random stream; B zero.
    ///
    /// # Errors
    /// A shape that no adapter of this base has.
    pub fn with_fresh_adapters(self, lora: &LoraShape, seed: u64) -> Result<Self> {
        let (specs, _) = self.extended(lora)?;
        let first = self.specs.len();
        let device = self.device().clone();
        let adapters = (first..specs.len()).map(|id| fresh_adapter(&specs[id], id - first, seed, &device));
        let adapters = adapters.collect::<Result<_>>()?;
        self.with_adapters(lora, adapters)
    }

    /// The first values of a trained adapter's tensor, by its number among what is trained: see
    /// [`with_fresh_adapters`](Self::with_fresh_adapters).
    pub fn fresh_adapter(&self, number: usize, seed: u64) -> Result<Tensor> {
        fresh_adapter(&self.trained_specs()[number], number, seed, self.device())
    }

    /// Names and shapes of the adapters that this base would have, by PEFT's names.
    ///
    /// # Errors
    /// A shape that no adapter of this base has.
    pub fn adapter_specs(&self, lora: &LoraShape) -> Result<Vec<ParameterSpec>> {
        let (mut specs, _) = self.extended(lora)?;
        Ok(specs.split_off(self.specs.len()))
    }

    fn extended(&self, lora: &LoraShape) -> Result<(Vec<ParameterSpec>, ModelIds)> {
        if self.lora.is_some() {
            return Err(ModelError::input(
                "adapters of the base",
                "present",
                "none: adapters lie beside a plain model",
            ));
        }
        let mut specs = self.specs.clone();
        let mut ids = self.ids.clone();
        lora.validate(&specs, &ids).map_err(ModelError::Input)?;
        lora.extend(&mut specs, &mut ids);
        Ok((specs, ids))
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

    /// The shape of the adapters; `None` where all parameters are trained.
    pub fn lora(&self) -> Option<&LoraShape> {
        self.lora.as_ref()
    }

    /// The indices of what is trained: of all parameters, or of the adapters.
    pub fn trained(&self) -> Range<usize> {
        let first = if self.lora.is_some() { self.base_count() } else { 0 };
        first..self.specs.len()
    }

    /// Names and shapes of what is trained, in order.
    pub fn trained_specs(&self) -> &[ParameterSpec] {
        &self.specs[self.trained()]
    }

    /// The values of what is trained, in order, contiguous.
    pub fn trained_values(&self) -> &[Tensor] {
        &self.values[self.trained()]
    }

    /// The values of what is trained, for an optimizer to replace or change in place. Shape, type and layout must stay.
    pub fn trained_values_mut(&mut self) -> &mut [Tensor] {
        let trained = self.trained();
        &mut self.values[trained]
    }

    /// Number of scalars that are trained.
    pub fn trained_count(&self) -> usize {
        scalars(self.trained_specs())
    }

    fn base_count(&self) -> usize {
        self.specs.iter().position(|spec| spec.kind == ParameterKind::Adapter).unwrap_or(self.specs.len())
    }

    fn base_specs(&self) -> &[ParameterSpec] {
        &self.specs[..self.base_count()]
    }

    /// The value of a parameter: in fp32, or a matrix of a frozen base in bf16; contiguous, unless it belongs to a
    /// frozen base that a decoder shares.
    pub fn get(&self, id: ParameterId) -> &Tensor {
        &self.values[id.0]
    }

    /// Device that holds the values.
    pub fn device(&self) -> &Device {
        // Every model has an embedding.
        self.get(self.ids.embedding).device()
    }

    /// All values, in order.
    pub fn values(&self) -> &[Tensor] {
        &self.values
    }

    /// All values as layers compute with them: B of each adapter times the scale, the others as they are.
    pub(crate) fn scaled(&self) -> Result<Vec<Tensor>> {
        let Some(lora) = &self.lora else { return Ok(self.values.clone()) };
        let scale = lora.scale();
        let mut values = self.values.clone();
        if scale != 1.0 {
            for b in self.adapters().map(|adapter| adapter.b.index()) {
                values[b] = values[b].affine(scale, 0.0)?;
            }
        }
        Ok(values)
    }

    /// The adapters, in order; none where all parameters are trained.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = AdapterIds> {
        // What is trained are pairs of A and B then.
        let pairs = if self.lora.is_some() { self.trained() } else { 0..0 };
        pairs.step_by(2).map(|a| AdapterIds { a: ParameterId::at(a), b: ParameterId::at(a + 1) })
    }

    /// The model that results from adding the adapters to their base, in memory of its own.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn merged(&self) -> Result<Self> {
        let mut ids = self.ids.clone();
        let base = self.base_count();
        let mut values: Vec<Tensor> = self.values[..base].to_vec();
        if let Some(lora) = &self.lora {
            let mut adapted = Vec::new();
            lora::each_linear(&lora.targets, &mut ids, |_, linear| {
                adapted.extend(linear.adapter.take().map(|adapter| (linear.weight, adapter)));
            });
            for (weight, AdapterIds { a, b }) in adapted {
                let change = self.get(b).matmul(self.get(a))?.affine(lora.scale(), 0.0)?;
                values[weight.index()] = (self.get(weight).to_dtype(DType::F32)? + change)?;
            }
        }
        let values =
            values.iter().map(|value| Ok(value.to_dtype(DType::F32)?.force_contiguous()?)).collect::<Result<_>>()?;
        Ok(Self { specs: self.base_specs().to_vec(), ids, values, lora: None })
    }

    /// Number of scalars in all parameters.
    pub fn count(&self) -> usize {
        scalars(&self.specs)
    }

    /// Bytes of all values, each in the type that it is held in.
    pub fn bytes(&self) -> u64 {
        self.values.iter().map(|value| (value.elem_count() * value.dtype().size_in_bytes()) as u64).sum()
    }

    /// A copy whose trained values share no storage, so that in-place updates of one do not affect the other.
    pub fn deep_copy(&self) -> Result<Self> {
        let mut copy = self.clone();
        for value in copy.trained_values_mut() {
            *value = value.copy()?;
        }
        Ok(copy)
    }
}

/// A value of a parameter in fp32.
fn in_f32(spec: &ParameterSpec, value: &Tensor) -> Result<Tensor> {
    Ok(of_shape(spec, value)?.to_dtype(DType::F32)?.detach())
}

/// A value of a parameter's shape.
fn of_shape(spec: &ParameterSpec, value: &Tensor) -> Result<Tensor> {
    if value.dims() != spec.shape {
        let field = format!("shape of `{}`", spec.name);
        return Err(ModelError::input(field, format!("{:?}", value.dims()), format!("{:?}", spec.shape)));
    }
    Ok(value.detach())
}

/// The first values of an adapter's tensor.
fn fresh_adapter(spec: &ParameterSpec, number: usize, seed: u64, device: &Device) -> Result<Tensor> {
    if !spec.name.ends_with(LORA_A) {
        return Ok(Tensor::zeros(spec.shape.as_slice(), DType::F32, device)?);
    }
    let bound = 1.0 / (spec.shape[1] as f32).sqrt();
    let uniform = Uniform::new_inclusive(-bound, bound).expect("a finite bound above 0");
    let stream = Stream::InitialAdapters { tensor: number as u64 };
    let values: Vec<f32> = uniform.sample_iter(rng(seed, stream)).take(spec.shape.iter().product()).collect();
    Ok(Tensor::from_vec(values, spec.shape.as_slice(), device)?)
}

fn zeros_of(specs: &[ParameterSpec], matrices: DType) -> Result<Vec<Tensor>> {
    let zero = Tensor::zeros((), DType::F32, &Device::Cpu)?;
    let of_matrix = zero.to_dtype(matrices)?;
    let zero = |spec: &ParameterSpec| if spec.kind == ParameterKind::Matrix { &of_matrix } else { &zero };
    specs.iter().map(|spec| Ok(zero(spec).broadcast_as(spec.shape.as_slice())?)).collect()
}

fn scalars(specs: &[ParameterSpec]) -> usize {
    specs.iter().map(|spec| spec.shape.iter().product::<usize>()).sum()
}
