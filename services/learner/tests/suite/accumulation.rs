//! Sums that callers accumulate and apply themselves.

use evenkeel_learner::{
    Example, Learner, LearnerError, LoraSettings, OptimizerSettings, TargetLoss, TargetSequence, TrainingSettings,
};
use evenkeel_objective::{RatioBounds, SummedLoss};

use crate::support::{bits, learner, settings};

fn of(loss: SummedLoss) -> TargetLoss {
    TargetLoss { loss, bounds: RatioBounds::default() }
}

fn next_tokens(ids: &[u32], weight: f32) -> TargetSequence {
    let tokens = ids[..ids.len() - 1].to_vec();
    let targets = ids[1..].to_vec();
    TargetSequence { factors: vec![weight; tokens.len()], tokens, targets, ..TargetSequence::default() }
}

fn adam() -> OptimizerSettings {
    settings().supervised
}

const LONG: [u32; 7] = [2, 3, 9, 4, 5, 6, 17];
const SHORT: [u32; 3] = [4, 8, 1];

#[test]
fn a_sum_that_is_applied_has_the_bits_of_a_whole_supervised_step() {
    let example = |ids: &[u32]| Example { prompt: ids[..1].to_vec(), response: ids[1..].to_vec() };
    let mut whole = learner(settings());
    whole.supervised_step(&[example(&LONG), example(&SHORT)]).unwrap();
    let mut parts = learner(settings());
    let weight = 1.0 / 8.0;
    let data = [next_tokens(&LONG, weight), next_tokens(&SHORT, weight)];
    parts.accumulate(&data, of(SummedLoss::CrossEntropy)).unwrap();
    parts.apply(&adam()).unwrap();
    assert_eq!(bits(&parts), bits(&whole));
    assert_ne!(bits(&parts), bits(&learner(settings())));
}

#[test]
fn a_sum_over_two_calls_is_that_of_one() {
    let data = [next_tokens(&LONG, 0.5), next_tokens(&SHORT, -0.25)];
    let trained = |calls: &[&[TargetSequence]]| {
        let mut learner = learner(settings());
        calls.iter().for_each(|data| drop(learner.accumulate(data, of(SummedLoss::CrossEntropy)).unwrap()));
        learner.apply(&adam()).unwrap().grad_norm
    };
    let once = trained(&[&data]);
    let twice = trained(&[&data[..1], &data[1..]]);
    assert!((once / twice - 1.0).abs() < 1e-5, "{once} {twice}");
}

#[test]
fn after_a_part_that_failed_nothing_is_applied_and_the_next_sum_is_whole() {
    let mut learner = learner(settings());
    let before = bits(&learner);
    learner.accumulate(&[next_tokens(&LONG, 1.0)], of(SummedLoss::CrossEntropy)).unwrap();
    learner.accumulate(&[next_tokens(&[2, 999], 1.0)], of(SummedLoss::CrossEntropy)).unwrap_err();
    let refused = learner.apply(&adam()).unwrap_err();
    assert!(matches!(refused, LearnerError::IncompleteSum { .. }) && refused.to_string().contains("999"), "{refused}");
    assert_eq!(bits(&learner), before);
    assert!(matches!(learner.apply(&adam()).unwrap_err(), LearnerError::NothingAccumulated));
    learner.accumulate(&[next_tokens(&LONG, 1.0)], of(SummedLoss::CrossEntropy)).unwrap();
    assert_eq!(learner.apply(&adam()).unwrap().version, 1);
}

#[test]
fn what_was_accumulated_before_a_training_step_is_not_applied_after_it() {
    let mut learner = learner(settings());
    learner.accumulate(&[next_tokens(&LONG, 1.0)], of(SummedLoss::CrossEntropy)).unwrap();
    learner.supervised_step(&[Example { prompt: vec![2], response: vec![3] }]).unwrap();
    assert!(learner.apply(&adam()).unwrap_err().to_string().contains("a training step came between"));
}

