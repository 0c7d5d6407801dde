//! Steps in order of completion: nothing is dropped or trained on twice, nothing is older than the lag, and slow groups
//! are waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::generation::Fate;
use crate::support::{
    Cluster, GENERATION, LEARNER, bounded, finish, kill_until_it_comes_through, metrics, recipe, resolved, temp, until,
};
use evenkeel_orchestrator::{Event, LoopSettings, RunOptions, RunOutcome, StepOrder, StopWhen, start_run};
use evenkeel_proto::v1::TrainGroup;
use evenkeel_proto::{GroupId, Purpose};
use evenkeel_run::{RunDirectory, RunRecord};
use evenkeel_run_report::Audit;

fn by_completion(max_lag: u32) -> LoopSettings {
    let mut recipe = recipe();
    (recipe.pipeline.max_lag, recipe.pipeline.order) = (max_lag, StepOrder::Completion);
    recipe.run.steps = 8;
    recipe
}

fn number(id: &str) -> u64 {
    id.parse::<GroupId>().unwrap().prompt
}

/// The clean audit of a run, in which every prompt of the data order so far was trained on, filtered or invalid.
fn audited(path: &Path) -> Audit {
    let audit = evenkeel_run_report::audit(&RunRecord::read(path).unwrap()).unwrap();
    assert!(audit.is_clean(), "{:?}", audit.faults());
    assert!(!audit.sentence().contains("still being sampled"), "{}", audit.sentence());
    audit
}

/// The oldest version of a group.
fn oldest(group: &TrainGroup) -> u64 {
    let segments = group.samples.iter().flat_map(|sample| &sample.segments);
    segments.filter_map(|segment| segment.policy_version).min().unwrap()
}

