//! Self-distillation in whole steps: the model reads prompts with hints as its own teacher.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_run::metric::table as metric;

use super::DistillationSettings;
use crate::ranks::{Division, InProcess};
use crate::test_model::{config, groups, parameters, state};
use crate::{Learner, MemoryPlan, MemoryUse, ResponseGroup, StepReport, TrainingSettings};

fn settings() -> TrainingSettings {
    let distillation = DistillationSettings { hints: true, ..DistillationSettings::default() };
    let mut settings = TrainingSettings { distillation: Some(distillation), ..TrainingSettings::default() };
    settings.optimizer.learning_rate = 1e-2;
    settings
}

/// Settings under which some groups are scored before the first update and trained on after it.
fn several_updates() -> TrainingSettings {
    TrainingSettings { mini_batch_groups: 2, epochs: 2, ..settings() }
}

fn learner(settings: &TrainingSettings) -> Learner {
    Learner::new(config(), parameters(), settings.clone()).unwrap()
}

/// Groups whose prompts have these tokens more as a hint.
fn hinted(hint: &[u32]) -> Vec<ResponseGroup> {
    let mut groups = groups();
    groups.iter_mut().for_each(|group| group.hinted_prompt = Some([&*group.prompt, hint].concat()));
    groups
}

/// The log-probabilities of all tokens after the prompts of these groups, or after those with hints.
fn logp(learner: &Learner, groups: &[ResponseGroup], with_hints: bool) -> Vec<f64> {
    let prompt = |group: &ResponseGroup| match &group.hinted_prompt {
        Some(hinted) if with_hints => hinted.clone(),
        _ => group.prompt.clone(),
    };
    let pairs = groups.iter().flat_map(|group| group.responses.iter().map(move |one| (prompt(group), &one.tokens)));
    let pairs: Vec<_> = pairs.collect();
    let pairs: Vec<(&[u32], &[u32])> = pairs.iter().map(|(prompt, tokens)| (&**prompt, &***tokens)).collect();
    let scores = learner.score(&pairs, 1.0).unwrap();
    scores.iter().flat_map(|scores| scores.logp.iter().map(|&logp| f64::from(logp))).collect()
}

/// log p - log p after the hint, of each token.
fn signal(learner: &Learner, groups: &[ResponseGroup]) -> Vec<f64> {
    let [own, taught] = [false, true].map(|with_hints| logp(learner, groups, with_hints));
    own.iter().zip(taught).map(|(own, taught)| own - taught).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn distance(report: &StepReport) -> f64 {
    report.metrics.iter().find(|(name, _)| name.as_str() == metric::TEACHER_KL.name).unwrap().1
}

#[test]
fn without_a_hint_there_is_no_loss_and_no_gradient() {
    for groups in [groups(), hinted(&[])] {
        let report = learner(&settings()).train(groups).unwrap();
        let update = &report.updates[0];
        assert_eq!((update.loss, update.grad_norm, update.terms[0].sum), (0.0, 0.0, 0.0));
        assert_eq!(update.terms[0].tokens, 12);
    }
}

#[test]
fn the_teacher_is_the_model_before_the_first_update_of_each_step_after_the_prompt_with_the_hint() {
    let mut learner = learner(&several_updates());
    let groups = hinted(&[9, 8]);
    let mut distances = Vec::new();
    for _ in 0..3 {
        let wanted = mean(&signal(&learner, &groups));
        let found = distance(&learner.train(groups.clone()).unwrap());
        assert!((found - wanted).abs() < 1e-6 && wanted != 0.0, "{found} and {wanted}");
        distances.push(found);
    }
    assert!(distances[0] != distances[1], "it moves with the model: {distances:?}");
}

#[test]
fn the_gradient_is_the_difference_quotient_of_the_loss_with_the_teacher_held_fixed() {
    // With so large an epsilon an update is a step against the gradient.
    const STEP: f64 = 1e-3;
    let mut settings = settings();
    settings.optimizer.epsilon = 1e3;
    settings.optimizer.learning_rate = STEP * 1e3;
    settings.optimizer.weight_decay = 0.0;
    settings.optimizer.max_grad_norm = None;
    settings.optimizer.warmup_updates = 0;
    let mut learner = learner(&settings);
    let groups = hinted(&[9, 8]);
    let (old, signal) = (logp(&learner, &groups, false), signal(&learner, &groups));
    let loss = |learner: &Learner| {
        let ratios = logp(learner, &groups, false).into_iter().zip(&old).map(|(new, old)| (new - old).exp());
        mean(&ratios.zip(&signal).map(|(ratio, signal)| ratio * signal).collect::<Vec<_>>())
    };
    let before = loss(&learner);
    let report = learner.train(groups.clone()).unwrap();
    let update = &report.updates[0];
    assert!((update.loss - before).abs() < 1e-6, "{} and {before}", update.loss);
    let wanted = -STEP * update.grad_norm.powi(2);
    let found = loss(&learner) - before;
    assert!((found / wanted - 1.0).abs() < 0.03, "{found:e} and {wanted:e}");
}

#[test]
fn batches_and_the_time_of_arrival_change_no_bit() {
    // The state after three steps, and the groups whose gradient is summed after each arrival in the first.
    let trained = |micro_batch_tokens, number: Option<usize>| {
        let mut settings = several_updates();
        settings.compute.micro_batch_tokens = micro_batch_tokens;
        settings.compute.threads = 1;
        let mut learner = learner(&settings);
        let mut summed = Vec::new();
        for _ in 0..3 {
            let mut step = match number {
                Some(number) => learner.step_of(number),
                None => learner.step(),
            };
            for group in hinted(&[9, 8]) {
                step.add(group).unwrap();
                summed.push(step.progress().groups);
            }
            step.finish().unwrap();
        }
        summed.truncate(2);
        (state(&mut learner), summed)
    };
    let (wanted, summed) = trained(0, None);
    assert_eq!(summed, [0, 0], "all passes wait for the last group");
    for (number, early) in [(None, [0, 2]), (Some(3), [1, 2])] {
        let (found, summed) = trained(1, number);
        assert_eq!(found, wanted);
        assert_eq!(summed, early);
    }
}

#[test]
fn training_goes_on_bit_by_bit_from_a_checkpoint_in_a_new_learner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let train = |learner: &mut Learner, steps: usize| {
        (0..steps).for_each(|_| drop(learner.train(hinted(&[9, 8])).unwrap()));
    };
    let settings = several_updates();
    let mut whole = learner(&settings);
    train(&mut whole, 3);
    let mut first = learner(&settings);
    train(&mut first, 1);
    first.save_checkpoint(&path, b"").unwrap();
    let mut second = learner(&settings);
    second.restore_checkpoint(&path).unwrap();
    train(&mut second, 2);
    assert_eq!(state(&mut second), state(&mut whole));
}

