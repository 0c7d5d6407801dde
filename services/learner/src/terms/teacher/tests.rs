//! The second algorithm goes through everything that the first does: settings, memory, steps, checkpoints, ranks.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use candle_core::Device;
use evenkeel_config::Settings;
use evenkeel_model::Parameters;
use serde_json::{Value, json};

use super::TeacherSettings;
use crate::ranks::{Division, InProcess};
use crate::terms::TermTokens;
use crate::test_model::{config, groups, parameters, state};
use crate::{Learner, MemoryPlan, MemoryUse, PublishOptions, StepReport, TrainingSettings};

/// Settings with a teacher that is written to `folder`.
fn settings(folder: &Path) -> TrainingSettings {
    let random = Parameters::random(&config(), 77, 0.4, &Device::Cpu).unwrap();
    let teacher = Learner::new(config(), random, TrainingSettings::default()).unwrap();
    let published = teacher.publish(folder, PublishOptions::new(candle_core::DType::F32, None)).unwrap();
    let teacher = TeacherSettings { folder: published.path, ..TeacherSettings::default() };
    let mut settings = TrainingSettings { teacher: Some(teacher), ..TrainingSettings::default() };
    // Some groups are scored before the first update, and all take part in several.
    settings.mini_batch_groups = 2;
    settings.epochs = 2;
    settings.optimizer.learning_rate = 1e-2;
    settings
}

fn learner(settings: &TrainingSettings) -> Learner {
    Learner::new(config(), parameters(), settings.clone()).unwrap()
}

fn train(learner: &mut Learner, steps: usize) -> Vec<StepReport> {
    (0..steps).map(|_| learner.train(groups()).unwrap()).collect()
}

/// Every bit that a later step depends on.
fn bits(learner: &mut Learner) -> ((Vec<u32>, u64, u64), Value) {
    let terms = json!(learner.trainer().terms().states());
    (state(learner), terms)
}

#[test]
fn its_section_is_read_checked_by_path_and_part_of_the_hash() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<TrainingSettings>(&text).unwrap(), settings);
    settings.validate().unwrap();
    let without = TrainingSettings { teacher: None, ..settings.clone() };
    assert_ne!(settings.hash(), without.hash());
    assert!(settings.formula().contains("teacher_logp") && !without.formula().contains("teacher"));
    assert_eq!([settings.other_logps(), without.other_logps()], [1, 0]);
    let settings_of = |section: Value| serde_json::from_value::<TrainingSettings>(json!({ "teacher": section }));
    assert!(settings_of(json!({ "tarjet": 1 })).unwrap_err().to_string().contains("unknown field `tarjet`"));
    let error = settings_of(json!({ "target": 0 })).unwrap().validate().unwrap_err().to_string();
    assert_eq!(error, "teacher.target is 0, allowed: a finite number above 0");
}

#[test]
fn its_gradient_is_the_difference_quotient_of_its_loss() {
    let term = super::term(Some(&TeacherSettings::default())).unwrap();
    let teacher = [-0.5, -2.0, -1.25, -0.75];
    let loss = |logp: &[f32], gradient: &mut [f32]| {
        let tokens = TermTokens { logp, old_logp: logp, rollout_logp: logp, other_logp: &teacher };
        term.response(0.25, tokens, gradient).unwrap().loss
    };
    let logp = [-1.5, -0.25, -1.25, -3.0];
    // It is added to what is there.
    let mut gradient = [1.0; 4];
    loss(&logp, &mut gradient);
    let step = 2f32.powi(-10);
    for token in 0..logp.len() {
        let loss_at = |by: f32| {
            let mut moved = logp;
            moved[token] += by;
            loss(&moved, &mut [0.0; 4])
        };
        let quotient = (loss_at(step) - loss_at(-step)) / f64::from(2.0 * step);
        let slope = f64::from(gradient[token]) - 1.0;
        assert!((quotient - slope).abs() < 1e-6, "token {token}: {quotient} and {slope}");
        assert_eq!(slope == 0.0, logp[token] == teacher[token]);
    }
}

#[test]
fn it_pulls_the_policy_to_the_teacher_and_reports_how_far_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut pulled = learner(&settings);
    let reports = train(&mut pulled, 12);
    let distance = |report: &StepReport| report.updates[0].terms[0].mean().unwrap();
    assert!(distance(&reports[11]) < 0.8 * distance(&reports[0]), "{reports:?}");
    let [(name, loss)] = &reports[0].metrics[..] else { panic!("{:?}", reports[0].metrics) };
    let updates = &reports[0].updates;
    let wanted = updates.iter().map(|update| update.term_losses[0]).sum::<f64>() / updates.len() as f64;
    assert_eq!((name.as_str(), *loss), ("actor/kl_loss", wanted));
    assert!(*loss > 0.0 && reports[0].updates[0].loss != reports[0].updates[0].policy_loss);
}

