use candle_core::{Device, Tensor};
use evenkeel_model::{Architecture, Biases, Config, Parameters, Rope};

use super::{Optimizer, TrainingPhase, UpdateTarget};
use crate::settings::{MomentsLocation, OptimizerSettings};
use crate::skip_reason::SkipReason;

fn parameters() -> Parameters {
    let config = Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 8,
        hidden_size: 4,
        intermediate_size: 6,
        num_layers: 1,
        num_heads: 1,
        num_kv_heads: 1,
        head_dim: 4,
        max_position_embeddings: 8,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: Vec::new(),
    };
    Parameters::random(&config, 1, 0.5, &Device::Cpu).unwrap()
}

fn flat(tensors: &[Tensor]) -> Vec<Vec<f32>> {
    tensors.iter().map(|t| t.flatten_all().unwrap().to_vec1().unwrap()).collect()
}

fn constant(parameters: &Parameters, value: f64) -> Vec<Tensor> {
    parameters.values().iter().map(|p| (p.ones_like().unwrap() * value).unwrap()).collect()
}

fn plain() -> OptimizerSettings {
    OptimizerSettings { learning_rate: 0.01, warmup_updates: 0, max_grad_norm: None, ..OptimizerSettings::default() }
}

#[test]
fn weight_decay_shrinks_matrices_and_spares_norms() {
    let mut parameters = parameters();
    let before = flat(parameters.values());
    let settings = OptimizerSettings { weight_decay: 0.5, ..plain() };
    let gradients = constant(&parameters, 0.0);
    Optimizer::new(&mut parameters, MomentsLocation::Device)
        .unwrap()
        .update(TrainingPhase::Policy, &settings, &mut parameters, &gradients, 1.0, true)
        .unwrap();
    for ((spec, before), after) in parameters.specs().iter().zip(before).zip(flat(parameters.values())) {
        let factor = if spec.kind.decays() { 0.995 } else { 1.0 };
        for (before, after) in before.iter().zip(after) {
            assert!((before * factor - after).abs() < 1e-7, "{}", spec.name);
        }
    }
}

#[test]
fn the_first_update_moves_each_weight_by_the_learning_rate_against_its_gradient() {
    let mut parameters = parameters();
    let before = flat(parameters.values());
    let settings = OptimizerSettings { weight_decay: 0.0, ..plain() };
    let gradients = constant(&parameters, -3.0);
    Optimizer::new(&mut parameters, MomentsLocation::Device)
        .unwrap()
        .update(TrainingPhase::Policy, &settings, &mut parameters, &gradients, 1.0, true)
        .unwrap();
    for (before, after) in before.concat().iter().zip(flat(parameters.values()).concat()) {
        assert!((after - before - 0.01).abs() < 1e-6);
    }
}

#[test]
fn a_gradient_that_is_not_finite_changes_nothing_and_is_reported() {
    let mut parameters = parameters();
    let mut optimizer = Optimizer::new(&mut parameters, MomentsLocation::Device).unwrap();
    let before = flat(parameters.values());
    for poison in [f64::NAN, f64::INFINITY] {
        let mut gradients = constant(&parameters, 1.0);
        gradients[3] = (&gradients[3] * poison).unwrap();
        let report = optimizer.update(TrainingPhase::Policy, &plain(), &mut parameters, &gradients, 1.0, true).unwrap();
        assert_eq!(report.skipped, Some(SkipReason::NonFiniteGradient));
        assert!(!report.grad_norm.is_finite());
        assert_eq!((flat(parameters.values()), optimizer.counts.updates), (before.clone(), 0));
    }
}

#[test]
fn a_loss_that_is_not_finite_changes_nothing_and_is_reported_with_the_norm_of_its_gradient() {
    let mut parameters = parameters();
    let mut optimizer = Optimizer::new(&mut parameters, MomentsLocation::Device).unwrap();
    let before = flat(parameters.values());
    let gradients = constant(&parameters, 1.0);
    let report = optimizer.update(TrainingPhase::Policy, &plain(), &mut parameters, &gradients, 1.0, false).unwrap();
    assert_eq!((report.skipped, report.squares), (Some(SkipReason::NonFiniteLoss), None));
    assert!(report.grad_norm.is_finite());
    assert_eq!((flat(parameters.values()), optimizer.counts.updates), (before, 0));
}

#[test]
fn an_update_says_what_it_added_to_each_parameter() {
    let mut parameters = parameters();
    let mut optimizer = Optimizer::new(&mut parameters, MomentsLocation::Device).unwrap();
    let gradients = constant(&parameters, 1.0);
    for scale in [1.0, 3.0] {
        let before: Vec<_> = parameters.values().iter().map(|value| value.copy().unwrap()).collect();
        let report = optimizer.update(TrainingPhase::Policy, &plain(), &mut parameters, &gradients, scale, true);
        let squares = report.unwrap().squares.unwrap();
        assert_eq!(squares.len(), before.len());
        for ((squares, before), after) in squares.iter().zip(&before).zip(parameters.values()) {
            let [before, after] = [before, after].map(|one| one.flatten_all().unwrap().to_vec1::<f32>().unwrap());
            let change = after.iter().zip(&before).map(|(after, before)| f64::from(*after) - f64::from(*before));
            let wanted = change.map(|change| change * change).sum::<f64>();
            assert!((squares - wanted).abs() <= 1e-12 * wanted && wanted > 0.0, "{squares} and {wanted}");
        }
    }
}

#[test]
fn clipping_bounds_the_norm_of_the_scaled_gradient() {
    let mut clipped = parameters();
    let mut scaled = parameters();
    let gradients = constant(&clipped, 2.0);
    let settings = OptimizerSettings { max_grad_norm: Some(0.5), epsilon: 1e-2, ..plain() };
    let report = Optimizer::new(&mut clipped, MomentsLocation::Device)
        .unwrap()
        .update(TrainingPhase::Policy, &settings, &mut clipped, &gradients, 3.0, true)
        .unwrap();
    let count = clipped.count() as f64;
    assert!((report.grad_norm - 6.0 * count.sqrt()).abs() < 1e-9 * report.grad_norm);
    let by_hand = 0.5 / (report.grad_norm + 1e-6) * 3.0;
    assert!(report.squares.is_some());
    let settings = OptimizerSettings { max_grad_norm: None, ..settings };
    Optimizer::new(&mut scaled, MomentsLocation::Device)
        .unwrap()
        .update(TrainingPhase::Policy, &settings, &mut scaled, &gradients, by_hand, true)
        .unwrap();
    assert_eq!(flat(clipped.values()), flat(scaled.values()));
}

#[test]
fn an_update_of_lent_values_has_the_same_bits_and_leaves_them_as_they_were() {
    let gradients = constant(&parameters(), 0.3);
    let updated = |parameters: &mut Parameters, is_lent| {
        let mut optimizer = Optimizer::new(&mut *parameters, MomentsLocation::Device).unwrap();
        let reports = [is_lent, false].map(|is_lent| {
            let target = UpdateTarget { kernels: None, parameters, is_lent };
            optimizer.update(TrainingPhase::Policy, &plain(), target, &gradients, 1.0, true).unwrap()
        });
        (reports, flat(parameters.values()))
    };
    let in_place = updated(&mut parameters(), false);
    let mut parameters = parameters();
    let lent = parameters.clone();
    let before = flat(lent.values());
    assert_eq!(updated(&mut parameters, true), in_place);
    assert_eq!(flat(lent.values()), before);
    assert_ne!(in_place.1, before);
}
