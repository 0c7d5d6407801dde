//! Decoding over a KV cache: many sequences at once, each with any number of new tokens (a whole prompt, part of one,
//! or the last sampled token).
//!
//! With the CPU kernels a sequence's logits are the same to the bit alone or in any batch, in any order, with any split
//! of its prompt, on any number of threads: every kernel computes a row from that row's sequence alone, in an order
//! that depends on nothing else. It is the order of the network in training, so that both have the same logits, and
//! the log-probability that is reported with a sampled token is the one that the learner computes for it.

mod base;
mod layout;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::folder::StoredAdapter;
use crate::kernels::cpu::{Cpu, reads_weights_by_rows};
use crate::kernels::{CachedAttention, DecoderKernels, HeadShape, Rows};
use crate::network::layer::Pass;
use crate::network::validate_temperature;
use crate::pack::validate_ids;
use crate::parameters::lora::LoraShape;
use crate::parameters::{ModelIds, ParameterId, Parameters};
pub use base::BaseWeights;
use layout::transposed;

/// The keys and values of one sequence, and its length.
pub struct KvCache<K: CachedAttention = Cpu> {
    layers: Vec<K::Cache>,
    length: usize,
}

impl<K: CachedAttention> KvCache<K> {
    /// Tokens in the cache.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the cache has no token.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// New tokens of one sequence.
pub struct DecodeStep<'a, K: CachedAttention = Cpu> {
    /// The sequence's cache, to which the new tokens are appended.
    pub cache: &'a mut KvCache<K>,
    /// Ids of the new tokens, one or more.
    pub ids: &'a [u32],
    /// Divides the logits; above 0.
    pub temperature: f32,
}

impl<'a, K: CachedAttention> DecodeStep<'a, K> {
    /// A step with new tokens whose logits are not divided by a temperature.
    pub fn new(cache: &'a mut KvCache<K>, ids: &'a [u32]) -> Self {
        Self { cache, ids, temperature: 1.0 }
    }
}

/// A model laid out for decoding.
pub struct Decoder<K: DecoderKernels = Cpu> {
    config: Config,
    ids: ModelIds,
    /// By parameter id, and after them the head of a tied model where that is stored by its columns.
    weights: Vec<Tensor>,
    /// Whose weights these are, which others may share.
    base: Arc<BaseWeights>,
    kernels: K,
    table: K::RotaryTable,
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

impl<K: DecoderKernels> Decoder<K> {
    /// Creates a decoder with its own copy of the current parameters.
    pub fn new(config: Config, parameters: &Parameters, kernels: K, threads: usize) -> Result<Self> {
        let base = Arc::new(BaseWeights::copied(config, parameters)?);
        match parameters.lora() {
            None => Self::of(base, kernels, threads),
            Some(lora) => Self::with_adapters(base, lora, parameters.trained_values().to_vec(), kernels, threads),
        }
    }

    /// Creates a decoder of weights on a disk, without a copy of them beside its own.
    ///
    /// # Errors
    /// As for [`load_parameters`](crate::folder::load_parameters), and 0 threads.
    pub fn load(folder: &Path, config: Config, kernels: K, threads: usize) -> Result<Self> {
        Self::of(Arc::new(BaseWeights::load(folder, config)?), kernels, threads)
    }

    /// Creates a decoder of weights that others may share.
    ///
    /// # Errors
    /// 0 threads.
    pub fn of(base: Arc<BaseWeights>, kernels: K, threads: usize) -> Result<Self> {
        let parameters = base.parameters()?;
        Self::over(base, &parameters, kernels, threads)
    }

    /// Creates a decoder that computes adapters beside weights that others may share. Their values are in the order of
    /// [`Parameters::adapter_specs`].
    ///
    /// # Errors
    /// Adapters of another model, and 0 threads.
    pub fn with_adapters(
        base: Arc<BaseWeights>,
        lora: &LoraShape,
        adapters: Vec<Tensor>,
        kernels: K,
        threads: usize,
    ) -> Result<Self> {
        let parameters = base.parameters()?.with_adapters(lora, adapters)?;
        Self::over(base, &parameters, kernels, threads)
    }

    /// Creates a decoder with an adapter that is read from a disk.
    ///
    /// # Errors
    /// As [`with_adapters`](Self::with_adapters), and a file that cannot be read, or that brings another head than the
    /// base's.
    pub fn beside(base: Arc<BaseWeights>, adapter: &StoredAdapter, kernels: K, threads: usize) -> Result<Self> {
        adapter.validate_head(&base.parameters()?)?;
        Self::with_adapters(base, adapter.shape(), adapter.read_all(&Device::Cpu)?, kernels, threads)
    }

