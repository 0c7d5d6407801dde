//! Supervised fine-tuning and scoring.

use crate::support::{groups, learner, settings};
use evenkeel_learner::Example;

fn examples() -> Vec<Example> {
    (0..12).map(|i| Example { prompt: vec![2 + i % 3, 5], response: vec![7 + i % 3, 9, 1] }).collect()
}

#[test]
fn the_loss_is_the_mean_cross_entropy_of_response_tokens() {
    let mut learner = learner(settings());
    let examples = examples();
    let sequences: Vec<_> = examples.iter().map(|e| (&e.prompt[..], &e.response[..])).collect();
    let scores: Vec<f32> = learner.score(&sequences, 1.0).unwrap().into_iter().flat_map(|s| s.logp).collect();
    let wanted = -scores.iter().map(|&x| f64::from(x)).sum::<f64>() / scores.len() as f64;
    let report = learner.supervised_step(&examples).unwrap();
    assert!((report.loss - wanted).abs() < 1e-6, "{} for {wanted}", report.loss);
    assert_eq!((report.tokens, report.version), (36, 1));
}

#[test]
fn repeated_examples_are_learnt() {
    let mut settings = settings();
    settings.supervised.learning_rate = 1e-2;
    let mut learner = learner(settings);
    let losses: Vec<f64> = (0..60).map(|_| learner.supervised_step(&examples()).unwrap().loss).collect();
    assert!(losses[59] < 0.05 && losses[0] > 2.0, "{} to {}", losses[0], losses[59]);
}

#[test]
fn the_policy_begins_with_moments_of_its_own() {
    let mut warm = learner(settings());
    warm.supervised_step(&examples()).unwrap();
    let fresh_rate = settings().optimizer.learning_rate;
    let report = warm.train(groups(1, 3)).unwrap();
    assert_eq!((report.version, report.updates[0].learning_rate), (2, fresh_rate));
}

#[test]
fn scores_come_in_the_order_of_the_sequences() {
    let learner = learner(settings());
    let responses: Vec<Vec<u32>> = (1..20).map(|n| (0..n).map(|i| (i * n) % 29).collect()).collect();
    let sequences: Vec<_> = responses.iter().map(|r| (&[3u32, 4][..], &r[..])).collect();
    let together = learner.score(&sequences, 0.7).unwrap();
    for (sequence, scores) in sequences.iter().zip(&together) {
        let alone = learner.score(&[*sequence], 0.7).unwrap().remove(0);
        assert_eq!(alone.logp.len(), sequence.1.len());
        assert!(alone.logp.iter().zip(&scores.logp).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
