//! What a step asks of the model and when, and a model that fails between two updates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{Device, Tensor};
use evenkeel_model::kernels::OptimizerKernels;
use evenkeel_model::{Config, Family, ModelError, Packed, Parameters, Scores, TokenLoss, Train};

use crate::{Group, Learner, LearnerSettings, OptimizerSettings, Response};

/// A model whose backward passes fail once some have succeeded, as on a device that is lost. It counts the micro-batches
/// that it scores.
struct FailsAfter {
    passes: usize,
    scored: Arc<AtomicUsize>,
    model: Box<dyn Train>,
}

impl Train for FailsAfter {
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
        self.model.for_update()
    }

    fn score(&self, batches: &[Packed], temperature: f32) -> Result<Vec<Scores>, ModelError> {
        self.scored.fetch_add(batches.len(), Ordering::Relaxed);
        self.model.score(batches, temperature)
    }

    fn accumulate(&mut self, batches: &[Packed], temperature: f32, loss: &dyn TokenLoss) -> Result<(), ModelError> {
        match self.passes.checked_sub(1) {
            Some(left) => {
                self.passes = left;
                self.model.accumulate(batches, temperature, loss)
            }
            None => Err(ModelError::Loss("the device is lost".into())),
        }
    }

    fn take_gradients(&mut self) -> Result<Vec<Tensor>, ModelError> {
        self.model.take_gradients()
    }

    fn discard_gradients(&mut self) {
        self.model.discard_gradients();
    }

    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.model.logits(ids)
    }
}

fn learner(passes: usize) -> Learner {
    counted(passes, Arc::default())
}

fn counted(passes: usize, scored: Arc<AtomicUsize>) -> Learner {
    let config = Config {
        family: Family::Qwen3,
        vocab_size: 11,
        hidden_size: 8,
        intermediate_size: 16,
        num_layers: 1,
        num_heads: 1,
        num_kv_heads: 1,
        head_dim: 8,
        max_position_embeddings: 16,
        rms_norm_eps: 1e-6,
        rope_theta: 1e4,
        qkv_bias: false,
        output_bias: false,
        tie_word_embeddings: true,
        eos_token_ids: vec![1],
    };
    let parameters = Parameters::random(&config, 5, 0.2, &Device::Cpu).unwrap();
    let optimizer = OptimizerSettings { learning_rate: 1e-2, ..OptimizerSettings::default() };
    let mut settings = LearnerSettings { optimizer, mini_batch_groups: 1, ..LearnerSettings::default() };
    settings.compute.threads = 1;
    // A sequence each, and every group is worth a pass.
    settings.compute.micro_batch_tokens = 1;
    let mut learner = Learner::new(config.clone(), parameters, settings).unwrap();
    let placeholder = evenkeel_model::network(
        config.clone(),
        Parameters::random(&config, 0, 0.1, &Device::Cpu).unwrap(),
        candle_core::DType::F32,
        Default::default(),
    );
    let model = learner.trainer_mut().model_mut().replace_policy(placeholder.unwrap());
    learner.trainer_mut().model_mut().replace_policy(Box::new(FailsAfter { passes, scored, model }));
    learner
}

fn groups() -> Vec<Group> {
    let response = |token: u32, reward: f64| Response {
        tokens: vec![token, token + 1],
        mask: vec![true; 2],
        rollout_logp: vec![-2.0; 2],
        raw_reward: reward,
        reward,
        valid: true,
    };
    let group = |number: u32| Group {
        id: format!("prompt-{number}"),
        prompt: vec![2, 3 + number],
        responses: vec![response(4 + number, 1.0), response(6 + number, 0.0)],
    };
    (0..3).map(group).collect()
}

/// Every bit that a later step depends on.
fn state(learner: &mut Learner) -> (Vec<u32>, u64, u64) {
    let optimizer = learner.trainer_mut().optimizer().state(false).unwrap();
    let tensors = [learner.parameters().values(), &optimizer.first, &optimizer.second].concat();
    let bits = tensors.iter().flat_map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap());
    (bits.map(f32::to_bits).collect(), optimizer.updates, learner.version())
}

#[test]
fn a_step_that_fails_after_its_first_update_leaves_weights_moments_and_version_as_they_were() {
    for passes in 0..3 {
        let mut learner = learner(3 + passes);
        learner.train(groups()).unwrap();
        let before = state(&mut learner);
        let error = learner.train(groups()).unwrap_err().to_string();
        assert!(error.contains("the device is lost"), "{error}");
        assert_eq!(state(&mut learner), before, "after {passes} of three updates");
    }
}

#[test]
fn groups_of_later_updates_are_scored_as_they_arrive_and_those_of_the_first_never() {
    let scored = Arc::new(AtomicUsize::new(0));
    let mut learner = counted(usize::MAX, Arc::clone(&scored));
    let mut step = learner.step_of(3);
    let counts: Vec<usize> = groups()
        .into_iter()
        .map(|group| {
            step.add(group).unwrap();
            scored.load(Ordering::Relaxed)
        })
        .collect();
    // Two responses each; the first group is the first update's.
    assert_eq!(counts, [0, 2, 4]);
    step.finish().unwrap();
    assert_eq!(scored.load(Ordering::Relaxed), 4);
}

#[test]
fn a_step_after_one_that_failed_is_the_step_that_would_have_been() {
    let mut failed = learner(4);
    failed.train(groups()).unwrap();
    failed.train(groups()).unwrap_err();
    // The device is back.
    let policy = revived(failed.parameters().clone(), failed.config().clone());
    failed.trainer_mut().model_mut().replace_policy(policy);
    failed.train(groups()).unwrap();
    let mut undisturbed = learner(usize::MAX);
    undisturbed.train(groups()).unwrap();
    undisturbed.train(groups()).unwrap();
    assert_eq!(state(&mut failed), state(&mut undisturbed));
}

#[test]
fn an_update_that_is_applied_ends_a_row_of_skipped_ones() {
    let mut learner = learner(usize::MAX);
    let mut step = |poisoned: bool| {
        let parameters = learner.trainer_mut().model_mut().parameters_mut();
        let good = parameters.values()[0].clone();
        if poisoned {
            parameters.values_mut()[0] = (&good * f64::NAN).unwrap();
        }
        let result = learner.train(groups());
        if poisoned {
            learner.trainer_mut().model_mut().parameters_mut().values_mut()[0] = good;
        }
        result.map(|report| report.updates.iter().all(|update| update.skipped.is_some()))
    };
    // Three updates a step; ten in a row are too many.
    for _ in 0..5 {
        assert!(step(true).unwrap());
        assert!(!step(false).unwrap());
    }
    (0..3).for_each(|_| assert!(step(true).unwrap()));
    let error = step(true).unwrap_err().to_string();
    assert!(error.starts_with("skipped updates in a row: 10"), "{error}");
}

/// The same weights in a model that works.
fn revived(parameters: Parameters, config: Config) -> Box<dyn Train> {
    let parameters = parameters.deep_copy().unwrap();
    evenkeel_model::network(config, parameters, candle_core::DType::F32, Default::default()).unwrap()
}
