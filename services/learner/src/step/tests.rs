//! What a step asks of the model and when, and a model that fails between two updates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_model::{Config, Parameters, TrainableModel};

use crate::test_model::{TestModel, groups, state};
use crate::{Learner, TrainingSettings};

fn learner(passes: usize) -> Learner {
    counted(passes, Arc::default())
}

fn counted(passes: usize, scored: Arc<AtomicUsize>) -> Learner {
    // A sequence each, and every group is worth a pass.
    let mut settings = TrainingSettings { mini_batch_groups: 1, ..TrainingSettings::default() };
    settings.optimizer.learning_rate = 1e-2;
    settings.compute.micro_batch_tokens = 1;
    TestModel { passes, scored, kernels: None }.learner(settings)
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
            parameters.trained_values_mut()[0] = (&good * f64::NAN).unwrap();
        }
        let result = learner.train(groups());
        if poisoned {
            learner.trainer_mut().model_mut().parameters_mut().trained_values_mut()[0] = good;
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

/// A model that works, with the same weights.
fn revived(parameters: Parameters, config: Config) -> Box<dyn TrainableModel> {
    let parameters = parameters.deep_copy().unwrap();
    evenkeel_model::network(config, parameters, candle_core::DType::F32, Default::default()).unwrap()
}