#[test]
fn responses_without_an_advantage_have_its_gradient() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut alike = groups();
    alike.iter_mut().flat_map(|group| &mut group.responses).for_each(|response| response.reward = 1.0);
    let trained = |settings: &TrainingSettings| learner(settings).train(alike.clone()).unwrap().trained_responses;
    assert_eq!(trained(&TrainingSettings { teacher: None, ..settings.clone() }), 0);
    assert!(trained(&settings) > 0);
}

#[test]
fn training_goes_on_bit_by_bit_from_a_checkpoint_in_a_new_learner() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut whole = learner(&settings);
    train(&mut whole, 5);
    for stop in 0..5 {
        let path = folder.path().join("checkpoint");
        let mut first = learner(&settings);
        train(&mut first, stop);
        first.save_checkpoint(&path, b"").unwrap();
        let mut second = learner(&settings);
        // It has a state of its own before.
        train(&mut second, 1);
        second.restore_checkpoint(&path).unwrap();
        assert_eq!(bits(&mut second), bits(&mut first), "restored after {stop}");
        train(&mut second, 5 - stop);
        assert_eq!(bits(&mut second), bits(&mut whole), "stopped after {stop}");
    }
    // Without the state the same weights and moments lead elsewhere.
    let path = folder.path().join("checkpoint");
    let other = TeacherSettings { coefficient: 0.25, ..settings.teacher.clone().unwrap() };
    let mut forgets = learner(&TrainingSettings { teacher: None, ..settings.clone() });
    forgets.restore_checkpoint(&path).unwrap();
    forgets.save_checkpoint(&path, b"").unwrap();
    let mut fresh = learner(&TrainingSettings { teacher: Some(other), ..settings });
    fresh.restore_checkpoint(&path).unwrap();
    assert_eq!(bits(&mut fresh).1, json!({ "teacher": 0.25 }));
    train(&mut fresh, 1);
    assert_ne!(bits(&mut fresh).0, bits(&mut whole).0);
}

#[test]
fn a_state_that_it_cannot_have_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let path = folder.path().join("checkpoint");
    let mut broken = learner(&settings);
    train(&mut broken, 1);
    let states = [("teacher".to_owned(), json!("half"))].into();
    let error = broken.trainer().terms().clone().with_states(&states).err().unwrap();
    assert_eq!(error, "teacher: the coefficient is \"half\", allowed: a number above 0");
    broken.save_checkpoint(&path, b"").unwrap();
    std::fs::write(path.join("terms.json"), "{}").unwrap();
    let mut learner = learner(&settings);
    let before = bits(&mut learner);
    let error = learner.restore_checkpoint(&path).unwrap_err().to_string();
    assert!(error.contains("terms.json") && error.contains("is damaged"), "{error}");
    assert_eq!(bits(&mut learner), before);
}

#[test]
fn two_ranks_have_the_bits_of_one_and_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut alone = learner(&settings);
    train(&mut alone, 2);
    let path = folder.path().join("checkpoint");
    let work = |number: usize, collective: InProcess| {
        let division = Division::new(number, 2);
        let mut learner = Learner::new_rank(config(), parameters(), settings.clone(), division).unwrap();
        learner.join(Some(Arc::new(Mutex::new(collective))));
        train(&mut learner, 1);
        let saved = if number == 0 { learner.save_checkpoint(&path, b"") } else { learner.give_moments() };
        saved.unwrap();
        train(&mut learner, 2);
        let restored =
            if number == 0 { learner.restore_checkpoint(&path).map(drop) } else { learner.receive_checkpoint() };
        restored.unwrap();
        train(&mut learner, 1);
        let weights = learner.parameters().trained_values().to_vec();
        let host = |tensor: &candle_core::Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let weights: Vec<u32> = weights.iter().flat_map(host).map(f32::to_bits).collect();
        (weights, json!(learner.trainer().terms().states()))
    };
    let found = std::thread::scope(|scope| {
        let ranks = InProcess::ranks(2, Duration::from_secs(60)).into_iter().enumerate();
        let threads: Vec<_> = ranks.map(|(number, collective)| scope.spawn(move || work(number, collective))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let ((bits, ..), terms) = bits(&mut alone);
    for (weights, states) in found {
        // The moments come after the weights.
        assert!(bits.starts_with(&weights) && states == terms);
    }
}

#[test]
fn memory_is_planned_for_the_teacher() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let plan = MemoryPlan::of(&config(), &settings, 8).unwrap();
    let teacher = plan.parts.iter().find(|part| part.what == MemoryUse::TeacherWeights).unwrap();
    assert_eq!(teacher.bytes, 4 * Parameters::described(&config()).unwrap().count() as u64);
    assert!(teacher.stays);
}
