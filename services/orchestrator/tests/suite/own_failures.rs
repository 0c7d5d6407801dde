//! Environments of the user's own that raise at some answers: what is kept of these, and when they end the run.

use evenkeel_orchestrator::{LoopSettings, RunError};
use evenkeel_proto::v1::EpisodeFailure;

use crate::support::calculator::{Table, settings};
use crate::support::environment::{Fault, file};
use crate::support::{bounded, finish, metrics};

/// Sums that a file's environment plays.
fn own() -> LoopSettings {
    let mut settings = settings();
    settings.data.environment = Some(file().name);
    settings
}

/// A table whose environment raises at the first turn of these samples, in every attempt.
async fn raising(at: fn(&str) -> bool) -> Table {
    let table = Table::start(64).await;
    let crashed = Fault::Failed(EpisodeFailure::Crashed, true);
    table.script(move |id, asked, _| (asked == "act" && at(id)).then_some(crashed));
    table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_whose_environment_raised_is_counted_by_its_length_and_what_it_says() {
    bounded(async {
        let table = raising(|id| id == "train/1/0/1").await;
        let (_, result) = finish(table.begin("run", &own()).unwrap()).await;
        let left_out = result.unwrap().1.left_out.unwrap();
        assert_eq!((left_out.left_out.answers, left_out.judged.answers), (1, 15));
        assert_eq!((left_out.left_out.marked, left_out.judged.marked), (0, 15), "it has called a tool, and no answer");
        assert_eq!(left_out.left_out.lengths.iter().sum::<u64>(), 1);
        let count = |step: usize, name: &str| {
            metrics(&table.path("run"))[step].get(&format!("environments/{}/{name}", file().name))
        };
        assert_eq!((count(0, "episodes"), count(0, "failures")), (Some(16.0), Some(1.0)));
        assert_eq!((count(1, "episodes"), count(1, "failures")), (Some(16.0), Some(0.0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_environment_that_raises_at_more_than_two_percent_of_its_episodes_ends_the_run() {
    bounded(async {
        let mut settings = own();
        settings.services.max_invalid_share = 1.0;
        let table = raising(|id| id.starts_with("train/1/") && id.ends_with("/1")).await;
        let (_, result) = finish(table.begin("run", &settings).unwrap()).await;
        let error = result.err().unwrap();
        assert!(matches!(error, RunError::RewardFunction { failures: 4, samples: 16, .. }), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("step 1: the environment `shelf.py` failed on 4 of 16 answers"), "{text}");
        assert!(text.ends_with("first failure: environment: crashed: as scripted"), "{text}");
    })
    .await;
}
