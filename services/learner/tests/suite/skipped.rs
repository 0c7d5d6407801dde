//! Updates whose loss or gradient is not finite.

use crate::support::{bits, config, groups, learner, settings};
use candle_core::Device;
use evenkeel_learner::{Learner, TrainingSettings};
use evenkeel_model::Parameters;

/// A learner with a value that is not finite in a row of the embedding.
fn poisoned(poison: f64, settings: TrainingSettings) -> Learner {
    let mut values = learner(settings.clone()).parameters().values().to_vec();
    let poison = (values[0].get(3).unwrap() * poison).unwrap().unsqueeze(0).unwrap();
    values[0] = values[0].slice_scatter0(&poison, 3).unwrap();
    let parameters = Parameters::new(&config(), values, &Device::Cpu).unwrap();
    Learner::new(config(), parameters, settings).unwrap()
}

#[test]
fn the_step_that_skips_too_many_updates_in_a_row_fails_and_changes_nothing() {
    let mut learner =
        poisoned(f64::NAN, TrainingSettings { max_skipped_updates: 3, mini_batch_groups: 2, ..settings() });
    let report = learner.train(groups(14, 4)).unwrap();
    assert!(report.updates.len() == 2 && report.updates.iter().all(|update| update.skipped.is_some()));
    let before = bits(&learner);
    for _ in 0..2 {
        let error = learner.train(groups(15, 4)).unwrap_err().to_string();
        let words = "skipped updates in a row: 3, allowed: fewer than max_skipped_updates = 3";
        assert!(error.contains(words) && error.contains("non_finite"), "{error}");
        assert_eq!((bits(&learner), learner.version()), (before.clone(), 1));
    }
    let mut unlimited = poisoned(f64::NAN, TrainingSettings { max_skipped_updates: 0, ..settings() });
    (0..12).for_each(|seed| assert!(unlimited.train(groups(seed, 2)).is_ok()));
}

#[test]
fn a_gradient_that_is_not_finite_skips_the_update_and_says_so() {
    for poison in [f64::NAN, f64::INFINITY] {
        let mut learner = poisoned(poison, settings());
        let before = bits(&learner);
        let report = learner.train(groups(14, 4)).unwrap();
        assert!(report.updates[0].skipped.is_some() && !report.updates[0].grad_norm.is_finite());
        assert_eq!(bits(&learner), before);
        assert_eq!(report.version, 1, "the batch is used up all the same");
    }
}