#[test]
fn scoring_adds_nothing_to_the_sum_and_gives_the_same_numbers() {
    let mut learner = learner(settings());
    let data = [TargetSequence { sampler_logp: vec![-2.5; 6], ..next_tokens(&LONG, 0.7) }];
    let scored = learner.score_targets(&data, of(SummedLoss::Ppo)).unwrap();
    assert!(matches!(learner.apply(&adam()).unwrap_err(), LearnerError::NothingAccumulated));
    assert_eq!(learner.accumulate(&data, of(SummedLoss::Ppo)).unwrap(), scored);
}

#[test]
fn refused_input_is_named() {
    let mut learner = learner(settings());
    let good = || TargetSequence { sampler_logp: vec![-2.0; 6], group: Some(1), ..next_tokens(&LONG, 0.5) };
    let with = |change: fn(&mut TargetSequence)| {
        let mut sequence = good();
        change(&mut sequence);
        sequence
    };
    let cases: [(SummedLoss, TargetSequence, &str); 7] = [
        (SummedLoss::Ppo, with(|s| s.targets.truncate(5)), "data[0].targets is a list of 5"),
        (SummedLoss::Ppo, with(|s| s.tokens.clear()), "data[0].advantages is a list of 6"),
        (SummedLoss::Ppo, with(|s| s.factors[2] = f32::NAN), "data[0].advantages[2] is NaN"),
        (SummedLoss::Ppo, with(|s| s.sampler_logp[1] = f32::INFINITY), "data[0].sampler_log_probabilities[1] is inf"),
        (SummedLoss::CrossEntropy, good(), "data[0].sampler_log_probabilities is a list of 6, allowed: a list of 0"),
        (SummedLoss::Balanced, with(|s| s.group = None), "data[0].group is absent"),
        (SummedLoss::Balanced, with(|s| s.factors[1] = 0.25), "data[0].advantages is 0.25"),
    ];
    for (loss, sequence, words) in cases {
        let error = learner.accumulate(&[sequence], of(loss)).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    let bounds = TargetLoss { loss: SummedLoss::Ppo, bounds: RatioBounds { low: 0.8, high: 0.9 } };
    assert!(learner.accumulate(&[good()], bounds).unwrap_err().to_string().starts_with("clip_high is 0.9"));
    assert!(learner.accumulate(&[], of(SummedLoss::Ppo)).unwrap_err().to_string().starts_with("data is empty"));
}

#[test]
fn adapters_are_not_decayed_and_a_decay_is_refused() {
    let lora = LoraSettings { rank: 2, alpha: 2.0, ..LoraSettings::default() };
    let mut learner = learner(TrainingSettings { lora: Some(lora), ..settings() });
    learner.accumulate(&[next_tokens(&LONG, 1.0)], of(SummedLoss::CrossEntropy)).unwrap();
    let error = learner.apply(&OptimizerSettings { weight_decay: 0.1, ..adam() }).unwrap_err().to_string();
    assert!(error.starts_with("adam.weight_decay is 0.1"), "{error}");
}

#[test]
fn weights_that_are_loaded_have_a_version_of_their_own_and_moments_only_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let update = |learner: &mut Learner| {
        learner.accumulate(&[next_tokens(&LONG, 1.0)], of(SummedLoss::CrossEntropy)).unwrap();
        learner.apply(&adam()).unwrap().version
    };
    let mut first = learner(settings());
    update(&mut first);
    first.save_checkpoint(&folder.path().join("saved"), b"state").unwrap();
    let saved = bits(&first);
    update(&mut first);
    let continued = |optimizer: bool| {
        let mut again = learner(settings());
        assert_eq!(again.load(&folder.path().join("saved"), 70, optimizer).unwrap(), b"state");
        assert_eq!((again.version(), bits(&again)), (70, saved.clone()));
        assert_eq!(update(&mut again), 71);
        bits(&again)
    };
    assert_eq!(continued(true), bits(&first));
    assert_ne!(continued(false), bits(&first));
}
