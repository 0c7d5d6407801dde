//! Distillation in whole steps: what it changes, what it leaves alone, and which teachers are refused.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use candle_core::{DType, Device};
use evenkeel_model::Parameters;
use evenkeel_run::metric::table as metric;
use serde_json::json;

use super::{DistillationSettings, folder};
use crate::ranks::{Division, InProcess};
use crate::test_model::{config, groups, parameters, state};
use crate::{Learner, MemoryPlan, MemoryUse, OldLogp, PublishOptions, ResponseGroup, StepReport, TrainingSettings};

/// The folder of a model of these weights.
fn published(folder: &Path, parameters: Parameters) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let learner = Learner::new(config(), parameters, TrainingSettings::default()).unwrap();
    learner.publish(folder, PublishOptions::new(DType::F32, None)).unwrap().path
}

fn other() -> Parameters {
    Parameters::random(&config(), 77, 0.4, &Device::Cpu).unwrap()
}

/// Settings with this teacher. Rewards count `reward_weight`.
fn settings(teacher: PathBuf, reward_weight: f64) -> TrainingSettings {
    let distillation = DistillationSettings { teacher, reward_weight, ..DistillationSettings::default() };
    let mut settings = TrainingSettings { distillation: Some(distillation), ..TrainingSettings::default() };
    settings.optimizer.learning_rate = 1e-2;
    settings
}

fn learner(settings: &TrainingSettings) -> Learner {
    Learner::new(config(), parameters(), settings.clone()).unwrap()
}

fn reported(report: &StepReport, name: &str) -> f64 {
    report.metrics.iter().find(|(metric, _)| metric.as_str() == name).unwrap().1
}

/// Groups whose responses have one reward.
fn alike() -> Vec<ResponseGroup> {
    let mut groups = groups();
    groups.iter_mut().flat_map(|group| &mut group.responses).for_each(|response| response.reward = 1.0);
    groups
}

#[test]
fn an_identical_teacher_has_no_loss_and_no_gradient() {
    let dir = tempfile::tempdir().unwrap();
    let report = learner(&settings(published(dir.path(), parameters()), 0.0)).train(groups()).unwrap();
    let update = &report.updates[0];
    assert_eq!((update.loss, update.grad_norm, update.terms[0].sum), (0.0, 0.0, 0.0));
    assert_eq!(report.groups_with_signal, 3);
    assert_eq!(update.terms[0].tokens, 12);
}

#[test]
fn beside_rewards_an_identical_teacher_changes_no_bit_and_another_does() {
    let dir = tempfile::tempdir().unwrap();
    let [same, other] = [("same", parameters()), ("other", other())]
        .map(|(name, parameters)| settings(published(&dir.path().join(name), parameters), 1.0));
    let trained = |settings: &TrainingSettings| {
        let mut learner = learner(settings);
        learner.train(groups()).unwrap();
        state(&mut learner)
    };
    let without = trained(&TrainingSettings { distillation: None, ..same.clone() });
    assert_eq!(trained(&same), without);
    assert_ne!(trained(&other), without);
}

#[test]
fn the_policy_is_pulled_to_the_teacher() {
    let dir = tempfile::tempdir().unwrap();
    let mut pulled = learner(&settings(published(dir.path(), other()), 0.0));
    // One token, so that its difference to the teacher is the mean of all.
    let mut single = groups();
    single.truncate(1);
    single[0].responses.truncate(1);
    single[0].responses[0].mask = vec![true, false];
    let mut distances = Vec::new();
    for _ in 0..30 {
        let report = pulled.train(single.clone()).unwrap();
        let update = &report.updates[0];
        assert_eq!((reported(&report, metric::DISTILLATION_LOSS.name), update.policy_loss), (update.loss, 0.0));
        distances.push(reported(&report, metric::TEACHER_KL.name).abs());
    }
    assert!(distances[29] < 0.5 * distances[0], "{distances:?}");
}

#[test]
fn where_the_teacher_alone_decides_rewards_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(published(dir.path(), other()), 0.0);
    let [mut one, mut other] = [learner(&settings), learner(&settings)];
    for _ in 0..3 {
        one.train(groups()).unwrap();
        other.train(alike()).unwrap();
    }
    assert_eq!(state(&mut one), state(&mut other));
}

