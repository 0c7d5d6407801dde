//! Services that disappear, full disks, and what is refused before anything starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_proto::v1::FailureCode;

use crate::support::{
    Cluster, GENERATION, LEARNER, REWARD, bounded, finish, lines, recipe, resolved, temp, uninterrupted,
};
use evenkeel_orchestrator::{
    Dependency, Endpoints, Event, LoopSettings, ProgramWording, ResolvedRecipe, RunError, RunOptions, RunOutcome,
    StopWhen, start_run,
};
use evenkeel_run::RunDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generation_and_reward_may_die_and_come_back() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        cluster.generation.state.max_delay_ms.store(30, Ordering::Relaxed);
        let handle = cluster.begin(&path, &recipe());
        let progress = handle.progress();
        let following = tokio::spawn(finish(handle));
        for (step, service) in [(1, GENERATION), (2, REWARD), (3, GENERATION)] {
            crate::support::until(|| progress.borrow().step >= step).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            cluster.down(service).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            cluster.up(service).await;
        }
        let (events, result) = following.await.unwrap();
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        assert!(events.iter().any(|event| matches!(&**event, Event::Waiting { .. })));
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_lost_engines_behind_a_reachable_service() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let gone = Arc::new(AtomicBool::new(true));
        let is_gone = Arc::clone(&gone);
        let script = move |id: &str, _| {
            (id.starts_with("train/3/") && is_gone.load(Ordering::Relaxed)).then_some(FailureCode::Unavailable)
        };
        *cluster.generation.state.script.lock().unwrap() = Some(Box::new(script));
        let mut handle = cluster.begin(&path, &recipe());
        loop {
            let event = handle.next_event().await.unwrap();
            if let Event::Waiting { service: Dependency::Generation, message, .. } = &*event {
                assert_eq!(message, "SCRIPTED: as scripted");
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        gone.store(false, Ordering::Relaxed);
        finish(handle).await.1.unwrap();
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_the_learner_dropped_while_samples_were_late_is_sent_again_whole() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        // Samples take long enough that the step has begun and is not whole when it is dropped.
        cluster.generation.state.max_delay_ms.store(30, Ordering::Relaxed);
        cluster.learner.state.idle_at.lock().unwrap().extend([2, 3]);
        let handle = cluster.begin(&path, &recipe());
        let (events, result) = finish(handle).await;
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        let state = &cluster.learner.state;
        for step in [2, 3] {
            assert_eq!(state.sent.lock().unwrap()[&step], 2, "step {step}");
        }
        assert!(state.done.lock().unwrap().values().all(|&times| times == 1), "no step was done twice");
        let lost = |event: &Event| matches!(event, Event::Waiting { service: Dependency::Learner, .. });
        assert!(!events.iter().any(|event| lost(event)), "the learner was there all the time");
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_stays_away_ends_the_run_by_its_name() {
    bounded(async {
        for (service, name) in [(GENERATION, "generation"), (REWARD, "reward"), (LEARNER, "learner")] {
            let (_dir, path) = temp();
            let mut cluster = Cluster::start().await;
            let mut recipe = recipe();
            recipe.services.outage_timeout = Duration::from_millis(300);
            let handle = cluster.begin(&path, &recipe);
            let progress = handle.progress();
            let following = tokio::spawn(finish(handle));
            crate::support::until(|| progress.borrow().step >= 2).await;
            cluster.down(service).await;
            let (events, result) = following.await.unwrap();
            let error = result.unwrap_err();
            assert!(
                matches!(&error, RunError::ServiceLost { service, .. } if service.label() == name),
                "{name}: {error}"
            );
            assert!(
                events
                    .iter()
                    .any(|event| matches!(&**event, Event::Waiting { service, .. } if service.label() == name))
            );
            // Nothing is lost.
            recipe.services.outage_timeout = Duration::from_secs(20);
            cluster.up(service).await;
            finish(cluster.resume(&path, &recipe)).await.1.unwrap();
            // Of the warm start, the steps, the evaluations and the prompts of each step.
            assert_eq!(lines(&path).len(), 2 + 6 + 2 + 6);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_may_begin_before_its_services_and_a_stop_ends_its_waiting() {
    bounded(async {
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        for service in [GENERATION, REWARD, LEARNER] {
            cluster.down(service).await;
        }
        let mut handle = cluster.begin(&path, &recipe());
        loop {
            if let Event::Waiting { service: Dependency::Learner, message, gives_up_in_ms, .. } =
                &*handle.next_event().await.unwrap()
            {
                assert!(!message.is_empty() && *gives_up_in_ms > 0);
                break;
            }
        }
        handle.stop(StopWhen::AfterStep);
        assert_eq!(finish(handle).await.1.unwrap().0, RunOutcome::Stopped);
        let handle = cluster.resume(&path, &recipe());
        for service in [LEARNER, GENERATION, REWARD] {
            tokio::time::sleep(Duration::from_millis(30)).await;
            cluster.up(service).await;
        }
        finish(handle).await.1.unwrap();
        assert_eq!(lines(&path), uninterrupted(&recipe()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_learner_is_waited_for() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.learner.state.disk_full.store(3, Ordering::SeqCst);
        let (events, result) = cluster.run(&path, &recipe()).await;
        result.unwrap();
        let message = events.iter().find_map(|event| match &**event {
            Event::Waiting { message, .. } => Some(message.clone()),
            _ => None,
        });
        assert!(message.unwrap().contains("no space left"));
        assert!(events.iter().any(|event| matches!(&**event, Event::Recovered { service: Dependency::Learner, .. })));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_of_the_learner_that_does_not_hold_what_the_run_keeps_ends_it_before_its_first_step() {
    bounded(async {
        let mut recipe = recipe();
        (recipe.checkpoint.every, recipe.checkpoint.keep, recipe.checkpoint.keep_weights) = (1, 2, 3);
        for (room, refusal) in [
            ((2, 4), Some("the disk has room for (2, 4), needed: (3, 4)")),
            ((3, 3), Some("the disk has room for (3, 3), needed: (3, 4)")),
            ((3, 4), None),
        ] {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            *cluster.learner.state.room.lock().unwrap() = Some(room);
            let result = cluster.run(&path, &recipe).await.1;
            match refusal {
                Some(words) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains(words), "{error}");
                    assert_eq!(*cluster.learner.state.sent.lock().unwrap(), Default::default(), "no step was sent");
                }
                None => assert_eq!(result.unwrap().0, RunOutcome::Completed),
            }
            let writes = cluster.learner.state.writes.lock().unwrap();
            assert_eq!(writes[0].run_directory, path.display().to_string());
            assert!(writes[0].rollouts > 0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_directory_without_room_for_the_rollouts_ends_the_run_before_its_first_step() {
    bounded(async {
        let mut recipe = recipe();
        (recipe.run.steps, recipe.run.rollouts_disk) = (1 << 50, ByteSize::b(1 << 60));
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let error = cluster.run(&path, &recipe).await.1.unwrap_err().to_string();
        assert!(error.contains(&format!("the disk of {} has ", path.display())), "{error}");
        assert!(error.contains(" for rollouts; to reduce that, lower run.rollouts_disk"), "{error}");
        assert_eq!(*cluster.learner.state.sent.lock().unwrap(), Default::default(), "no step was sent");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_learner_keeps_as_much_as_the_recipe_says() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = recipe();
        (recipe.checkpoint.keep, recipe.checkpoint.keep_weights) = (0, 3);
        cluster.run(&path, &recipe).await.1.unwrap();
        let kept = cluster.learner.state.kept.lock().unwrap().clone();
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [(None, Some(3)), (Some(0), None)]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_that_do_not_go_together_are_refused() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let directory = RunDirectory::create(&path, resolved(&recipe()).record()).unwrap();
        let recipe_of_mine =
            ResolvedRecipe { learner_settings_hash: Some("sha256:mine".into()), ..resolved(&recipe()) };
        let handle = start_run(recipe_of_mine, directory, cluster.endpoints(), RunOptions::default()).unwrap();
        let error = finish(handle).await.1.unwrap_err().to_string();
        assert!(error.contains("the learner uses settings sha256:settings, the recipe has sha256:mine"), "{error}");

        // A learner that holds another run's weights is not taken for a new one.
        let (_dir, first) = temp();
        cluster.run(&first, &recipe()).await.1.unwrap();
        let _dir2 = tempfile::tempdir().unwrap();
        let second = tempfile::tempdir().unwrap();
        let error = cluster.run(&second.path().join("other"), &recipe()).await.1.unwrap_err().to_string();
        assert!(error.contains("of run `run`, restart it for `other`"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_the_reward_service_cannot_judge_are_refused() {
    bounded(async {
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        let rows = dir.path().join("rows.jsonl");
        let mut recipe = recipe();
        recipe.warm_start.steps = 0;
        recipe.evaluation.problems = 0;
        recipe.data.files = vec![rows.clone()];
        recipe.data.program_prompt = ProgramWording::Plain;
        std::fs::write(&rows, r#"{"prompt": "a", "public_test_cases": [{"input": "1", "output": "2"}]}"#).unwrap();
        let error = cluster.run(&path.join("code"), &recipe).await.1.unwrap_err().to_string();
        assert!(error.contains("the data has code tasks, which the reward service at"), "{error}");
        std::fs::write(&rows, r#"{"prompt": "a", "custom": {"endpoint": "judge"}}"#).unwrap();
        let error = cluster.refused(&path.join("custom"), &recipe);
        assert!(error.contains("`custom.endpoint` is `judge`, allowed: math, code"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_starts() {
    type Change = dyn Fn(&mut LoopSettings, &mut Endpoints);
    let endpoints = || Endpoints {
        environment: Vec::new(),
        described: Default::default(),
        generation: "http://a:1".into(),
        reward: vec!["http://b:1".into()],
        learner: "http://c:1".into(),
        verifiers: Default::default(),
    };
    let refused = |change: &Change| {
        let (_dir, path) = temp();
        let mut recipe = recipe();
        let mut endpoints = endpoints();
        change(&mut recipe, &mut endpoints);
        let recipe = resolved(&recipe);
        let directory = RunDirectory::create(&path, recipe.record()).unwrap();
        start_run(recipe, directory, endpoints, RunOptions::default()).err().unwrap().to_string()
    };
    let cases: [(&Change, &str); 5] = [
        (&|recipe, _| recipe.sampling.group_size = 0, "sampling.group_size is 0, allowed: at least 1"),
        (&|_, endpoints| endpoints.learner = "learner".into(), "endpoints.learner is \"learner\", allowed"),
        (&|_, endpoints| endpoints.reward.clear(), "endpoints.reward"),
        (
            &|recipe, _| recipe.sampling.max_tokens = 123,
            "prompt `10+10` has 7 tokens, allowed: at most 5, what an answer of 123 tokens (sampling.max_tokens",
        ),
        (&|recipe, _| recipe.evaluation.problems = 1_000_000, "evaluation.problems is 1000000, of "),
    ];
    for (change, words) in cases {
        let error = refused(change);
        assert!(error.starts_with(words), "{error}");
    }

    let (_dir, path) = temp();
    let recipe = ResolvedRecipe::new(recipe(), std::path::PathBuf::from("/nowhere")).unwrap();
    let directory = RunDirectory::create(&path, recipe.record()).unwrap();
    let error = start_run(recipe, directory, endpoints(), RunOptions::default()).err().unwrap().to_string();
    assert!(error.starts_with("model /nowhere: has no config.json, allowed"), "{error}");
}
