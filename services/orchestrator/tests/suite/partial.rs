//! Answers that several weights sample, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use evenkeel_orchestrator::{Event, LoopSettings};
use evenkeel_proto::v1::FailureCode;
use evenkeel_proto::{Purpose, SampleId};

use crate::support::rounds::{
    assert_stops_and_goes_on, assert_survives_losses, assert_survives_lost_engines, assert_versions, assert_whole,
    split,
};
use crate::support::{Cluster, bounded, finish, kill_and_resume, lines, temp, uninterrupted, until};

/// Answers of at most 24 tokens, in parts.
fn partial(max_lag: u32, max_versions: u32) -> LoopSettings {
    let mut recipe = split(max_lag, 0);
    recipe.sampling.max_tokens = 24;
    recipe.pipeline.partial = true;
    recipe.pipeline.max_versions = max_versions;
    recipe
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answers_go_through_the_weights_by_the_place_of_their_tokens() {
    bounded(async {
        let mut all = Vec::new();
        for (max_lag, versions) in [(1, 2), (2, 2), (2, 3), (5, 4)] {
            let recipe = partial(max_lag, versions);
            let here = assert_whole(&recipe).await;
            assert_eq!(here, uninterrupted(&recipe).await, "the same again, in another order of completion");
            assert!(!all.contains(&here));
            all.push(here);
        }
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let recipe = partial(2, 3);
        cluster.run(&path, &recipe).await.1.unwrap();
        assert!(assert_versions(&cluster, &recipe) > 20, "answers are long enough to be of several versions");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_and_partial_answers_go_together() {
    bounded(async {
        let mut recipe = partial(3, 3);
        recipe.pipeline.split = 1;
        let here = assert_whole(&recipe).await;
        assert_eq!(here, uninterrupted(&recipe).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_part_continues_its_answer_with_a_seed_of_its_own_and_evaluations_have_one_part() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = partial(2, 3);
        recipe.sampling.min_tokens = 10;
        cluster.run(&path, &recipe).await.1.unwrap();
        let seen = cluster.generation.state.seen.lock().unwrap();
        let mut seeds = BTreeMap::new();
        let mut continued = 0;
        for item in seen.iter() {
            let id: SampleId = item.sample_id.parse().unwrap();
            let begun: usize = item.prefix_segments.iter().map(|segment| segment.token_ids.len()).sum();
            let sampling = item.sampling.as_ref().unwrap();
            if id.group.purpose == Purpose::Eval {
                assert_eq!((begun, sampling.max_tokens), (0, Some(24)));
                continue;
            }
            assert_eq!(begun % 8, 0);
            assert_eq!(sampling.max_tokens, Some(8));
            assert_eq!(sampling.min_tokens, Some((10 - begun.min(10) as u32).min(8)));
            assert_eq!(item.parent_sample_id.is_some(), begun > 0);
            let seed = sampling.seed.unwrap();
            let first = seeds.entry((item.sample_id.clone(), begun)).or_insert(seed);
            assert_eq!(*first, seed, "an attempt begins with the same seed");
            continued += usize::from(begun > 0);
        }
        assert!(continued > 20);
        let different: BTreeSet<u64> = seeds.values().copied().collect();
        assert_eq!(different.len(), seeds.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_parts_of_an_answer_share_its_attempts() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = partial(2, 3);
        // Every other attempt at one sample of each group fails, so that each of its parts does.
        let failures: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let counted = Arc::clone(&failures);
        let script = move |id: &str, times: u32| {
            let fails = id.starts_with("train/") && id.ends_with("/2") && times % 2 == 1;
            fails.then(|| {
                *counted.lock().unwrap().entry(id.to_owned()).or_default() += 1;
                FailureCode::Cancelled
            })
        };
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
        (recipe.services.sample_attempts, recipe.services.max_invalid_share) = (2, 1.0);
        cluster.run(&path, &recipe).await.1.unwrap();
        let most = failures.lock().unwrap().values().copied().max();
        assert_eq!(most, Some(2), "an answer has up to three parts");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_run_that_is_killed_anywhere_and_resumed_is_the_same_run() {
    bounded(async {
        for (seed, max_lag, versions) in [(0, 1, 2), (1, 2, 3), (2, 3, 2), (3, 3, 4)] {
            let mut recipe = partial(max_lag, versions);
            recipe.evaluation.every = 2;
            assert_versions(&kill_and_resume(&recipe, seed % 2 == 1, seed).await, &recipe);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_answers_of_dynamic_sampling_replay() {
    bounded(async {
        let mut recipe = partial(2, 2);
        recipe.sampling.dynamic = true;
        assert_whole(&recipe).await;
        assert_versions(&kill_and_resume(&recipe, true, 33).await, &recipe);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_services_and_engines_change_nothing_about_partial_answers() {
    bounded(async {
        assert_survives_losses(&partial(2, 3)).await;
        assert_survives_lost_engines(&partial(2, 2)).await;
        assert_survives_lost_engines(&partial(3, 4)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_finds_answers_half_sampled_and_the_run_goes_on_as_if_it_had_not_been() {
    bounded(async {
        let mut recipe = partial(3, 3);
        recipe.evaluation.every = 1;
        recipe.checkpoint.keep_best = "val-core/arithmetic/acc/mean@1".into();
        assert_stops_and_goes_on(&recipe).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_samples_at_once_than_a_step_has_do_not_hold_it_up() {
    bounded(async {
        let expected = uninterrupted(&partial(2, 3)).await;
        let mut recipe = partial(2, 3);
        recipe.services.max_rollouts = 1;
        assert_eq!(assert_whole(&recipe).await, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_in_flight_are_part_of_a_checkpoint_and_sampled_again() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let recipe = partial(2, 3);
        let handle = cluster.begin(&path, &recipe);
        let progress = handle.progress();
        // The third step is begun, and with it two that follow it.
        cluster.learner.state.holds.lock().unwrap().replace(Box::new({
            let state = Arc::downgrade(&cluster.generation.state);
            move |step: u64| {
                let state = state.upgrade().unwrap();
                let seen = state.seen.lock().unwrap();
                let mut ids = seen.iter().map(|item| item.sample_id.parse::<SampleId>().unwrap().group);
                step < 7 && !ids.any(|id| id.purpose == Purpose::Train && id.step == step + 2)
            }
        }));
        until(|| progress.borrow().step >= 3).await;
        handle.kill().await;
        let notes = notes(finish(cluster.resume(&path, &recipe)).await.0);
        // The checkpoint is after step 2 or 4, each of 4 prompts.
        let said = notes.iter().find(|note| note.contains("were being sampled at the checkpoint"));
        let said = said.unwrap_or_else(|| panic!("{notes:?}"));
        assert!(said.starts_with("prompts 8 to ") || said.starts_with("prompts 16 to "), "{said}");
        assert_eq!(lines(&path), uninterrupted(&recipe).await);
    })
    .await;
}

fn notes(events: Vec<Arc<Event>>) -> Vec<String> {
    let note = |event: &Arc<Event>| match &**event {
        Event::Note { message } => Some(message.clone()),
        _ => None,
    };
    events.iter().filter_map(note).collect()
}
