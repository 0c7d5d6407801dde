//! An engine whose weights are not the version it reports does not go unnoticed.

use std::sync::atomic::Ordering;

use evenkeel_orchestrator::RunOutcome;

use crate::support::{Cluster, GENERATION, bounded, finish, metrics, recipe, temp, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_follow_are_proven_after_every_update() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.run(&path, &recipe()).await.1.unwrap();
        for line in metrics(&path) {
            let value = |name: &str| line.get(name).unwrap_or_else(|| panic!("{name} in step {}", line.step));
            assert_eq!((value("proof/engines"), value("proof/mean_gap"), value("proof/max_gap")), (1.0, 0.0, 0.0));
            assert!(value("proof/change") > 0.01 && value("proof/change") == value("proof/learner_change"));
            assert!(value("timing_s/proof") > 0.0);
        }
        // One before the first step.
        assert_eq!(cluster.generation.state.proofs.load(Ordering::Relaxed), 7);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_keeps_old_weights_under_the_new_version_ends_the_run() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        until(|| progress.borrow().step >= 2).await;
        cluster.generation.state.is_stuck.store(true, Ordering::Relaxed);
        let error = finish(handle).await.1.unwrap_err().to_string();
        assert!(error.starts_with("engine fake does not have version "), "{error}");
        assert!(error.contains("the engine still has the weights of version"), "{error}");
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
        // The same gap is within a wider tolerance.
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
async fn weights_that_do_not_change_are_no_reason_to_end() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.learner.state.is_frozen.store(true, Ordering::Relaxed);
        assert_eq!(cluster.run(&path, &recipe()).await.1.unwrap().0, RunOutcome::Completed);
        assert!(metrics(&path).iter().all(|line| line.get("proof/change") == Some(0.0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_is_taken_as_often_as_the_settings_say() {
    bounded(async {
        for (every, proofs) in [(0, 0), (4, 2)] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let mut recipe = recipe();
            recipe.proof.every = every;
            cluster.run(&path, &recipe).await.1.unwrap();
            assert_eq!(cluster.generation.state.proofs.load(Ordering::Relaxed), proofs);
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
