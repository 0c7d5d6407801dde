//! For tests: a small model that counts, fails on request, and has an optimizer's kernels on a CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device, Tensor};
use evenkeel_model::folder::Values;
use evenkeel_model::kernels::{Moment, OptimizerKernels};
use evenkeel_model::sampling::{SampledFrom, SampledToken, TokenDraw};
use evenkeel_model::{
    Architecture, Biases, Config, ModelError, Packed, Parameters, PartialGradient, Rope, Scores, TokenLoss,
    TrainableModel,
};

use crate::model::Model;
use crate::ranks::Division;
use crate::source::ModelSource;
use crate::trainer::Trainer;
use crate::{Learner, Response, ResponseGroup, TrainingSettings};

/// A model whose backward passes fail once some have succeeded, as on a device that is lost. It counts the
/// micro-batches that it scores.
#[derive(Default)]
pub(crate) struct TestModel {
    pub(crate) passes: usize,
    pub(crate) scored: Arc<AtomicUsize>,
    /// What updates are computed by, if not by the optimizer's own loops.
    pub(crate) kernels: Option<Box<dyn OptimizerKernels + Send>>,
}

impl TestModel {
    /// A learner for it.
    pub(crate) fn learner(self, mut settings: TrainingSettings) -> Learner {
        settings.compute.threads = 1;
        let options = settings.compute.network_options();
        let model = evenkeel_model::network(config(), parameters(), DType::F32, options).unwrap();
        learner_with(Box::new(Wrapped { test: self, model }), settings)
    }
}

/// A learner for a network of [`config`].
pub(crate) fn learner_with(policy: Box<dyn TrainableModel>, settings: TrainingSettings) -> Learner {
    let mut model = Model::new(config(), parameters(), &settings, Division::ALONE).unwrap();
    model.replace_policy(policy);
    Learner::of(Trainer::of(model, settings, Division::ALONE).unwrap(), ModelSource::memory(&config()).unwrap())
}

pub(crate) fn parameters() -> Parameters {
    Parameters::random(&config(), 5, 0.2, &Device::Cpu).unwrap()
}

pub(crate) fn config() -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 11,
        hidden_size: 8,
        intermediate_size: 16,
        num_layers: 1,
        num_heads: 1,
        num_kv_heads: 1,
        head_dim: 8,
        max_position_embeddings: 16,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: vec![1],
    }
}

/// Three groups, each with an advantage.
pub(crate) fn groups() -> Vec<ResponseGroup> {
    let response = |token: u32, reward: f64| Response {
        tokens: vec![token, token + 1],
        mask: vec![true; 2],
        rollout_logp: vec![-2.0; 2],
        raw_reward: reward,
        reward,
        valid: true,
        ..Response::default()
    };
    let group = |number: u32| ResponseGroup {
        id: format!("prompt-{number}"),
        prompt: vec![2, 3 + number],
        hinted_prompt: None,
        responses: vec![response(4 + number, 1.0), response(6 + number, 0.0)],
    };
    (0..3).map(group).collect()
}

/// Every bit that a later step depends on.
pub(crate) fn state(learner: &mut Learner) -> (Vec<u32>, u64, u64) {
    let weights = learner.parameters().trained_values().to_vec();
    let optimizer = learner.trainer_mut().optimizer();
    let mut tensors = weights.clone();
    for moment in Moment::ALL {
        tensors.extend(weights.iter().enumerate().map(|(id, weight)| match optimizer.moments().values(moment, id) {
            Values::Tensor(tensor) => tensor.clone(),
            Values::Host(values) => Tensor::from_slice(values, weight.shape(), &Device::Cpu).unwrap(),
        }));
    }
    let bits = tensors.iter().flat_map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap());
    (bits.map(f32::to_bits).collect(), optimizer.counts().updates, learner.version())
}

struct Wrapped {
    test: TestModel,
    model: Box<dyn TrainableModel>,
}

impl TrainableModel for Wrapped {
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn parameters(&self) -> &Parameters {
        self.model.parameters()
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.model.parameters_mut()
    }

    fn for_update(&mut self) -> (Option<&dyn OptimizerKernels>, &mut Parameters) {
        let (own, parameters) = self.model.for_update();
        let kernels = self.test.kernels.as_deref().map(|kernels| kernels as &dyn OptimizerKernels);
        (kernels.or(own), parameters)
    }

    fn score(&self, batches: &[Packed], temperature: f32) -> Result<Vec<Scores>, ModelError> {
        self.test.scored.fetch_add(batches.len(), Ordering::Relaxed);
        self.model.score(batches, temperature)
    }

    fn score_sampled(
        &self,
        batches: &[Packed],
        from: SampledFrom<'_>,
        draws: &[Vec<TokenDraw>],
    ) -> Result<Vec<Vec<SampledToken>>, ModelError> {
        self.model.score_sampled(batches, from, draws)
    }

    fn accumulate(&mut self, batches: &[Packed], temperature: f32, loss: &dyn TokenLoss) -> Result<(), ModelError> {
        match self.test.passes.checked_sub(1) {
            Some(left) => {
                self.test.passes = left;
                self.model.accumulate(batches, temperature, loss)
            }
            None => Err(ModelError::Loss("the device is lost".into())),
        }
    }

    fn take_gradients(&mut self) -> Result<Vec<Tensor>, ModelError> {
        self.model.take_gradients()
    }

    fn take_partial_gradients(&mut self) -> Result<Vec<PartialGradient>, ModelError> {
        self.model.take_partial_gradients()
    }

    fn discard_gradients(&mut self) {
        self.model.discard_gradients();
    }

    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.model.logits(ids)
    }
}
