//! What becomes of samples that fail, verdicts that do not stand and groups that teach nothing.

use std::time::Duration;

use crate::support::{Cluster, bounded, finish, metrics, recipe, temp};
use evenkeel_orchestrator::{Dependency, Event, RunError};
use evenkeel_proto::v1::{FailureCode, InvalidReason};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamic_sampling_takes_the_next_prompts_in_data_order() {
    bounded(async {
        let mut recipe = recipe();
        recipe.run.steps = 3;
        (recipe.sampling.dynamic, recipe.sampling.max_prompts_per_step) = (true, 40);
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            // Every third prompt of the data order teaches nothing.
            let identical = |group: &str| group.rsplit('/').next().unwrap().parse::<u64>().unwrap().is_multiple_of(3);
            *cluster.generation.state.identical.lock().unwrap() = Some(Box::new(identical));
            cluster.run(&path, &recipe).await.1.unwrap();
            let groups = cluster.learner.state.groups.lock().unwrap();
            let ids =
                groups.values().map(|groups| groups.iter().map(|group| group.group_id.clone()).collect::<Vec<_>>());
            let lines = metrics(&path);
            for line in &lines {
                let get = |name: &str| line.get(&format!("training/{name}")).unwrap();
                let tried = get("prompts_tried");
                assert!(tried > 4.0 && get("filter_groups/dropped_groups") == tried - 4.0, "{line:?}");
            }
            for (line, ids) in lines.iter().zip(ids.clone()) {
                assert!(
                    ids.iter().all(|id| id.starts_with(&format!("train/{}/", line.step)) && ids.len() == 4),
                    "{ids:?}"
                );
                let mut sorted = ids.clone();
                sorted.sort_by_key(|id| id.rsplit('/').next().unwrap().parse::<u64>().unwrap());
                assert_eq!(ids, sorted);
            }
            seen.push(ids.collect::<Vec<_>>());
        }
        assert_eq!(seen[0], seen[1]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_without_signal_is_filled_up_at_the_bound() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        *cluster.generation.state.identical.lock().unwrap() = Some(Box::new(|_| true));
        let mut recipe = recipe();
        recipe.run.steps = 2;
        (recipe.sampling.dynamic, recipe.sampling.max_prompts_per_step) = (true, 6);
        cluster.run(&path, &recipe).await.1.unwrap();
        for line in metrics(&path) {
            assert_eq!(line.get("training/prompts_tried"), Some(6.0));
            assert_eq!(line.get("training/filter_groups/filled_up_groups"), Some(4.0));
        }
        let groups = cluster.learner.state.groups.lock().unwrap();
        assert_eq!(
            groups[&2].iter().map(|group| group.group_id.as_str()).collect::<Vec<_>>(),
            ["train/2/6", "train/2/7", "train/2/8", "train/2/9"]
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_that_does_not_stand_is_asked_for_again_and_never_is_a_wrong_answer() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let script = |id: &str, times: u32| match id {
            // Comes right at the last attempt.
            "train/2/4/0" if times < 3 => Some(InvalidReason::Internal),
            // Never comes right.
            "train/2/4/1" => Some(InvalidReason::Deadline),
            // Asking again cannot help.
            "train/2/5/2" => Some(InvalidReason::BadGold),
            _ => None,
        };
        *cluster.reward.state.script.lock().unwrap() = Some(Box::new(script));
        let mut recipe = recipe();
        recipe.services.max_late_share = 0.1;
        let (_, summary) = cluster.run(&path, &recipe).await.1.unwrap();
        assert_eq!(summary.invalid_samples, 2);
        let groups = cluster.learner.state.groups.lock().unwrap();
        let sample = |group: usize, sample: usize| groups[&2][group].samples[sample].clone();
        assert!(sample(0, 0).valid && sample(0, 0).raw_reward.is_some());
        for left_out in [sample(0, 1), sample(1, 2)] {
            assert!(!left_out.valid && left_out.raw_reward.is_none() && left_out.shaped_reward.is_none());
            assert!(!left_out.segments.is_empty(), "it keeps its place in the group");
        }
        let line = &metrics(&path)[1];
        assert_eq!(line.get("rollout/invalid_samples"), Some(2.0));
        assert_eq!(line.get("rollout/late_samples"), Some(1.0));
        assert_eq!(line.get("rollout/samples"), Some(16.0));
        let times = cluster.reward.state.times.lock().unwrap();
        assert_eq!(times["train/2/5/2"], 1);
        assert!(times["train/2/4/1"] >= 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_cannot_be_had_is_begun_again_and_then_left_out() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let script = |id: &str, times: u32| match id {
            "train/1/1/1" if times == 1 => Some(FailureCode::DeadlineExceeded),
            "train/1/1/2" => Some(FailureCode::Cancelled),
            _ => None,
        };
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
        cluster.run(&path, &recipe()).await.1.unwrap();
        let line = &metrics(&path)[0];
        assert_eq!(line.get("rollout/failed_samples"), Some(1.0));
        assert_eq!(line.get("rollout/begun_again"), Some(4.0));
        let groups = cluster.learner.state.groups.lock().unwrap();
        let samples = &groups[&1][1].samples;
        assert_eq!(samples.iter().map(|sample| sample.valid).collect::<Vec<_>>(), [true, true, false, true]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_whose_weights_are_never_there_is_left_out_after_its_attempts() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let script = |id: &str, _| (id == "train/1/1/2").then_some(FailureCode::FailedPrecondition);
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
        cluster.run(&path, &recipe()).await.1.unwrap();
        let line = &metrics(&path)[0];
        assert_eq!(line.get("rollout/failed_samples"), Some(1.0));
        let seen = cluster.generation.state.seen.lock().unwrap();
        let times = seen.iter().filter(|item| item.sample_id == "train/1/1/2").count();
        assert_eq!(times as u32, 1 + recipe().services.sample_attempts, "the first time they are restored for it");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_that_take_too_long_end_the_run_above_their_share_instead_of_being_dropped() {
    bounded(async {
        let late = |id: &str, _: u32| (id == "train/2/5/2").then_some(FailureCode::DeadlineExceeded);
        for allowed in [0.01, 0.1] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            *cluster.generation.state.script.lock().unwrap() = Some(Box::new(late));
            let mut recipe = recipe();
            recipe.services.max_late_share = allowed;
            let (_, result) = cluster.run(&path, &recipe).await;
            // One of 16 samples of the step.
            if allowed > 1.0 / 16.0 {
                result.unwrap();
                assert_eq!(metrics(&path)[1].get("rollout/late_samples"), Some(1.0));
                continue;
            }
            let error = result.unwrap_err();
            assert!(matches!(error, RunError::Late { late: 1, samples: 16, .. }), "{error}");
            let text = error.to_string();
            assert!(text.starts_with("step 2: 1 of 16 samples") && text.contains("services.max_late_share"), "{text}");
            assert_eq!(metrics(&path).len(), 1, "the step before stays");
            // The step that failed left the learner as it was, and is done again.
            *cluster.generation.state.script.lock().unwrap() = None;
            finish(cluster.resume(&path, &recipe)).await.1.unwrap();
            assert_eq!(crate::support::lines(&path), crate::support::uninterrupted(&recipe).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_was_late_before_it_was_lost_is_a_late_one() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let script = |id: &str, times: u32| match (id, times) {
            ("train/2/5/2", 1) => Some(FailureCode::DeadlineExceeded),
            ("train/2/5/2", _) => Some(FailureCode::Cancelled),
            _ => None,
        };
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
        let error = cluster.run(&path, &recipe()).await.1.unwrap_err();
        assert!(matches!(error, RunError::Late { late: 1, samples: 16, .. }), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_worker_that_is_full_for_ever_is_given_up() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        *cluster.reward.state.script.lock().unwrap() = Some(Box::new(|_, _| Some(InvalidReason::Overloaded)));
        let mut recipe = recipe();
        recipe.services.verify_deadline = Duration::from_millis(200);
        recipe.services.outage_timeout = Duration::from_secs(5);
        let error = cluster.run(&path, &recipe).await.1.unwrap_err().to_string();
        assert!(error.contains("the reward service") && error.contains("has finished none of them"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_go_out_with_a_deadline_for_the_engine_and_none_for_the_queue() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = recipe();
        (recipe.run.steps, recipe.services.rollout_deadline) = (1, Duration::from_secs(123));
        cluster.run(&path, &recipe).await.1.unwrap();
        for item in cluster.generation.state.seen.lock().unwrap().iter() {
            assert_eq!(item.engine_deadline_ms, Some(123_000));
            assert!(item.deadline_ms.is_none_or(|ms| ms > 1_000_000_000), "{:?}", item.deadline_ms);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_service_that_holds_samples_and_ends_none_is_given_up() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.generation.state.max_delay_ms.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
        let mut recipe = recipe();
        recipe.services.rollout_deadline = Duration::from_millis(100);
        recipe.services.outage_timeout = Duration::from_secs(5);
        let error = cluster.run(&path, &recipe).await.1.unwrap_err().to_string();
        assert!(error.contains("the generation service") && error.contains("has finished none of them"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_is_refused_ends_the_run_by_its_id() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let script = |id: &str, _| (id == "train/3/8/3").then_some(FailureCode::InvalidArgument);
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
        let (events, result) = cluster.run(&path, &recipe()).await;
        let error = result.unwrap_err();
        assert!(matches!(error, RunError::Refused { service: Dependency::Generation, .. }), "{error}");
        assert!(error.to_string().contains("sample `train/3/8/3`"), "{error}");
        assert!(matches!(&**events.last().unwrap(), Event::Failed { .. }));
        assert_eq!(metrics(&path).len(), 2, "finished steps stay");
        // The step that failed left the learner as it was, and is done again.
        *cluster.generation.state.script.lock().unwrap() = None;
        finish(cluster.resume(&path, &recipe())).await.1.unwrap();
        assert_eq!(crate::support::lines(&path), crate::support::uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_without_a_single_verdict_ends_the_run() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let script = |id: &str, _| id.starts_with("train/1/").then_some(InvalidReason::BadGold);
        *cluster.reward.state.script.lock().unwrap() = Some(Box::new(script));
        let error = cluster.run(&path, &recipe()).await.1.unwrap_err().to_string();
        assert!(error.contains("step 1") && error.contains("bad_gold: as scripted"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_that_cannot_be_generated_count_for_the_invalid_share_and_the_batch_is_never_trained_on() {
    bounded(async {
        // Of four samples of each group one fails for good: more than a fifth.
        let script = |id: &str, _: u32| id.ends_with("/1").then_some(FailureCode::Internal);
        for (share, ends) in [(0.2, true), (0.25, false)] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
            let mut recipe = recipe();
            recipe.services.max_invalid_share = share;
            (recipe.evaluation.before, recipe.evaluation.after) = (false, false);
            let result = cluster.run(&path, &recipe).await.1;
            if !ends {
                assert!(result.is_ok(), "{:?}", result.err());
                continue;
            }
            let error = result.unwrap_err();
            assert!(
                matches!(error, RunError::Invalid { invalid: 0, failed, samples, .. } if 4 * failed == samples),
                "{error}"
            );
            let text = error.to_string();
            assert!(text.contains("could not be generated") && text.contains("as scripted"), "{text}");
            assert_eq!(metrics(&path).len(), 0, "no step is trained on the rest");
        }
    })
    .await;
}
