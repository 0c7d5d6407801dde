//! The samples of training steps, as they are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use evenkeel_config::ByteSize;
use evenkeel_orchestrator::{Event, KeptRollouts, LoopSettings};
use evenkeel_proto::v1::{FailureCode, InvalidReason};
use evenkeel_run::{NotTrained, PromptOutcome, Rollout, list_rollouts, read_rollouts, rollout_file, thinned_rollouts};

use crate::support::{Cluster, LEARNER, bounded, finish, kill_until_it_comes_through, metrics, recipe, temp};

fn kept(path: &Path) -> BTreeMap<u64, Vec<Rollout>> {
    let steps = list_rollouts(path).unwrap().into_keys();
    steps.map(|step| (step, read_rollouts(path, step).unwrap())).collect()
}

fn three_steps() -> LoopSettings {
    let mut recipe = recipe();
    recipe.run.steps = 3;
    recipe
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sample_of_a_step_is_kept_with_what_the_learner_did_with_it() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = three_steps();
        recipe.run.rollout_tokens = true;
        cluster.run(&path, &recipe).await.1.unwrap();
        let kept = kept(&path);
        let sent = cluster.learner.state.groups.lock().unwrap();
        assert_eq!(kept.keys().copied().collect::<Vec<_>>(), [1, 2, 3], "steps count from 1");
        for (step, rollouts) in &kept {
            let samples: Vec<_> = sent[step].iter().flat_map(|group| &group.samples).collect();
            assert_eq!(rollouts.len(), samples.len());
            for (rollout, sample) in rollouts.iter().zip(samples) {
                assert_eq!(rollout.reward, sample.raw_reward);
                assert_eq!(rollout.not_trained.is_none(), rollout.advantage != Some(0.0), "{rollout:?}");
                assert_eq!(
                    (rollout.weight, rollout.log_probability.is_some()),
                    (Some(1.0 / 16.0), rollout.not_trained.is_none())
                );
                let ids: Vec<u32> = sample.segments.iter().flat_map(|segment| segment.token_ids.clone()).collect();
                assert_eq!(rollout.segments.iter().map(|part| part.tokens).sum::<u32>(), rollout.tokens);
                assert_eq!(rollout.segments.first().map(|part| part.version), Some(sample.segments[0].policy_version));
                let logp = rollout.token_log_probabilities.clone().unwrap();
                let mean = logp.iter().map(|logp| f64::from(logp.unwrap())).sum::<f64>() / logp.len() as f64;
                assert!((rollout.rollout_log_probability.unwrap() - mean).abs() < 1e-9);
                assert_eq!(rollout.token_ids.as_ref(), Some(&ids));
                assert!(!rollout.text.is_empty() && !rollout.prompt.is_empty() && !rollout.problem.is_empty());
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_that_were_not_trained_on_are_kept_with_the_reason() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        // Every third prompt of the data order teaches nothing.
        let identical = |group: &str| group.rsplit('/').next().unwrap().parse::<u64>().unwrap().is_multiple_of(3);
        *cluster.generation.state.identical.lock().unwrap() = Some(Box::new(identical));
        let fails = |id: &str, _| (id == "train/1/1/0").then_some(FailureCode::Cancelled);
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(fails));
        let judged = |id: &str, _| match id {
            "train/1/1/1" => Some(InvalidReason::Deadline),
            "train/1/2/2" => Some(InvalidReason::BadGold),
            _ => None,
        };
        *cluster.reward.state.script.lock().unwrap() = Some(Box::new(judged));
        let mut recipe = three_steps();
        (recipe.sampling.dynamic, recipe.sampling.max_prompts_per_step) = (true, 40);
        (recipe.services.max_late_share, recipe.services.max_invalid_share) = (0.5, 0.5);
        cluster.run(&path, &recipe).await.1.unwrap();
        let kept = kept(&path);
        for line in metrics(&path) {
            let tried = line.get("training/prompts_tried").unwrap() as usize;
            assert_eq!(kept[&line.step].len(), 4 * tried, "with those that were filtered");
        }
        let why = |group: u64, sample: u32| {
            let found = kept[&1].iter().find(|rollout| (rollout.group, rollout.sample) == (group, sample)).unwrap();
            (
                found.not_trained.as_ref().and_then(|why| why.known()),
                found.verdict.label().to_owned(),
                found.text.is_empty(),
            )
        };
        assert_eq!(why(1, 0), (Some(NotTrained::Failed), "failed".to_owned(), true));
        assert_eq!(why(1, 1), (Some(NotTrained::Late), "invalid".to_owned(), false));
        assert_eq!(why(2, 2), (Some(NotTrained::Invalid), "invalid".to_owned(), false));
        assert_eq!(why(0, 0).0, Some(NotTrained::Filtered));
        let filtered = kept[&1].iter().filter(|rollout| rollout.group == 0);
        assert!(filtered.clone().all(|rollout| rollout.advantage.is_none() && rollout.weight.is_none()));
        let outcome = |rollout: &Rollout| rollout.group_outcome.known();
        assert!(filtered.clone().all(|rollout| outcome(rollout) == Some(PromptOutcome::DroppedZeroAdvantage)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kills_and_resumes_each_step_is_there_once_as_if_nothing_had_happened() {
    bounded(async {
        let (_whole_dir, whole) = temp();
        Cluster::start().await.run(&whole, &recipe()).await.1.unwrap();
        let expected = kept(&whole);
        assert_eq!(expected.len(), 6);
        for (seed, with_learner) in [(0, false), (20, true)] {
            let (_dir, path) = temp();
            let mut cluster = Cluster::start().await;
            kill_until_it_comes_through(&mut cluster, &path, &recipe(), with_learner, seed).await;
            assert_eq!(kept(&path), expected);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_of_a_step_that_is_repeated_go_with_its_line() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        cluster.run_with_losses(&path, &recipe(), &[(3, LEARNER)]).await;
        let groups = |rollouts: &[Rollout]| rollouts.iter().map(|rollout| rollout.group).collect::<BTreeSet<_>>();
        let all: Vec<_> = kept(&path).values().flat_map(|rollouts| groups(rollouts)).collect();
        assert_eq!(all, (0..24).collect::<Vec<_>>(), "each group is in one step");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_groups_or_none_may_be_kept() {
    bounded(async {
        for (rollouts, expected) in [(KeptRollouts::Groups(1), 4), (KeptRollouts::Off, 0)] {
            let (_dir, path) = temp();
            let mut recipe = three_steps();
            recipe.run.rollouts = rollouts;
            let (events, result) = Cluster::start().await.run(&path, &recipe).await;
            result.unwrap();
            let kept = kept(&path);
            assert_eq!(kept.len(), if expected > 0 { 3 } else { 0 });
            for rollouts in kept.values() {
                let groups: BTreeSet<u64> = rollouts.iter().map(|rollout| rollout.group).collect();
                assert_eq!((rollouts.len(), groups.len()), (expected, 1));
            }
            let said = events.iter().filter(|event| {
                matches!(&***event, Event::Note { message } if message.contains("kept in rollouts/ in the run "))
            });
            assert_eq!(said.count(), usize::from(expected > 0), "the room is said before the run");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_bound_old_steps_are_thinned_out_and_the_run_goes_on() {
    bounded(async {
        let (_whole_dir, whole) = temp();
        let mut recipe = recipe();
        recipe.run.steps = 12;
        recipe.evaluation.every = 5;
        Cluster::start().await.run(&whole, &recipe).await.1.unwrap();
        let sizes = |path: &Path| -> u64 {
            list_rollouts(path).unwrap().values().map(|file| file.metadata().unwrap().len()).sum()
        };
        let (_dir, path) = temp();
        recipe.run.rollouts_disk = ByteSize::b(sizes(&whole) / 2);
        let (events, result) = Cluster::start().await.run(&path, &recipe).await;
        assert_eq!(result.unwrap().1.steps, 12);
        let left = kept(&path);
        let thinned = thinned_rollouts(&path).unwrap();
        assert!(sizes(&path) <= recipe.run.rollouts_disk.bytes() && !thinned.is_empty());
        assert!([5, 10, 12].iter().all(|step| left.contains_key(step)), "{:?}", left.keys());
        assert_eq!(left.keys().copied().chain(thinned).collect::<BTreeSet<_>>(), (1..=12).collect());
        let said = events.iter().filter(|event| {
            matches!(&***event, Event::Note { message } if message.contains("samples of old steps are thinned out"))
        });
        assert_eq!(said.count(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_that_a_run_did_not_write_are_noticed_when_it_is_resumed() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = three_steps();
        cluster.run(&path, &recipe).await.1.unwrap();
        let mut others = Vec::new();
        for copied in [false, true] {
            if copied {
                std::fs::copy(rollout_file(&path, 1), rollout_file(&path, 2)).unwrap();
            }
            recipe.run.steps += 1;
            let (events, result) = finish(cluster.resume(&path, &recipe)).await;
            result.unwrap();
            let warned = events.iter().filter_map(|event| match &**event {
                Event::Warning { message } if message.starts_with("rollouts/ has samples") => Some(message.clone()),
                _ => None,
            });
            others.push(warned.collect::<Vec<_>>());
        }
        assert!(others[0].is_empty() && others[1].len() == 1, "{others:?}");
        assert!(others[1][0].contains("that this run did not write, of step 2:"), "{others:?}");
    })
    .await;
}
