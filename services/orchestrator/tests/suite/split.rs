//! Steps that are sampled with two weights versions: the last groups with newer ones than the first.

use crate::support::rounds::{
    assert_stops_and_goes_on, assert_survives_losses, assert_survives_lost_engines, assert_versions, assert_whole,
    split,
};
use crate::support::{bounded, kill_and_resume, uninterrupted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_groups_of_a_step_are_sampled_by_the_weights_after_those_of_the_first() {
    bounded(async {
        let mut all = vec![assert_whole(&split(2, 0)).await];
        for (max_lag, later) in [(1, 1), (2, 1), (2, 3), (16, 2)] {
            let recipe = split(max_lag, later);
            let here = assert_whole(&recipe).await;
            assert_eq!(here, uninterrupted(&recipe).await, "the same again, in another order of completion");
            assert!(!all.contains(&here));
            all.push(here);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_run_that_is_killed_anywhere_and_resumed_is_the_same_run() {
    bounded(async {
        for (seed, max_lag, later) in [(0, 1, 2), (1, 2, 1), (2, 3, 3)] {
            let mut recipe = split(max_lag, later);
            recipe.evaluation.every = 2;
            assert_versions(&kill_and_resume(&recipe, seed % 2 == 1, seed).await, &recipe);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_in_place_of_filtered_ones_are_left_to_the_later_weights() {
    bounded(async {
        let mut recipe = split(2, 1);
        recipe.sampling.dynamic = true;
        assert_whole(&recipe).await;
        assert_versions(&kill_and_resume(&recipe, true, 21).await, &recipe);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_and_a_generation_service_that_die_change_nothing() {
    bounded(async {
        assert_survives_losses(&split(2, 2)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_are_lost_change_nothing() {
    bounded(async {
        assert_survives_lost_engines(&split(1, 2)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_a_stop_finds_half_sampled_gets_its_later_weights() {
    bounded(async {
        for keep_best in ["", "val-core/arithmetic/acc/mean@1"] {
            let mut recipe = split(3, 2);
            recipe.evaluation.every = 1;
            recipe.checkpoint.keep_best = keep_best.into();
            assert_stops_and_goes_on(&recipe).await;
        }
    })
    .await;
}
