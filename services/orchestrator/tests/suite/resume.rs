//! A run that was killed, or whose learner was, gives the same lines to the bit.

use std::time::Duration;

use crate::support::{
    Cluster, LEARNER, bounded, finish, kill_and_resume, lines, recipe, resolved, temp, uninterrupted,
};
use evenkeel_orchestrator::{Dependency, Event, RunError, RunOutcome, StopWhen};
use evenkeel_proto::v1::TrainKind;
use evenkeel_run::RunDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_and_resumed_beside_a_learner_that_lives() {
    bounded(async {
        for seed in 0..3 {
            kill_and_resume(&recipe(), false, seed).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_with_the_learner_and_resumed() {
    bounded(async {
        for seed in 10..13 {
            kill_and_resume(&recipe(), true, seed).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_dies_costs_no_finished_step() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        let following = tokio::spawn(finish(handle));
        for step in [1, 3] {
            crate::support::until(|| progress.borrow().step >= step).await;
            cluster.down(LEARNER).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            cluster.up(LEARNER).await;
        }
        let (events, result) = following.await.unwrap();
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        let waits = events
            .iter()
            .filter(|event| matches!(&***event, Event::Waiting { service: Dependency::Learner, .. }))
            .count();
        let rewinds = events.iter().filter(|event| matches!(&***event, Event::Rewound { .. })).count();
        assert!(waits >= 1 && rewinds >= 1, "{waits} {rewinds}");
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

/// A lost GPU and too many skipped updates in a row have the same status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_reports_a_loss_of_data_ends_the_run_which_resumes_from_its_checkpoint() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        cluster.learner.state.fails_at.lock().unwrap().insert(4);
        let (events, result) = cluster.run(&path, &recipe()).await;
        let error = result.unwrap_err();
        let RunError::Refused { service: Dependency::Learner, message, .. } = &error else { panic!("{error}") };
        assert!(message.contains("the GPU failed: resume from the last checkpoint"), "{message}");
        assert_eq!(cluster.learner.state.sent.lock().unwrap()[&4], 1, "the step is not tried again");
        assert!(!events.iter().any(|event| matches!(&**event, Event::Waiting { .. })));
        // The GPU's memory is lost with the process.
        cluster.down(LEARNER).await;
        cluster.up(LEARNER).await;
        finish(cluster.resume(&path, &recipe())).await.1.unwrap();
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_after_the_step_does_not_step_twice() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.learner.state.cut_after.lock().unwrap().extend([1, 3, 6]);
        cluster.run(&path, &recipe()).await.1.unwrap();
        assert!(cluster.learner.state.cut_after.lock().unwrap().is_empty());
        assert!(cluster.learner.state.done.lock().unwrap().values().all(|times| *times == 1));
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_after_the_step_with_a_checkpoint_and_the_rest_follows() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        crate::support::until(|| progress.borrow().step >= 1).await;
        handle.stop(StopWhen::AfterStep);
        let (events, result) = finish(handle).await;
        let (outcome, summary) = result.unwrap();
        assert_eq!((outcome, summary.state.label()), (RunOutcome::Stopped, "stopped"));
        let done = summary.steps;
        assert!((1..6).contains(&done));
        let last = events.iter().rev().find_map(|event| match &**event {
            Event::Checkpoint { step, .. } => Some(*step),
            _ => None,
        });
        assert_eq!(last, Some(done));
        let (events, result) = finish(cluster.resume(&path, &recipe())).await;
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        assert!(events.iter().any(|event| matches!(&**event, Event::Started { step, .. } if *step == done)));
        assert!(cluster.learner.state.done.lock().unwrap().values().all(|times| *times == 1));
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_warm_start_and_one_at_once_can_be_resumed() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        let handle = cluster.begin(&path, &recipe());
        handle.stop(StopWhen::AfterStep);
        let (_, result) = finish(handle).await;
        assert_eq!(result.unwrap().0, RunOutcome::Stopped);
        cluster.down(LEARNER).await;
        cluster.up(LEARNER).await;

        let handle = cluster.resume(&path, &recipe());
        let progress = handle.progress();
        crate::support::until(|| progress.borrow().step >= 3).await;
        handle.stop(StopWhen::Now);
        assert_eq!(finish(handle).await.1.unwrap().0, RunOutcome::Stopped);
        assert_eq!(finish(cluster.resume(&path, &recipe())).await.1.unwrap().0, RunOutcome::Completed);
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_killed_in_its_warm_start_begins_again_with_a_learner_that_lives() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = recipe();
        recipe.warm_start.steps = 200;
        let handle = cluster.begin(&path, &recipe);
        let times =
            |step| cluster.learner.state.done.lock().unwrap().get(&(TrainKind::Supervised as i32, step)).copied();
        crate::support::until(|| times(21).is_some()).await;
        handle.kill().await;
        assert_eq!(times(200), None, "it was killed in its warm start");
        let (events, result) = finish(cluster.resume(&path, &recipe)).await;
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        assert_eq!((times(1), times(200)), (Some(2), Some(1)));
        assert!(!events.iter().any(|event| matches!(&**event, Event::Rewound { .. })), "at the first attempt");
        assert_eq!(lines(&path), uninterrupted(&recipe).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_done_can_be_made_longer() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = recipe();
        recipe.run.steps = 3;
        recipe.evaluation.after = false;
        cluster.run(&path, &recipe).await.1.unwrap();
        recipe.run.steps = 6;
        finish(cluster.resume(&path, &recipe)).await.1.unwrap();
        assert_eq!(lines(&path), uninterrupted(&recipe).await);

        recipe.run.steps = 2;
        let error = finish(cluster.resume(&path, &recipe)).await.1.unwrap_err().to_string();
        assert_eq!(error, "run.steps is 2, allowed: at least 6, the steps that are done");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_were_taken_away_are_missed() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.run(&path, &recipe()).await.1.unwrap();
        std::fs::write(path.join("metrics.jsonl"), "").unwrap();
        let error = finish(cluster.resume(&path, &recipe())).await.1.unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl has 0 lines, the checkpoint is after step 6"), "{error}");
        assert!(
            RunDirectory::create(&path, resolved(&recipe()).record())
                .unwrap_err()
                .to_string()
                .contains("holds run `run` already")
        );
    })
    .await;
}