#[test]
fn no_group_is_left_out_and_one_response_is_enough_where_the_teacher_alone_decides() {
    let dir = tempfile::tempdir().unwrap();
    let alone = settings(published(dir.path(), other()), 0.0);
    assert_eq!(learner(&alone).train(alike()).unwrap().trained_responses, 6);
    let mut single = groups();
    single.iter_mut().for_each(|group| group.responses.truncate(1));
    assert_eq!(learner(&alone).train(single.clone()).unwrap().trained_responses, 3);
    let mut both = alone;
    both.distillation.as_mut().unwrap().reward_weight = 0.5;
    assert_eq!(learner(&both).train(alike()).unwrap().trained_responses, 6);
    let error = learner(&both).train(single).unwrap_err().to_string();
    assert!(error.contains("groups[0].responses is a list of 1"), "{error}");
}

#[test]
fn loss_is_the_sum_of_both_terms_with_their_weights() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(published(dir.path(), other()), 1.0);
    settings.objective.correction = evenkeel_objective::Correction::TokenTruncate;
    let losses = |weight, reward_weight| {
        let mut settings = settings.clone();
        let distillation = settings.distillation.as_mut().unwrap();
        (distillation.weight, distillation.reward_weight) = (weight, reward_weight);
        let report = learner(&settings).train(groups()).unwrap();
        let update = &report.updates[0];
        assert!((update.loss - update.policy_loss - update.term_losses[0]).abs() < 1e-12);
        (update.policy_loss, update.term_losses[0])
    };
    let (policy, teacher) = losses(1.0, 1.0);
    let (other_policy, other_teacher) = losses(3.0, 0.25);
    assert!((other_policy - 0.25 * policy).abs() < 1e-12 && (other_teacher - 3.0 * teacher).abs() < 1e-9);
    let (_, alone) = losses(1.0, 0.0);
    assert!((alone - teacher).abs() < 1e-9 && teacher != 0.0, "{alone} and {teacher}");
}

#[test]
fn batches_and_the_time_of_arrival_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(published(dir.path(), other()), 0.0);
    (settings.mini_batch_groups, settings.epochs) = (2, 2);
    let trained = |micro_batch_tokens| {
        let mut settings = settings.clone();
        settings.compute.micro_batch_tokens = micro_batch_tokens;
        let mut learner = learner(&settings);
        (0..3).for_each(|_| drop(learner.train(groups()).unwrap()));
        state(&mut learner)
    };
    assert_eq!(trained(1), trained(0));
}