#[test]
fn two_ranks_have_the_bits_of_one() {
    let settings = several_updates();
    let wanted = learner(&settings).train(hinted(&[9, 8])).unwrap();
    let work = |number: usize, collective: InProcess| {
        let division = Division::new(number, 2);
        let mut learner = Learner::new_rank(config(), parameters(), settings.clone(), division).unwrap();
        learner.join(Some(Arc::new(Mutex::new(collective))));
        let report = learner.train(hinted(&[9, 8])).unwrap();
        assert_eq!((&report.updates, &report.metrics), (&wanted.updates, &wanted.metrics));
    };
    std::thread::scope(|scope| {
        let ranks = InProcess::ranks(2, Duration::from_secs(60)).into_iter().enumerate();
        let threads: Vec<_> = ranks.map(|(number, collective)| scope.spawn(move || work(number, collective))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn it_takes_no_memory_for_a_teacher_and_its_formula_says_who_that_is() {
    let plan = MemoryPlan::of(&config(), &settings(), 8).unwrap();
    assert!(plan.parts.iter().all(|part| part.what != MemoryUse::TeacherWeights));
    assert!(settings().formula().contains("within ±10, teacher_logp = old_logp after the prompt with its hint"));
    let text = serde_json::to_string(&settings()).unwrap();
    assert_eq!(serde_json::from_str::<TrainingSettings>(&text).unwrap(), settings());
}

#[test]
fn hints_that_nobody_reads_and_hints_without_room_are_refused_by_field() {
    let refused = |settings: &TrainingSettings, groups: Vec<ResponseGroup>| {
        learner(settings).train(groups).unwrap_err().to_string()
    };
    let error = refused(&TrainingSettings::default(), hinted(&[9]));
    let wanted = "groups[0].hinted_prompt is a list of 3, allowed: absent without distillation.hints";
    assert!(error.contains(wanted), "{error}");
    let error = refused(&settings(), hinted(&[99]));
    assert!(error.contains("groups[0].hinted_prompt[2] is 99"), "{error}");
    let error = refused(&settings(), hinted(&[9; 13]));
    assert!(error.contains("groups[0].responses[0] is") && error.contains("with hinted_prompt"), "{error}");
    let mut turns = hinted(&[9]);
    turns[0].responses[1].contexts = vec![(1, vec![5])];
    let error = refused(&settings(), turns);
    assert!(error.contains("groups[0].responses[1].contexts is a list of 1, allowed: none"), "{error}");
}
