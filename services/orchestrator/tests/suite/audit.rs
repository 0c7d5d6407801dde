//! Samples that do not come from the policy do not go unnoticed, and end the run before they change any weights.

use std::sync::atomic::Ordering;

use evenkeel_orchestrator::{AuditMode, LoopSettings, RunOutcome};
use evenkeel_run::metric::table::may_differ;

use crate::support::{Cluster, SCORING_SECONDS, bounded, metrics, mix, recipe, temp};

/// A cluster whose answers are letters drawn by their seeds, so that no two of a prompt are alike.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let letter = |word: u64| char::from(b'A' + (word % 26) as u8);
    *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(move |item| {
        let seed = item.sampling.as_ref()?.seed?;
        Some((0..12).map(|at| letter(mix(seed ^ at << 56))).collect())
    }));
    cluster
}

/// Samples of a step of the recipe.
const SAMPLES: u32 = 16;

/// All samples are audited, and nothing is evaluated.
fn audited(mode: AuditMode) -> LoopSettings {
    let mut recipe = recipe();
    recipe.evaluation.problems = 0;
    recipe.sampler_audit.mode = mode;
    recipe.sampler_audit.sequences = SAMPLES;
    recipe
}

/// As [`audited`], for an engine that draws as it should. Each letter is drawn alike, and what the engine says of letters is
/// no distribution: an audit would tell in time.
fn audited_for_a_while(mode: AuditMode) -> LoopSettings {
    let mut recipe = audited(mode);
    recipe.sampler_audit.alpha = 1e-30;
    recipe
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_of_every_step_are_scored_under_the_version_that_sampled_them() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = cluster().await;
        cluster.run(&path, &audited_for_a_while(AuditMode::Stop)).await.1.unwrap();
        let lines = metrics(&path);
        let versions: Vec<u64> = cluster.learner.state.audited.lock().unwrap().keys().copied().collect();
        // The warm start makes the first two.
        assert_eq!(versions, (2..2 + lines.len() as u64).collect::<Vec<_>>());
        for line in lines {
            let value = |name: &str| line.get(name).unwrap_or_else(|| panic!("{name} in step {}", line.step));
            assert_eq!((value("sampler_audit/samples"), value("sampler_audit/missing_samples")), (SAMPLES.into(), 0.0));
            assert!(value("sampler_audit/evidence/temperature") < 1.0 && value("sampler_audit/gap") == 0.0);
            assert!((value("sampler_audit/tokens_for_10_percent") - 2500.0).abs() < 1e-6);
            // Once the weights have changed, two failure modes are tested on the samples.
            let passes = if line.step == 1 { 1.0 } else { 3.0 };
            let computing = f64::from(SAMPLES) * passes * SCORING_SECONDS;
            assert!((value("timing_s/sampler_audit_compute") - computing).abs() < 1e-9);
            assert!(value("timing_s/sampler_audit_wait") > 0.0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_check_ends_the_run_before_the_step_changes_any_weights() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = cluster().await;
        cluster.learner.state.surprise.store(3000, Ordering::Relaxed);
        let error = cluster.run(&path, &audited(AuditMode::Stop)).await.1.unwrap_err().to_string();
        assert!(error.starts_with("step 1: the samples of engine fake fail the audit of their temperature"), "{error}");
        assert!(error.contains("its tokens are too likely") && error.contains("evidence"), "{error}");
        assert!(metrics(&path).is_empty());
        let done = cluster.learner.state.done.lock().unwrap().clone();
        let grpo = evenkeel_proto::v1::TrainKind::Grpo as i32;
        assert!(!done.contains_key(&(grpo, 1)), "{done:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_check_may_be_a_warning_alone() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = cluster().await;
        cluster.learner.state.surprise.store(3000, Ordering::Relaxed);
        let (outcome, _) = cluster.run(&path, &audited(AuditMode::Warn)).await.1.unwrap();
        assert_eq!(outcome, RunOutcome::Completed);
        assert!(metrics(&path).iter().all(|line| line.get("sampler_audit/evidence/temperature").unwrap() > 4.0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_repeat_against_their_probability_are_copies() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        *cluster.generation.state.identical.lock().unwrap() = Some(Box::new(|_| true));
        let error = cluster.run(&path, &audited(AuditMode::Stop)).await.1.unwrap_err().to_string();
        assert!(error.contains("fail the audit of their copies") && error.contains("the seed of a request"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_weights_of_samples_are_gone_the_audit_says_that_it_is_not_possible() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = cluster().await;
        cluster.learner.state.are_weights_gone.store(true, Ordering::Relaxed);
        cluster.run(&path, &audited_for_a_while(AuditMode::Stop)).await.1.unwrap();
        for line in metrics(&path) {
            let value = |name: &str| line.get(name).unwrap();
            assert_eq!((value("sampler_audit/samples"), value("sampler_audit/not_possible")), (0.0, SAMPLES.into()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ahead_of_training_a_step_is_audited_as_a_whole_or_not_at_all() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = cluster().await;
        let mut recipe = audited_for_a_while(AuditMode::Stop);
        recipe.pipeline.max_lag = 1;
        recipe.sampler_audit.every = 3;
        cluster.run(&path, &recipe).await.1.unwrap();
        for line in metrics(&path) {
            let samples = line.get("sampler_audit/samples").unwrap();
            assert!([0.0, SAMPLES.into()].contains(&samples), "{samples} in step {}", line.step);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_counted_does_not_depend_on_which_group_or_step_is_complete_first() {
    bounded(async {
        let mut runs = Vec::new();
        for _ in 0..3 {
            let (_dir, path) = temp();
            // Answers arrive in another order each time, and many of a prompt are alike.
            let cluster = Cluster::start().await;
            cluster.generation.state.max_delay_ms.store(20, Ordering::Relaxed);
            let mut recipe = audited(AuditMode::Warn);
            recipe.pipeline.max_lag = 1;
            recipe.sampler_audit.every = 2;
            // It audits all steps but the fifth.
            recipe.sampler_audit.nonce = Some(6);
            cluster.run(&path, &recipe).await.1.unwrap();
            let counted = |line: &evenkeel_run::MetricsLine| -> Vec<(String, f64)> {
                let values = line.values.iter().map(|(name, value)| (name.clone(), *value));
                values.filter(|(name, _)| name.starts_with("sampler_audit/")).collect()
            };
            runs.push(metrics(&path).iter().map(counted).collect::<Vec<_>>());
        }
        assert!(runs[0].iter().flatten().any(|(name, value)| name == "sampler_audit/expected_copies" && *value > 0.0));
        for line in &runs[0] {
            assert!(line.iter().any(|(name, value)| name == "sampler_audit/tokens" && *value > 0.0), "{line:?}");
        }
        assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn which_samples_are_audited_differs_between_two_runs_of_a_seed_and_nothing_else_does() {
    bounded(async {
        let run = async || {
            let (_dir, path) = temp();
            let mut recipe = audited_for_a_while(AuditMode::Stop);
            recipe.sampler_audit.sequences = SAMPLES / 2;
            cluster().await.run(&path, &recipe).await.1.unwrap();
            let lines = metrics(&path);
            let nonces: Vec<_> = lines.iter().map(|line| line.get("sampler_audit/nonce").unwrap()).collect();
            let values = |line: &evenkeel_run::MetricsLine| -> Vec<(String, f64)> {
                let values = line.values.iter().map(|(name, value)| (name.clone(), *value));
                values.filter(|(name, _)| !may_differ(name)).collect()
            };
            (nonces, lines.iter().map(values).collect::<Vec<_>>())
        };
        let one = run().await;
        let other = run().await;
        assert_eq!(one.1, other.1);
        assert!(one.0.iter().zip(&other.0).all(|(one, other)| one != other), "{:?} {:?}", one.0, other.0);
        assert!(one.0.windows(2).all(|steps| steps[0] != steps[1]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacements_of_prompts_without_a_signal_are_in_the_population() {
    bounded(async {
        let (_dir, path) = temp();
        let mut recipe = audited_for_a_while(AuditMode::Stop);
        recipe.sampling.dynamic = true;
        recipe.sampling.max_prompts_per_step = 6;
        // No answer of this cluster is right, so that no group has a signal.
        cluster().await.run(&path, &recipe).await.1.unwrap();
        for line in metrics(&path) {
            let numbers = ["training/prompts_tried", "sampler_audit/samples"].map(|name| line.get(name));
            assert_eq!(numbers, [Some(6.0), Some(24.0)], "step {}", line.step);
        }
    })
    .await;
}
