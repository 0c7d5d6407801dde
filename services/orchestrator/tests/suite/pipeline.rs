//! Sampling ahead of training: which weights sample which step, and that nothing else decides it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::generation::Fate;
use crate::support::{
    Cluster, GENERATION, LEARNER, bounded, finish, kill_and_resume, lines, metrics, recipe, resolved, temp,
    uninterrupted, until,
};
use evenkeel_orchestrator::{Event, LoopSettings, RunError, RunOptions, RunOutcome, StopWhen, start_run};
use evenkeel_proto::{GroupId, Purpose, SampleId};
use evenkeel_run::RunDirectory;
use evenkeel_run::metric::table::may_differ;

fn lagging(max_lag: u32) -> LoopSettings {
    let mut recipe = recipe();
    recipe.pipeline.max_lag = max_lag;
    recipe.run.steps = 8;
    recipe
}

/// Every sample of every step that the learner was sent is of the weights of so many steps before it, and not of
/// earlier ones than those that the run began with.
fn assert_versions(cluster: &Cluster, recipe: &LoopSettings, origin: u64) {
    let groups = cluster.learner.state.groups.lock().unwrap();
    let steps: Vec<u64> = groups.keys().copied().collect();
    assert_eq!(steps, (origin + 1..=recipe.run.steps).collect::<Vec<_>>());
    for (&step, groups) in groups.iter() {
        let weights = (step - 1).saturating_sub(recipe.pipeline.max_lag.into()).max(origin);
        let segments = groups.iter().flat_map(|group| &group.samples).flat_map(|sample| &sample.segments);
        let versions: BTreeSet<_> = segments.map(|segment| segment.policy_version).collect();
        assert_eq!(versions, BTreeSet::from([Some(recipe.warm_start.steps + weights)]), "step {step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_groups_of_a_step_are_sampled_by_the_weights_of_so_many_steps_before_it() {
    bounded(async {
        let mut all = Vec::new();
        for max_lag in [0, 1, 2, 16] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let recipe = lagging(max_lag);
            assert_eq!(cluster.run(&path, &recipe).await.1.unwrap().0, RunOutcome::Completed);
            assert_versions(&cluster, &recipe, 0);
            let lags: Vec<_> = metrics(&path).iter().map(|line| line.get("pipeline/lag")).collect();
            let expected = |step: u64| (max_lag > 0).then(|| step.min(max_lag.into()) as f64);
            assert_eq!(lags, (0..8).map(expected).collect::<Vec<_>>());
            let here = lines(&path);
            assert_eq!(here, uninterrupted(&recipe).await, "the same again, in another order of completion");
            all.push(here);
        }
        assert!(all[0] != all[1] && all[1] != all[2] && all[2] != all[3]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_are_sampled_while_earlier_ones_are_trained_and_never_farther_ahead() {
    bounded(async {
        for max_lag in [1, 2] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let recipe = lagging(max_lag);
            let seen = Arc::clone(&cluster.generation.state);
            let steps = recipe.run.steps;
            let newest = move || {
                let seen = seen.seen.lock().unwrap();
                let ids = seen.iter().map(|item| item.group_id.parse::<GroupId>().unwrap());
                ids.filter(|id| id.purpose == Purpose::Train).map(|id| id.step).max().unwrap_or(0)
            };
            // No step is ever done that is not the last to begin before its successors are sampled: without overlap
            // this would never end.
            let farthest = newest.clone();
            *cluster.learner.state.holds.lock().unwrap() =
                Some(Box::new(move |step| newest() < (step + u64::from(max_lag)).min(steps)));
            let handle = cluster.begin(&path, &recipe);
            let progress = handle.progress();
            let running = tokio::spawn(finish(handle));
            while !running.is_finished() {
                // What is sampled is looked at first: the learner may have gone on since.
                let sampled = farthest();
                let done = cluster.learner.state.groups.lock().unwrap().len() as u64;
                assert!(sampled <= done + 1 + u64::from(max_lag), "step {sampled} is sampled, {done} are done");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            running.await.unwrap().1.unwrap();
            assert_eq!(progress.borrow().step, steps);
            assert_eq!(lines(&path), uninterrupted(&recipe).await);
        }
    })
    .await;
}

/// A run in which a sample of each step waits until one of later weights has come, of the next step or of the
/// evaluation before it, and with `loses` is lost then. Where the engines had to be moved back to its weights for
/// another sample, later ones wait for it, so that it waits for none.
async fn with_stragglers(recipe: &LoopSettings, loses: bool) -> Vec<String> {
    let (_dir, path) = temp();
    let cluster = Cluster::start().await;
    let state = Arc::downgrade(&cluster.generation.state);
    let last = recipe.run.steps;
    let lag = u64::from(recipe.pipeline.max_lag);
    let next_is_seen = move |sample: &SampleId| {
        let state = state.upgrade().unwrap();
        let seen = state.seen.lock().unwrap();
        let step = sample.group.step;
        let is_next = |group: GroupId| match group.purpose {
            Purpose::Train => group.step == step + 1,
            Purpose::Eval => group.step + lag == step,
        };
        let moves = state.moves.lock().unwrap();
        let came_back = |version: Option<u64>| version.is_some_and(|version| moves.get(&version) > Some(&1));
        seen.iter().any(|item| {
            is_next(item.group_id.parse().unwrap())
                || item.sample_id == sample.to_string() && came_back(item.policy_version)
        })
    };
    *cluster.generation.state.fates.lock().unwrap() = Some(Box::new(move |id, attempt| {
        let id: SampleId = id.parse().unwrap();
        let straggles = id.group.purpose == Purpose::Train && id.group.step < last && id.sample == 1;
        match straggles && attempt == 1 && id.group.prompt % 4 == 2 {
            true if !next_is_seen(&id) => Fate::Waits,
            true if loses => Fate::Lost,
            _ => Fate::Answered,
        }
    }));
    assert_eq!(cluster.run(&path, recipe).await.1.unwrap().0, RunOutcome::Completed);
    assert_versions(&cluster, recipe, 0);
    lines(&path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_switch_once_the_last_sample_of_a_step_has_started() {
    bounded(async {
        for max_lag in [1, 2] {
            let mut recipe = lagging(max_lag);
            recipe.evaluation.before = false;
            recipe.evaluation.after = false;
            // A step that waited for its last sample would wait for the next step, for ever.
            assert_eq!(with_stragglers(&recipe, false).await, uninterrupted(&recipe).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_loses_its_engine_after_the_switch_still_gets_its_weights() {
    bounded(async {
        for max_lag in [1, 2] {
            let mut recipe = lagging(max_lag);
            recipe.evaluation.every = 2;
            assert_eq!(with_stragglers(&recipe, true).await, uninterrupted(&recipe).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_and_resumed_it_is_the_same_run() {
    bounded(async {
        for (seed, max_lag) in [(0, 1), (1, 2), (2, 2), (3, 3)] {
            let mut recipe = lagging(max_lag);
            recipe.evaluation.every = 2;
            assert_versions(&kill_and_resume(&recipe, seed % 2 == 1, seed).await, &recipe, 0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamic_sampling_replays_with_a_lag_too() {
    bounded(async {
        let mut recipe = lagging(2);
        recipe.sampling.dynamic = true;
        assert_versions(&kill_and_resume(&recipe, true, 21).await, &recipe, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_and_a_generation_service_that_die_change_nothing() {
    bounded(async {
        let recipe = lagging(2);
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        let losses = [(1, LEARNER), (3, GENERATION), (4, LEARNER), (5, GENERATION)];
        cluster.run_with_losses(&path, &recipe, &losses).await;
        assert_versions(&cluster, &recipe, 0);
        assert_eq!(lines(&path), uninterrupted(&recipe).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_after_the_step_and_what_was_sampled_ahead_is_drawn_again() {
    bounded(async {
        let recipe = lagging(2);
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let handle = cluster.begin(&path, &recipe);
        let progress = handle.progress();
        until(|| progress.borrow().step >= 2).await;
        handle.stop(StopWhen::AfterStep);
        let (events, result) = finish(handle).await;
        let (outcome, summary) = result.unwrap();
        assert_eq!(outcome, RunOutcome::Stopped);
        assert!((2..8).contains(&summary.steps));
        let last = events.iter().rev().find_map(|event| match &**event {
            Event::Checkpoint { step, .. } => Some(*step),
            _ => None,
        });
        assert_eq!(last, Some(summary.steps));
        assert_eq!(finish(cluster.resume(&path, &recipe)).await.1.unwrap().0, RunOutcome::Completed);
        assert!(cluster.learner.state.done.lock().unwrap().values().all(|times| *times == 1));
        assert_eq!(lines(&path), uninterrupted(&recipe).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evaluations_are_of_the_weights_of_their_step_and_the_best_checkpoint_waits_for_its_own() {
    bounded(async {
        for keep_best in ["", "val-core/arithmetic/acc/mean@1"] {
            let mut recipe = lagging(2);
            recipe.evaluation.every = 1;
            recipe.checkpoint.keep_best = keep_best.into();
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let (events, result) = cluster.run(&path, &recipe).await;
            result.unwrap();
            for item in cluster.generation.state.seen.lock().unwrap().iter() {
                let id: SampleId = item.sample_id.parse().unwrap();
                if id.group.purpose == Purpose::Eval {
                    assert_eq!(item.policy_version, Some(recipe.warm_start.steps + id.group.step));
                }
            }
            // The line of an evaluation comes before the checkpoint that it decides about.
            let mut evaluated = BTreeSet::new();
            let mut late = 0;
            for event in &events {
                match &**event {
                    Event::Line(line) if line.kind == evenkeel_proto::v1::StepKind::Evaluation => {
                        evaluated.insert(line.step);
                    }
                    Event::Checkpoint { step, .. } => late += usize::from(!evaluated.contains(step)),
                    _ => {}
                }
            }
            assert_eq!(evaluated, (0..=8).collect());
            if !keep_best.is_empty() {
                assert_eq!(late, 0);
                assert!(path.join("best.json").exists());
            }
            assert_eq!(lines(&path), uninterrupted(&recipe).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_weights_that_a_checkpoint_needs_stay_with_it() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = lagging(2);
        recipe.checkpoint.every = 4;
        cluster.run(&path, &recipe).await.1.unwrap();
        let kept = cluster.learner.state.kept_besides.lock().unwrap().clone();
        let versions = |kept: &[u64]| kept.iter().map(|version| version - 2).collect::<Vec<_>>();
        let kept: Vec<_> = kept.iter().filter(|(what, _)| *what == "weights").map(|(_, kept)| versions(kept)).collect();
        // Those that the process began with, for the proof; of the checkpoint after step 4; and the two before the ones
        // that were just published.
        for expected in [vec![0, 2, 3], vec![0, 2, 3, 4], vec![0, 2, 3, 4, 5], vec![0, 2, 3, 5, 6], vec![0, 2, 3, 6, 7]]
        {
            assert!(kept.contains(&expected), "{expected:?} is not among {kept:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_that_are_gone_are_named_and_the_run_goes_on_once_they_are_back() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let recipe = lagging(2);
        let handle = cluster.begin(&path, &recipe);
        let progress = handle.progress();
        until(|| progress.borrow().step >= 3).await;
        handle.stop(StopWhen::AfterStep);
        let step = finish(handle).await.1.unwrap().1.steps;
        let version = step - 2 + 2;
        cluster.generation.state.gone.lock().unwrap().insert(version);
        let error = finish(cluster.resume(&path, &recipe)).await.1.unwrap_err();
        assert!(matches!(&error, RunError::WeightsGone { version: found, .. } if *found == version), "{error}");
        let error = error.to_string();
        for words in [&format!("/nowhere/weights/step-{version}"), "pipeline.max_lag", "put its folder back"] {
            assert!(error.contains(words), "{error}");
        }
        cluster.generation.state.gone.lock().unwrap().clear();
        finish(cluster.resume(&path, &recipe)).await.1.unwrap();
        assert_eq!(lines(&path), uninterrupted(&recipe).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_begins_without_a_lag() {
    bounded(async {
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        let recipe = lagging(2);
        cluster.run(&path, &recipe).await.1.unwrap();
        cluster.learner.state.groups.lock().unwrap().clear();
        let mut forked = lagging(1);
        forked.run.name = "fork".into();
        let resolved = resolved(&forked);
        let to = dir.path().join("fork");
        let directory = RunDirectory::fork(&to, resolved.record(), &path, 4).unwrap();
        let handle = start_run(resolved, directory, cluster.endpoints(), RunOptions::default()).unwrap();
        assert_eq!(finish(handle).await.1.unwrap().0, RunOutcome::Completed);
        assert_versions(&cluster, &forked, 4);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampling_does_not_wait_for_weights_while_the_engines_evaluate() {
    const EVALUATION: Duration = Duration::from_millis(300);
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = lagging(1);
        (recipe.run.steps, recipe.evaluation.every) = (4, 1);
        let begun = Mutex::new(BTreeMap::<u64, Instant>::new());
        *cluster.generation.state.fates.lock().unwrap() = Some(Box::new(move |id, _| {
            let id: SampleId = id.parse().unwrap();
            let evaluates = id.group.purpose == Purpose::Eval;
            let since = || begun.lock().unwrap().entry(id.group.step).or_insert_with(Instant::now).elapsed();
            if evaluates && since() < EVALUATION { Fate::Waits } else { Fate::Answered }
        }));
        let began = Instant::now();
        cluster.run(&path, &recipe).await.1.unwrap();
        assert!(began.elapsed() > 4 * EVALUATION, "each step was evaluated");
        let waited: f64 = metrics(&path).iter().filter_map(|line| line.get("pipeline/sampling_waited_s")).sum();
        assert!(waited < EVALUATION.as_secs_f64(), "{waited} s");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_step_says_what_it_waited_for_and_the_end_says_what_to_change() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let recipe = lagging(1);
        cluster.generation.state.max_delay_ms.store(60, Ordering::Relaxed);
        let (events, result) = cluster.run(&path, &recipe).await;
        result.unwrap();
        for line in metrics(&path) {
            for name in ["pipeline/learner_waited_s", "pipeline/sampling_waited_s"] {
                assert!(line.get(name).unwrap() >= 0.0 && may_differ(name), "{name}");
            }
        }
        let said = events.iter().rev().find_map(|event| match &**event {
            Event::Note { message } => Some(message.clone()),
            _ => None,
        });
        let said = said.unwrap();
        assert!(["bound:", "balanced:", "length:"].iter().any(|words| said.contains(words)), "{said}");
        assert!(!may_differ("pipeline/lag"));
    })
    .await;
}