    /// Over a base's parameters, with adapters or without.
    fn over(base: Arc<BaseWeights>, parameters: &Parameters, kernels: K, threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(ModelError::input("threads", threads, "1 or more"));
        }
        let config = base.config().clone();
        let mut ids = parameters.ids().clone();
        let mut weights = parameters.scaled()?;
        if !reads_weights_by_rows() {
            if parameters.lora().is_some() {
                for adapter in parameters.trained() {
                    weights[adapter] = transposed(&weights[adapter])?;
                }
            }
            if ids.is_tied() {
                ids.head.weight = ParameterId::at(weights.len());
                weights.push(base.head_by_columns()?.clone());
            }
        }
        let table = kernels.rotary_table(&config)?;
        let pool = (threads > 1).then(|| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("decode-{i}"));
            pool.build().map_err(|e| ModelError::input("threads", threads, format!("what the system can start ({e})")))
        });
        Ok(Self { config, ids, weights, base, kernels, table, pool: pool.transpose()?, threads })
    }

    /// The weights without adapters.
    pub fn base(&self) -> &Arc<BaseWeights> {
        &self.base
    }

    /// Sizes and capabilities of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// An empty cache for a new sequence.
    pub fn sequence(&self) -> Result<KvCache<K>> {
        let shape = HeadShape::of(&self.config);
        let layers = (0..self.config.num_layers).map(|_| self.kernels.new_cache(shape)).collect::<Result<_>>()?;
        Ok(KvCache { layers, length: 0 })
    }

    /// The keys and values of the first tokens of a sequence: those of any other sequence that begins with the same
    /// ones.
    ///
    /// # Errors
    /// More tokens than it has.
    pub fn prefix(&self, of: &KvCache<K>, tokens: usize) -> Result<KvCache<K>> {
        if tokens > of.length {
            return Err(ModelError::input("tokens of a prefix", tokens, format!("at most {}", of.length)));
        }
        let shape = HeadShape::of(&self.config);
        let layers = of.layers.iter().map(|layer| self.kernels.prefix(layer, tokens, shape)).collect::<Result<_>>()?;
        Ok(KvCache { layers, length: tokens })
    }

    /// Appends each step's tokens and returns the logits after its last one, divided by its temperature: (steps,
    /// vocabulary).
    ///
    /// # Errors
    /// A temperature that is not above 0, an id outside the vocabulary, a step without tokens, or a sequence that would
    /// exceed the context; then nothing is appended.
    pub fn step(&self, steps: &mut [DecodeStep<'_, K>]) -> Result<Vec<f32>> {
        self.check(steps)?;
        let Some(pool) = self.pool.as_ref().filter(|_| steps.len() > 1) else {
            return self.forward(steps);
        };
        let shares = split(steps, self.threads);
        let mut done: Vec<Result<Vec<f32>>> = shares.iter().map(|_| Ok(Vec::new())).collect();
        pool.scope(|scope| {
            for (share, done) in shares.into_iter().zip(&mut done) {
                scope.spawn(move |_| *done = self.forward(share));
            }
        });
        Ok(done.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    fn check(&self, steps: &[DecodeStep<'_, K>]) -> Result<()> {
        for (number, step) in steps.iter().enumerate() {
            if step.ids.is_empty() {
                return Err(ModelError::input(format!("new tokens of step {number}"), 0, "1 or more"));
            }
            validate_ids(&self.config, step.ids)?;
            validate_temperature(|| format!("temperature of step {number}"), step.temperature)?;
            let length = step.cache.length + step.ids.len();
            let longest = self.config.max_position_embeddings;
            if length > longest {
                let allowed = format!("at most max_position_embeddings = {longest}");
                return Err(ModelError::input(format!("sequence length of step {number}"), length, allowed));
            }
        }
        Ok(())
    }

    /// One thread's steps through the whole model.
    fn forward(&self, steps: &mut [DecodeStep<'_, K>]) -> Result<Vec<f32>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let counts: Vec<usize> = steps.iter().map(|step| step.ids.len()).collect();
        let ids: Vec<u32> = steps.iter().flat_map(|step| step.ids.iter().copied()).collect();
        let positions = steps.iter().flat_map(|step| (step.cache.length..).take(step.ids.len()));
        let positions: Vec<u32> = positions.map(|position| position as u32).collect();
        let pass = Pass {
            kernels: &self.kernels,
            config: &self.config,
            weights: Cow::Borrowed(&self.weights),
            table: &self.table,
            positions: &positions,
        };
        let mut x = self.kernels.embed(&self.weights[self.ids.embedding.index()], &ids)?;
        for number in 0..self.config.num_layers {
            let mut caches: Vec<_> = steps.iter_mut().map(|step| &mut step.cache.layers[number]).collect();
            x = self.layer(&pass, &x, number, &counts, &mut caches)?;
        }
        for (step, count) in steps.iter_mut().zip(&counts) {
            step.cache.length += count;
        }
        let last = select_last(&self.kernels, &x, &counts)?;
        let hidden = pass.norm(&last, self.ids.norm)?;
        let temperatures: Vec<f32> = steps.iter().map(|step| step.temperature).collect();
        self.logits(&pass, &hidden, &temperatures)
    }

    /// The logits of hidden states, each row's divided by its temperature.
    fn logits(&self, pass: &Pass<'_, K>, hidden: &K::Matrix, temperatures: &[f32]) -> Result<Vec<f32>> {
        let first = temperatures[0];
        if temperatures.iter().all(|&other| other == first) {
            return pass.head_logits(hidden, self.ids.head, first);
        }
        // A product has one factor for all of its rows.
        let vocabulary = self.config.vocab_size;
        let mut logits = vec![0.0; temperatures.len() * vocabulary];
        let mut rows_at: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, temperature) in temperatures.iter().enumerate() {
            rows_at.entry(temperature.to_bits()).or_default().push(row as u32);
        }
        for (temperature, rows) in rows_at {
            let hidden = self.kernels.select_rows(hidden, &rows)?;
            let found = pass.head_logits(&hidden, self.ids.head, f32::from_bits(temperature))?;
            for (row, found) in rows.into_iter().zip(found.chunks_exact(vocabulary)) {
                logits[row as usize * vocabulary..][..vocabulary].copy_from_slice(found);
            }
        }
        Ok(logits)
    }

    fn layer(
        &self,
        pass: &Pass<'_, K>,
        x: &K::Matrix,
        number: usize,
        counts: &[usize],
        caches: &mut [&mut K::Cache],
    ) -> Result<K::Matrix> {
        let ids = &self.ids.layers[number];
        let shape = HeadShape::of(&self.config);
        let normed = pass.norm(x, ids.input_norm)?;
        let (q, _) = pass.rotated(pass.linear(&normed, ids.query, None)?, ids.query_norm, ids.is_rotated)?;
        let (k, _) = pass.rotated(pass.linear(&normed, ids.key, None)?, ids.key_norm, ids.is_rotated)?;
        let v = pass.linear(&normed, ids.value, None)?;
        let attended = self.kernels.attend(&q, &k, &v, shape, counts, caches)?;
        let middle = pass.linear(&attended, ids.output, Some(x))?;
        let post_normed = pass.norm(&middle, ids.post_norm)?;
        let gated = self
            .kernels
            .swiglu(&pass.linear(&post_normed, ids.gate, None)?, &pass.linear(&post_normed, ids.up, None)?)?;
        pass.linear(&gated, ids.down, Some(&middle))
    }
}

fn select_last<K: Rows>(kernels: &K, x: &K::Matrix, counts: &[usize]) -> Result<K::Matrix> {
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end as u32 - 1)
    });
    kernels.select_rows(x, &ends.collect::<Vec<_>>())
}

/// Splits the steps into at most `parts` runs of neighbours with about the same number of new tokens.
fn split<'s, 'a, K: CachedAttention>(
    mut steps: &'s mut [DecodeStep<'a, K>],
    parts: usize,
) -> Vec<&'s mut [DecodeStep<'a, K>]> {
    let mut shares = Vec::with_capacity(parts);
    for part in (1..=parts).rev() {
        let left: usize = steps.iter().map(|step| step.ids.len()).sum();
        let mut tokens = 0;
        let mut count = 0;
        while count < steps.len() && (part == 1 || tokens < left.div_ceil(part)) {
            tokens += steps[count].ids.len();
            count += 1;
        }
        let (share, rest) = steps.split_at_mut(count);
        shares.push(share);
        steps = rest;
    }
    shares
}
