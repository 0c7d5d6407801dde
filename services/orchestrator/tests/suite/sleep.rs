//! Engines that share a GPU with the learner sleep while it trains.

use std::sync::atomic::Ordering;

use evenkeel_orchestrator::{EnginesWhileTraining, RunOutcome};
use evenkeel_proto::v1::SleepLevel;

use crate::support::{Cluster, bounded, lines, recipe, temp, uninterrupted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_sleep_through_every_training_and_the_run_is_the_same() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut sleeping = recipe();
        sleeping.sampling.engines_while_training = EnginesWhileTraining::Discard;
        assert_eq!(cluster.run(&path, &sleeping).await.1.unwrap().0, RunOutcome::Completed);
        let sleeps = cluster.generation.state.sleeps.lock().unwrap().clone();
        assert_eq!(sleeps[0], SleepLevel::Offload, "during the warm start nobody could give their weights back");
        assert_eq!(sleeps[1..], [SleepLevel::Discard; 6]);
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_cannot_sleep_end_the_run_with_their_words() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.generation.state.cannot_sleep.store(true, Ordering::Relaxed);
        let mut sleeping = recipe();
        sleeping.sampling.engines_while_training = EnginesWhileTraining::Offload;
        let error = cluster.run(&path, &sleeping).await.1.unwrap_err().to_string();
        assert!(error.contains("engine fake does not sleep: SLEEP_UNSUPPORTED: it has no /sleep"), "{error}");
    })
    .await;
}
