//! An engine whose weights are not the version it reports does not go unnoticed.

use std::sync::atomic::Ordering;

use evenkeel_orchestrator::RunOutcome;
use evenkeel_run::ProofState;

use crate::support::{Cluster, GENERATION, bounded, finish, metrics, recipe, temp, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_follow_are_proven_after_every_update() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let summary = cluster.run(&path, &recipe()).await.1.unwrap().1;
        for line in metrics(&path) {
            let value = |name: &str| line.get(name).unwrap_or_else(|| panic!("{name} in step {}", line.step));
            assert_eq!((value("proof/engines"), value("proof/mean_gap"), value("proof/max_gap")), (1.0, 0.0, 0.0));
            assert!(value("proof/movement") > 0.01 && value("proof/evidence") < 1.0);
            assert!(value("proof/stale_share/unchanged").abs() < 1e-6);
            assert!(value("timing_s/proof") > 0.0);
        }
        // Nothing loaded, one behind, and three groups of tensors, of which two are looked at in each of six steps.
        let weights = summary.weights.unwrap();
        assert_eq!((weights.excluded, weights.suspicions), (5, 5));
        // What the fake engine says of its samples is the same under all weights.
        assert_eq!((weights.state, weights.excluded_by_samples), (ProofState::Undecided, Some(0)));
        let words = "undecided on 1 engine (5 of 5 failure modes ruled out by scores, 0 by samples)";
        assert_eq!(weights.to_string(), words);
        // One before the first step, with a calibration of five batches, and one after each step.
        assert_eq!(cluster.generation.state.proofs.load(Ordering::Relaxed), 1 + 5 + 6);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_keeps_old_weights_under_the_new_version_ends_the_run() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.generation.state.is_stuck.store(false, Ordering::Relaxed);
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        until(|| progress.borrow().step >= 2).await;
        cluster.generation.state.is_stuck.store(true, Ordering::Relaxed);
        let error = finish(handle).await.1.unwrap_err().to_string();
        assert!(error.starts_with("engine fake does not have version "), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_tensors_that_stays_old_is_named_after_the_first_step() {
    bounded(async {
        for group in ["embeddings", "norms", "mlp"] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            *cluster.generation.state.stuck_group.lock().unwrap() = Some((group.to_owned(), String::new()));
            let error = cluster.run(&path, &recipe()).await.1.unwrap_err().to_string();
            assert!(error.contains(&format!("its {group} are still those of version ")), "{error}");
            // The step whose weights it did not take is not written.
            assert!(metrics(&path).is_empty(), "{group}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_answers_as_the_base_of_its_adapter_ends_the_run() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.learner.state.trains_adapters.store(true, Ordering::Relaxed);
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        until(|| progress.borrow().step >= 2).await;
        cluster.generation.state.answers_as_base.store(true, Ordering::Relaxed);
        let error = finish(handle).await.1.unwrap_err().to_string();
        assert!(error.starts_with("engine fake does not have version "), "{error}");
        assert!(error.contains("it answers as the base model"), "{error}");
        // With all of its adapter it is proven to have one.
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.learner.state.trains_adapters.store(true, Ordering::Relaxed);
        let weights = cluster.run(&path, &recipe()).await.1.unwrap().1.weights.unwrap();
        assert_eq!((weights.excluded, weights.suspicions), (7, 7));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_above_the_tolerance_ends_the_run_before_its_first_step_and_says_what_to_look_at() {
    bounded(async {
        for (off, words) in [(400, "narrower type"), (5000, "another model")] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            cluster.generation.state.off_by.store(off, Ordering::Relaxed);
            let error = cluster.run(&path, &recipe()).await.1.unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("proof.tolerance"), "{error}");
            assert!(metrics(&path).is_empty());
        }
        // The same gap is within a wider tolerance, and is the engine's noise then.
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.generation.state.off_by.store(400, Ordering::Relaxed);
        let mut recipe = recipe();
        recipe.proof.tolerance = Some(0.5);
        cluster.run(&path, &recipe).await.1.unwrap();
        assert!(metrics(&path).iter().all(|line| (line.get("proof/max_gap").unwrap() - 0.4).abs() < 1e-3));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_that_do_not_change_are_no_reason_to_end_and_are_undecided() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.learner.state.is_frozen.store(true, Ordering::Relaxed);
        let (outcome, summary) = cluster.run(&path, &recipe()).await.1.unwrap();
        assert_eq!(outcome, RunOutcome::Completed);
        let weights = summary.weights.unwrap();
        assert_eq!((weights.state, weights.excluded), (ProofState::Undecided, 0));
        assert!(metrics(&path).iter().all(|line| line.get("proof/movement") == Some(0.0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_is_taken_as_often_as_the_settings_say() {
    bounded(async {
        // With a calibration of five batches at the first.
        for (every, proofs) in [(0, 0), (4, 2 + 5)] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let mut recipe = recipe();
            recipe.proof.every = every;
            let summary = cluster.run(&path, &recipe).await.1.unwrap().1;
            assert_eq!(cluster.generation.state.proofs.load(Ordering::Relaxed), proofs);
            assert_eq!(summary.weights.is_some(), every > 0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_service_that_was_restarted_gets_its_weights_before_the_proof() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        let following = tokio::spawn(finish(handle));
        for step in [1, 3] {
            until(|| progress.borrow().step >= step).await;
            cluster.down(GENERATION).await;
            cluster.up(GENERATION).await;
        }
        assert_eq!(following.await.unwrap().1.unwrap().0, RunOutcome::Completed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_no_proof_has_reached_is_not_forgotten_by_a_resume() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        *cluster.generation.state.engine.lock().unwrap() = Some(Box::new(|_| "unproven"));
        let mut recipe = recipe();
        recipe.run.steps = 2;
        cluster.run(&path, &recipe).await.1.unwrap();
        *cluster.generation.state.engine.lock().unwrap() = None;
        recipe.run.steps = 4;
        let summary = finish(cluster.resume(&path, &recipe)).await.1.unwrap().1;
        let unverified: Vec<_> = metrics(&path).iter().map(|line| line.get("proof/unverified_engines")).collect();
        assert_eq!(unverified, [Some(1.0); 4]);
        let weights = summary.weights.unwrap();
        assert_eq!((weights.state, weights.unverified_engines), (ProofState::Undecided, 1));
    })
    .await;
}