#[test]
fn where_the_teacher_alone_decides_passes_do_not_wait_for_the_last_group() {
    let dir = tempfile::tempdir().unwrap();
    let teacher = published(dir.path(), other());
    let accumulated = |reward_weight| {
        let mut settings = settings(teacher.clone(), reward_weight);
        settings.compute.micro_batch_tokens = 1;
        let mut learner = learner(&settings);
        let mut step = learner.step_of(3);
        let groups = groups().into_iter();
        groups
            .map(|group| {
                step.add(group).unwrap();
                step.progress().groups
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(accumulated(0.0), [1, 2, 3]);
    // 1 / N is known with the last one.
    assert_eq!(accumulated(1.0)[..2], [0, 0]);
}

#[test]
fn the_teacher_scores_at_a_temperature_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(published(dir.path(), parameters()), 0.0);
    settings.distillation.as_mut().unwrap().teacher_temperature = Some(2.0);
    assert_ne!(learner(&settings).train(groups()).unwrap().updates[0].loss, 0.0);
    settings.temperature = 2.0;
    assert_eq!(learner(&settings).train(groups()).unwrap().updates[0].loss, 0.0);
}

#[test]
fn the_rules_of_the_probe_differ_by_their_policy_terms_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(published(dir.path(), other()), 0.0);
    settings.probe_gradients.every = 1;
    let mut learner = learner(&settings);
    let mut step = learner.step_of(3).with_probe().unwrap();
    groups().into_iter().for_each(|group| step.add(group).unwrap());
    let probe = step.finish().unwrap().probe.unwrap();
    let first = &probe.rules[0];
    for rule in &probe.rules {
        assert!((rule.norm / first.norm - 1.0).abs() < 1e-5 && (rule.loss / first.loss - 1.0).abs() < 1e-9, "{rule:?}");
    }
}

#[test]
fn two_ranks_have_the_bits_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(published(dir.path(), other()), 0.5);
    let mut alone = learner(&settings);
    let wanted = alone.train(groups()).unwrap();
    let work = |number: usize, collective: InProcess| {
        let division = Division::new(number, 2);
        let mut learner = Learner::new_rank(config(), parameters(), settings.clone(), division).unwrap();
        learner.join(Some(Arc::new(Mutex::new(collective))));
        let report = learner.train(groups()).unwrap();
        assert_eq!((&report.updates, &report.metrics), (&wanted.updates, &wanted.metrics));
    };
    std::thread::scope(|scope| {
        let ranks = InProcess::ranks(2, Duration::from_secs(60)).into_iter().enumerate();
        let threads: Vec<_> = ranks.map(|(number, collective)| scope.spawn(move || work(number, collective))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn its_section_is_part_of_the_hash_and_of_the_formula() {
    let mut settings = settings("teacher".into(), 0.0);
    evenkeel_config::Settings::validate(&settings).unwrap();
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<TrainingSettings>(&text).unwrap(), settings);
    let without = TrainingSettings { distillation: None, ..settings.clone() };
    assert_ne!(settings.hash(), without.hash());
    assert_eq!([settings.other_logps(), without.other_logps()], [1, 0]);
    assert_eq!([settings.reward_weight(), without.reward_weight()], [0.0, 1.0]);
    let formula = settings.formula();
    assert!(
        formula.contains("+ 1 sum of s rho / N, s = old_logp - teacher_logp within ±10 [distillation]"),
        "{formula}"
    );
    settings.old_logp = OldLogp::Rollout;
    let error = evenkeel_config::Settings::validate(&settings).unwrap_err().to_string();
    assert!(error.starts_with("old_logp is rollout, allowed: recompute or proximal"), "{error}");
}

#[test]
fn a_teacher_in_a_folder_is_in_the_hash_as_it_was_before_there_were_hints() {
    let text = serde_json::to_string(&DistillationSettings::default()).unwrap();
    assert_eq!(text, r#"{"teacher":"","weight":1.0,"reward_weight":0.0,"bound":10.0,"discount":0.0}"#);
}

#[test]
fn memory_is_planned_for_the_teacher() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(published(dir.path(), other()), 0.0);
    let plan = MemoryPlan::of(&config(), &settings, 8).unwrap();
    let teacher = plan.parts.iter().find(|part| part.what == MemoryUse::TeacherWeights).unwrap();
    assert_eq!(teacher.bytes, 4 * Parameters::described(&config()).unwrap().count() as u64);
}

/// A folder with a tokenizer of these words, and a chat template.
fn with_tokenizer(path: &Path, words: &[&str], template: Option<&str>) {
    std::fs::create_dir_all(path).unwrap();
    let vocabulary: serde_json::Map<_, _> =
        words.iter().enumerate().map(|(id, word)| ((*word).to_owned(), id.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"},
    });
    std::fs::write(path.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    template.into_iter().for_each(|text| std::fs::write(path.join("chat_template.jinja"), text).unwrap());
}

#[test]
fn another_vocabulary_another_template_and_a_smaller_model_are_refused_by_field() {
    let dir = tempfile::tempdir().unwrap();
    let folder_at = |name: &str| dir.path().join(name);
    with_tokenizer(&folder_at("policy"), &["a", "b"], Some("{{ messages }}"));
    with_tokenizer(&folder_at("same"), &["a", "b"], Some("{{ messages }}"));
    with_tokenizer(&folder_at("base"), &["a", "b"], None);
    with_tokenizer(&folder_at("words"), &["a", "c"], Some("{{ messages }}"));
    with_tokenizer(&folder_at("template"), &["a", "b"], Some("{{ others }}"));
    std::fs::create_dir(folder_at("none")).unwrap();
    let validate = |teacher: &str| folder::validate_text(&folder_at(teacher), &folder_at("policy"));
    validate("same").unwrap();
    validate("base").unwrap();
    for (teacher, words) in [
        ("words", "allowed: a model with the policy's vocabulary and control tokens, sha256:"),
        ("none", "; this one has no tokenizer"),
        ("template", "allowed: a model with the policy's chat template, sha256:"),
    ] {
        let error = validate(teacher).unwrap_err().to_string();
        assert!(error.starts_with("distillation.teacher is ") && error.contains(words), "{error}");
    }
    let error = folder::validate(&folder_at("none"), &folder_at("policy")).unwrap_err().to_string();
    assert!(error.starts_with("distillation.teacher is ") && error.contains("the folder of a model ("), "{error}");
    let mut small = config();
    small.vocab_size -= 1;
    let error = folder::validate_shape(Path::new("small"), &small, &config()).unwrap_err().to_string();
    let wanted = "distillation.teacher is small, allowed: a model with vocab_size of at least 11, the policy's; this one \
                  has 10";
    assert_eq!(error, wanted);
}