/// What the learner got in the end: no token is older than the lag or newer than its step, and without dynamic sampling
/// the prompts are the first ones of the data order, each once.
fn assert_trained(cluster: &Cluster, recipe: &LoopSettings) {
    let groups = cluster.learner.state.groups.lock().unwrap();
    assert_eq!(groups.keys().copied().collect::<Vec<_>>(), (1..=recipe.run.steps).collect::<Vec<_>>());
    for (step, groups) in groups.iter() {
        let base = recipe.warm_start.steps + step - 1;
        let allowed = base.saturating_sub(recipe.pipeline.max_lag.into())..=base;
        let segments = groups.iter().flat_map(|group| &group.samples).flat_map(|sample| &sample.segments);
        let found: Vec<u64> = segments.filter_map(|segment| segment.policy_version).collect();
        assert!(found.iter().all(|version| allowed.contains(version)), "step {step}: {found:?}, allowed: {allowed:?}");
    }
    if !recipe.sampling.dynamic {
        let mut numbers: Vec<u64> = groups.values().flatten().map(|group| number(&group.group_id)).collect();
        numbers.sort_unstable();
        let prompts = recipe.run.steps * u64::from(recipe.sampling.prompts_per_step);
        assert_eq!(numbers, (0..prompts).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_dropped_or_trained_on_twice_however_often_the_run_is_killed() {
    bounded(async {
        for (seed, max_lag, dynamic) in [(0, 1, false), (1, 2, false), (2, 3, true), (3, 2, true), (4, 2, false)] {
            let mut recipe = by_completion(max_lag);
            (recipe.sampling.dynamic, recipe.evaluation.every) = (dynamic, 3);
            let (_dir, path) = temp();
            let mut cluster = Cluster::start().await;
            cluster.generation.state.max_delay_ms.store(30, Ordering::Relaxed);
            kill_until_it_comes_through(&mut cluster, &path, &recipe, seed % 2 == 1, seed).await;
            assert_trained(&cluster, &recipe);
            let sentence = audited(&path).sentence();
            assert!(sentence.contains("exactly once: 32 sent to the learner"), "{sentence}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_group_is_passed_by_and_waited_for_once_it_would_become_too_old() {
    bounded(async {
        for max_lag in [1, 2] {
            let recipe = by_completion(max_lag);
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let done = Arc::downgrade(&cluster.learner.state);
            *cluster.generation.state.fates.lock().unwrap() = Some(Box::new(move |id, _| {
                let Some(done) = done.upgrade() else { return Fate::Answered };
                // The first group of the data order ends only once no later step may take it.
                let is_slow = id.starts_with("train/1/0/");
                let steps = done.groups.lock().unwrap().len();
                if is_slow && steps < max_lag as usize { Fate::Waits } else { Fate::Answered }
            }));
            cluster.run(&path, &recipe).await.1.unwrap();
            assert_trained(&cluster, &recipe);
            let groups = cluster.learner.state.groups.lock().unwrap();
            let step_of = |prompt| {
                let has = |groups: &Vec<TrainGroup>| groups.iter().any(|group| number(&group.group_id) == prompt);
                groups.iter().find(|(_, groups)| has(groups)).map(|(step, _)| *step)
            };
            assert_eq!(step_of(0), Some(u64::from(max_lag) + 1), "the last step that may take it");
            let lines = metrics(&path);
            assert_eq!(lines[0].get("pipeline/completion/overtaken_groups"), Some(0.0));
            assert!(lines[max_lag as usize].get("pipeline/completion/overtaken_groups") >= Some(1.0));
            assert_eq!(lines[max_lag as usize].get("pipeline/lag"), Some(max_lag.into()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_switch_while_samples_are_in_flight_and_each_token_names_its_own() {
    bounded(async {
        let recipe = by_completion(2);
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let generation = Arc::downgrade(&cluster.generation.state);
        // Some samples end only once the engines have got other weights twice.
        *cluster.generation.state.fates.lock().unwrap() = Some(Box::new(move |id, _| {
            let Some(generation) = generation.upgrade() else { return Fate::Answered };
            let spans = id.starts_with("train/1/") && id.ends_with("/3") && number(&id[..id.len() - 2]) >= 8;
            if spans && generation.updates.load(Ordering::Relaxed) < 2 { Fate::Waits } else { Fate::Answered }
        }));
        cluster.run(&path, &recipe).await.1.unwrap();
        assert_trained(&cluster, &recipe);
        let groups = cluster.learner.state.groups.lock().unwrap();
        let samples = groups.values().flatten().flat_map(|group| &group.samples);
        let spanning: Vec<_> = samples.filter(|sample| sample.segments.len() == 2).collect();
        assert!(!spanning.is_empty());
        for sample in spanning {
            let versions: Vec<_> = sample.segments.iter().filter_map(|segment| segment.policy_version).collect();
            assert!(versions[0] < versions[1], "{versions:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_did_to_lengths_is_in_every_line_in_the_audit_and_in_the_report() {
    bounded(async {
        let recipe = by_completion(1);
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let done = Arc::downgrade(&cluster.learner.state);
        // Of every four prompts one has long answers, which end once the next step is trained.
        let is_long = |group: &str| number(group).is_multiple_of(4);
        *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(move |item| {
            let is_long = item.group_id.starts_with("train/") && is_long(&item.group_id);
            Some(format!("{}\\boxed{{1}}", ".".repeat(if is_long { 40 } else { 2 })))
        }));
        *cluster.generation.state.fates.lock().unwrap() = Some(Box::new(move |id, _| {
            let Some(done) = done.upgrade() else { return Fate::Answered };
            let group = id.rsplit_once('/').unwrap().0;
            if !group.starts_with("train/") || !is_long(group) {
                return Fate::Answered;
            }
            let begun = group.parse::<GroupId>().unwrap().step as usize - 1;
            let steps = done.groups.lock().unwrap().len();
            if steps <= begun && steps < 7 { Fate::Waits } else { Fate::Answered }
        }));
        let (events, result) = cluster.run(&path, &recipe).await;
        result.unwrap();
        let said = |words: &str| {
            events.iter().any(|event| matches!(&**event, Event::Note { message } if message.contains(words)))
        };
        assert!(said("does not replay") && said("in order of completion, steps took answers of"));
        for line in metrics(&path) {
            for name in ["proof/engines", "proof/tokens", "timing_s/proof", "pipeline/lag"] {
                assert!(line.get(name).is_some(), "step {} has no {name}", line.step);
            }
            for name in ["taken_length", "waiting_groups", "unfinished_answers", "overtaken_groups"] {
                assert!(line.get(&format!("pipeline/completion/{name}")).is_some(), "{name}: {line:?}");
            }
            assert_eq!(line.get("pipeline/completion/taken_length"), line.get("response_length/mean"));
        }
        let audit = audited(&path);
        let lengths = audit.overtaken().unwrap();
        assert!(lengths.left.mean > lengths.taken.mean, "{lengths:?}");
        let html = std::fs::read_to_string(path.join("report.html")).unwrap();
        assert!(html.contains("does not replay"), "the report says so");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_that_die_lose_no_prompt_and_no_sample_gets_outdated_weights() {
    bounded(async {
        let recipe = by_completion(2);
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        let losses = [(1, LEARNER), (3, GENERATION), (4, LEARNER), (5, GENERATION)];
        cluster.run_with_losses(&path, &recipe, &losses).await;
        assert_trained(&cluster, &recipe);
        audited(&path);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_has_the_prompts_that_wait_and_only_this_order_goes_on_from_it() {
    bounded(async {
        let recipe = by_completion(1);
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        let done = Arc::downgrade(&cluster.learner.state);
        *cluster.generation.state.fates.lock().unwrap() = Some(Box::new(move |id, _| {
            let steps = done.upgrade().map_or(1, |done| done.groups.lock().unwrap().len());
            if id.starts_with("train/1/0/") && steps < 1 { Fate::Waits } else { Fate::Answered }
        }));
        // The stop is requested while the learner has the first step, so that the run ends after it.
        let is_requested = Arc::new(AtomicBool::new(false));
        let requested = Arc::clone(&is_requested);
        *cluster.learner.state.holds.lock().unwrap() = Some(Box::new(move |_| !requested.load(Ordering::Relaxed)));
        let handle = cluster.begin(&path, &recipe);
        until(|| cluster.learner.state.sent.lock().unwrap().contains_key(&1)).await;
        handle.stop(StopWhen::AfterStep);
        is_requested.store(true, Ordering::Relaxed);
        let (outcome, summary) = finish(handle).await.1.unwrap();
        assert_eq!((outcome, summary.steps), (RunOutcome::Stopped, 1));
        let audit = evenkeel_run_report::audit(&RunRecord::read(&path).unwrap()).unwrap();
        assert!(audit.is_clean() && audit.sentence().contains("more are still being sampled"), "{}", audit.sentence());

        let mut other = recipe.clone();
        let to = dir.path().join("fork");
        (other.pipeline.order, other.run.name) = (StepOrder::Data, "fork".into());
        let other = resolved(&other);
        let directory = RunDirectory::fork(&to, other.record(), &path, 1).unwrap();
        let handle = start_run(other, directory, cluster.endpoints(), RunOptions::default()).unwrap();
        let error = finish(handle).await.1.unwrap_err().to_string();
        assert!(error.contains("prompt 0 is in no step yet") && error.contains("pipeline.order"), "{error}");

        assert_eq!(finish(cluster.resume(&path, &recipe)).await.1.unwrap().0, RunOutcome::Completed);
        assert_trained(&cluster, &recipe);
        audited(&path);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_started_in_data_order_and_no_more_than_a_step_for_each_step_of_the_lag_and_one() {
    bounded(async {
        let mut recipe = by_completion(2);
        recipe.evaluation.before = false;
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let seen = Arc::clone(&cluster.generation.state);
        // Prompts that are started, and their samples.
        let started = move || {
            let seen = seen.seen.lock().unwrap();
            let ids = seen.iter().map(|item| item.group_id.parse::<GroupId>().unwrap());
            let numbers: Vec<u64> = ids.filter(|id| id.purpose == Purpose::Train).map(|id| id.prompt).collect();
            (numbers.iter().copied().collect::<BTreeSet<u64>>().len(), numbers.len())
        };
        let farthest = started.clone();
        // The learner holds each step until the engines have everything that they may have.
        *cluster.learner.state.holds.lock().unwrap() =
            Some(Box::new(move |step| started().1 < 4 * ((step as usize + 2) * 4).min(32)));
        let running = tokio::spawn(finish(cluster.begin(&path, &recipe)));
        while !running.is_finished() {
            // What is started is looked at first: the learner may have gone on since.
            let (prompts, _) = farthest();
            let done = cluster.learner.state.groups.lock().unwrap().len();
            assert!(prompts <= (done + 3) * 4, "{prompts} prompts are started, {done} steps are done");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.await.unwrap().1.unwrap();
        assert_trained(&cluster, &recipe);
        let groups = cluster.learner.state.groups.lock().unwrap();
        let by_weights: BTreeMap<u64, u64> =
            groups.values().flatten().map(|group| (number(&group.group_id), oldest(group))).collect();
        assert!(by_weights.values().is_sorted(), "later prompts are begun by later weights: {by_weights:?}");
    })
    .await;
}
