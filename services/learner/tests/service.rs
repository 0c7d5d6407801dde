//! The gRPC service, over real loopback connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::time::Duration;

use candle_core::Device;
use evenkeel_config::ByteSize;
use evenkeel_learner::{Learner, LearnerSettings, PublishOptions, ServiceSettings, bind};
use evenkeel_model::Parameters;
use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LoadCheckpointRequest, PublishRequest, SaveCheckpointRequest, ScoreItem, ScoreRequest,
    Segment, SupervisedBatch, SupervisedExample, TrainEvent, TrainGroup, TrainHeader, TrainKind, TrainPhase,
    TrainReport, TrainRequest, TrainSample, load_checkpoint_request, score_request, train_event, train_request,
};
use evenkeel_rpc::server::{RunningServer, ServerSettings};
use support::{bits, config, group, learner, settings};
use tonic::transport::Channel;
use tonic::{Code, Status};

struct Served {
    _server: RunningServer,
    client: LearnerClient<Channel>,
    hash: String,
    folder: tempfile::TempDir,
}

fn training() -> LearnerSettings {
    settings()
}

async fn served() -> Served {
    served_with(training()).await
}

async fn served_with(training: LearnerSettings) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let model = learner(training.clone()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    started(folder, &model, training).await
}

async fn served_as(change: impl FnOnce(&mut ServiceSettings)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let model = learner(training()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    started_as(folder, &model, training(), change).await
}

async fn started(folder: tempfile::TempDir, model: &Path, training: LearnerSettings) -> Served {
    started_as(folder, model, training, |_| {}).await
}

async fn started_as(
    folder: tempfile::TempDir,
    model: &Path,
    training: LearnerSettings,
    change: impl FnOnce(&mut ServiceSettings),
) -> Served {
    let hash = training.hash();
    let mut settings = ServiceSettings {
        server: ServerSettings::on("127.0.0.1:0"),
        model: model.to_owned(),
        checkpoints: folder.path().join("checkpoints"),
        weights: folder.path().join("weights"),
        training,
        ..ServiceSettings::default()
    };
    change(&mut settings);
    let server = bind(settings).await.unwrap().spawn();
    let channel = Channel::from_shared(server.endpoint().to_owned()).unwrap().connect().await.unwrap();
    let client = LearnerClient::new(channel);
    Served { _server: server, client, hash, folder }
}

impl Served {
    fn header(&self, kind: TrainKind, step: u64, base_version: u64, count: u32) -> TrainHeader {
        let (groups, examples) = if kind == TrainKind::Grpo { (count, 0) } else { (0, count) };
        TrainHeader {
            run_id: "run".into(),
            step,
            base_version,
            expected_groups: groups,
            expected_examples: examples,
            settings_hash: self.hash.clone(),
            kind: kind.into(),
            traceparent: String::new(),
            seed: 0,
        }
    }

    async fn train(&mut self, header: TrainHeader, parts: Vec<train_request::Kind>) -> Result<Vec<TrainEvent>, Status> {
        let mut requests = vec![TrainRequest { kind: Some(train_request::Kind::Header(header)) }];
        requests.extend(parts.into_iter().map(|kind| TrainRequest { kind: Some(kind) }));
        let mut events = self.client.train(tokio_stream::iter(requests)).await?.into_inner();
        let mut all = Vec::new();
        while let Some(event) = events.message().await? {
            all.push(event);
        }
        Ok(all)
    }

    /// GRPO step number `step` on two groups that depend on it.
    async fn step(&mut self, step: u64, base_version: u64) -> Result<TrainReport, Status> {
        let header = self.header(TrainKind::Grpo, step, base_version, 2);
        let events = self.train(header, vec![message(2 * step, 0), message(2 * step + 1, 1)]).await?;
        Ok(report(&events))
    }

    async fn version(&mut self) -> u64 {
        self.client.get_status(LearnerGetStatusRequest {}).await.unwrap().into_inner().version
    }
}

fn report(events: &[TrainEvent]) -> TrainReport {
    match &events.last().unwrap().kind {
        Some(train_event::Kind::Report(report)) => report.clone(),
        other => panic!("no report but {other:?}"),
    }
}

/// The tests' own group as a message; what is masked there is injected here.
fn message(seed: u64, index: u32) -> train_request::Kind {
    let group = group(seed, 4);
    let samples = group.responses.iter().enumerate().map(|(number, response)| {
        let segments = response.tokens.iter().zip(&response.mask).zip(&response.rollout_logp);
        let segments = segments.map(|((&id, &mask), &logp)| match mask {
            true => Segment::sampled(vec![id], vec![logp], 0),
            false => Segment::injected(vec![id]),
        });
        TrainSample {
            sample_id: format!("{seed}/{number}"),
            segments: segments.collect(),
            raw_reward: Some(response.raw_reward),
            shaped_reward: Some(response.reward),
            valid: true,
            ..TrainSample::default()
        }
    });
    let samples = samples.collect();
    train_request::Kind::Group(TrainGroup { group_id: group.id, index, prompt_token_ids: group.prompt, samples })
}

#[tokio::test]
async fn a_step_through_the_door_is_the_library_s_to_the_bit() {
    let mut served = served().await;
    let found = served.step(0, 0).await.unwrap();
    served.step(1, 1).await.unwrap();
    let save = SaveCheckpointRequest {
        run_id: "run".into(),
        step: 2,
        version: Some(2),
        client_state: vec![7],
        ..SaveCheckpointRequest::default()
    };
    let saved = served.client.save_checkpoint(save).await.unwrap().into_inner().checkpoint.unwrap();

    let mut library = learner(training());
    let wanted = library.train([group(0, 4), group(1, 4)]).unwrap();
    library.train([group(2, 4), group(3, 4)]).unwrap();
    let mut restored = learner(training());
    restored.restore_checkpoint(Path::new(&saved.path)).unwrap();
    assert_eq!(bits(&restored), bits(&library));
    assert_eq!((found.loss, found.gradient_norm), (wanted.updates[0].loss, Some(wanted.updates[0].grad_norm)));
    assert_eq!((found.version, found.groups, found.samples, found.skipped), (1, 2, 8, false));
    for name in
        ["actor/pg_loss", "actor/pg_clipfrac", "actor/entropy", "aggregation/length_cv", "aggregation/pull_negative"]
    {
        assert!(found.metrics.contains_key(name), "{name} in {:?}", found.metrics);
    }
}

#[tokio::test]
async fn a_step_that_was_done_answers_with_its_report_and_does_not_step_twice() {
    let mut served = served().await;
    let first = served.step(0, 0).await.unwrap();
    let header = served.header(TrainKind::Grpo, 0, 0, 2);
    let again = served.train(header, Vec::new()).await.unwrap();
    assert!(matches!(&again[0].kind, Some(train_event::Kind::Accepted(accepted)) if accepted.already_done));
    assert_eq!((report(&again), served.version().await), (first, 1));
}

#[tokio::test]
async fn another_base_version_run_or_settings_is_a_failed_precondition() {
    let mut served = served().await;
    served.step(0, 0).await.unwrap();
    let good = served.header(TrainKind::Grpo, 1, 1, 2);
    for (header, word) in [
        (TrainHeader { base_version: 0, ..good.clone() }, "base_version is 0"),
        (TrainHeader { base_version: 2, ..good.clone() }, "base_version is 2"),
        (TrainHeader { run_id: "other".into(), ..good.clone() }, "run_id is `other`"),
        (TrainHeader { settings_hash: "sha256:0".into(), ..good.clone() }, "settings_hash is sha256:0"),
    ] {
        let error = served.train(header, Vec::new()).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert!(error.message().contains(word), "{error}");
    }
    assert_eq!(served.version().await, 1);
}

#[tokio::test]
async fn a_call_that_is_short_of_groups_or_refused_changes_nothing() {
    let mut served = served().await;
    let header = served.header(TrainKind::Grpo, 0, 0, 2);
    let short = served.train(header.clone(), vec![message(1, 0)]).await.unwrap_err();
    assert!(short.message().contains("number of groups is 1"), "{short}");
    let long = vec![message(1, 0), message(2, 1), message(3, 2)];
    assert!(served.train(header.clone(), long).await.unwrap_err().message().contains("number of groups is 3"));
    let out_of_order = served.train(header.clone(), vec![message(1, 1)]).await.unwrap_err();
    assert!(out_of_order.message().contains("group[0].index is 1"), "{out_of_order}");
    let mut bad = message(1, 0);
    if let train_request::Kind::Group(group) = &mut bad {
        group.prompt_token_ids[0] = 4000;
    }
    let refused = served.train(header, vec![bad]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("4000"), "{refused}");
    assert_eq!(served.version().await, 0);
    served.step(0, 0).await.unwrap();
}

#[tokio::test]
async fn the_batch_of_a_skipped_update_is_written_and_too_many_in_a_row_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let settings = LearnerSettings { max_skipped_updates: 2, ..training() };
    let mut values = learner(settings.clone()).parameters().values().to_vec();
    values[0] = (&values[0] * f64::NAN).unwrap();
    let parameters = Parameters::new(&config(), values, &Device::Cpu).unwrap();
    let poisoned = Learner::new(config(), parameters, settings.clone()).unwrap();
    let model = poisoned.publish(folder.path(), PublishOptions::default()).unwrap().path;
    let mut served = started(folder, &model, settings).await;

    let report = served.step(0, 0).await.unwrap();
    assert!(report.skipped && report.skip_reason.starts_with("non_finite"), "{report:?}");
    let path = served.folder.path().join("checkpoints/skipped/run-step-000000.jsonl");
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 2);
    let error = served.step(1, 1).await.unwrap_err();
    assert_eq!(error.code(), Code::DataLoss);
    assert!(error.message().contains("allowed: fewer than max_skipped_updates = 2"), "{}", error.message());
    assert!(served.folder.path().join("checkpoints/skipped/run-step-000001.jsonl").exists());

    let example =
        SupervisedExample { example_id: "e".into(), prompt_token_ids: vec![2, 3], response_token_ids: vec![4, 1] };
    let batch = train_request::Kind::Examples(SupervisedBatch { examples: vec![example] });
    let error = served.train(served.header(TrainKind::Supervised, 1, 1, 1), vec![batch]).await.unwrap_err();
    assert_eq!(error.code(), Code::DataLoss, "{error}");
    let path = served.folder.path().join("checkpoints/skipped/run-supervised-step-000001.jsonl");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "{\"prompt\":[2,3],\"response\":[4,1]}\n");
    assert_eq!(served.version().await, 1);
}

#[tokio::test]
async fn a_number_of_groups_that_mini_batches_do_not_divide_is_refused_before_any_group() {
    let mut served = served_with(LearnerSettings { mini_batch_groups: 2, ..training() }).await;
    let error = served.train(served.header(TrainKind::Grpo, 0, 0, 3), Vec::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let words = "expected_groups is 3, allowed: a multiple of mini_batch_groups = 2";
    assert!(error.message().contains(words), "{}", error.message());
    served.step(0, 0).await.unwrap();
}

#[tokio::test]
async fn progress_counts_groups_whose_gradient_is_summed_and_not_those_that_have_arrived() {
    let mut settings = LearnerSettings { mini_batch_groups: 2, ..training() };
    // No pass is worth it before the last group.
    settings.compute.micro_batch_tokens = 100_000;
    let mut served = served_with(settings).await;
    let groups = (0..4).map(|index| message(index.into(), index)).collect();
    let events = served.train(served.header(TrainKind::Grpo, 0, 0, 4), groups).await.unwrap();
    let progress = events.iter().filter_map(|event| match &event.kind {
        Some(train_event::Kind::Progress(progress)) => Some(progress),
        _ => None,
    });
    for at in progress.clone().filter(|at| at.phase() == TrainPhase::Receiving) {
        assert_eq!((at.accumulated, at.trainable_tokens, at.expected), (0, 0, 4), "{at:?}");
    }
    let progress: Vec<_> = progress.collect();
    assert!(progress.windows(2).all(|pair| pair[0].accumulated <= pair[1].accumulated), "{progress:?}");
    assert!(progress.iter().any(|at| at.phase() != TrainPhase::Receiving));
    assert_eq!(report(&events).groups, 4);
}

#[tokio::test]
async fn a_supervised_step_goes_through_the_same_call() {
    let mut served = served().await;
    let example =
        SupervisedExample { example_id: "e".into(), prompt_token_ids: vec![2, 3], response_token_ids: vec![4, 1] };
    let header = served.header(TrainKind::Supervised, 0, 0, 3);
    let batch = |count| train_request::Kind::Examples(SupervisedBatch { examples: vec![example.clone(); count] });
    let report = report(&served.train(header, vec![batch(2), batch(1)]).await.unwrap());
    assert_eq!((report.version, report.trainable_tokens, report.kind), (1, 6, TrainKind::Supervised as i32));
    assert!(report.loss > 0.0);
}

#[tokio::test]
async fn checkpoints_are_loaded_kept_in_number_and_refused_to_another_run() {
    let mut served = served().await;
    for step in 0..4 {
        served.step(step, step).await.unwrap();
        let client_state = format!("after {step}").into_bytes();
        let save = SaveCheckpointRequest {
            run_id: "run".into(),
            step: step + 1,
            client_state,
            keep: Some(2),
            ..SaveCheckpointRequest::default()
        };
        served.client.save_checkpoint(save).await.unwrap();
    }
    let kept = std::fs::read_dir(served.folder.path().join("checkpoints/run")).unwrap().count();
    assert_eq!(kept, 2);
    let load = |run_id: &str| LoadCheckpointRequest { run_id: run_id.into(), which: None, ..Default::default() };
    let loaded = served.client.load_checkpoint(load("run")).await.unwrap().into_inner();
    assert_eq!((loaded.client_state, loaded.checkpoint.unwrap().version), (b"after 3".to_vec(), 4));
    let error = served.client.load_checkpoint(load("other")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    // The newest is damaged: the previous one is loaded.
    std::fs::write(served.folder.path().join("checkpoints/run/step-000004/model.safetensors"), b"broken").unwrap();
    let loaded = served.client.load_checkpoint(load("run")).await.unwrap().into_inner();
    assert_eq!((loaded.client_state, served.version().await), (b"after 2".to_vec(), 3));
    // Training continues from there.
    assert_eq!(served.step(3, 3).await.unwrap().version, 4);
}

#[tokio::test]
async fn a_step_is_counted_and_timed_by_phase() {
    let metrics = evenkeel_telemetry::install_metrics().unwrap();
    let mut served = served().await;
    let timings = served.step(0, 0).await.unwrap().timings.unwrap();
    assert!(timings.gradient_us > 0 && timings.optimizer_us > 0, "{timings:?}");
    assert_eq!(timings.score_us, 0, "one update with recomputed log-probabilities needs no pass of its own");
    assert!(timings.total_us >= timings.gradient_us + timings.optimizer_us, "{timings:?}");
    let text = metrics.render();
    for metric in [
        r#"evenkeel_training_steps_total{kind="grpo",outcome="updated"}"#,
        r#"evenkeel_training_step_seconds_count{kind="grpo",phase="gradient"}"#,
        r#"evenkeel_training_step_seconds_count{kind="grpo",phase="total"}"#,
        r#"evenkeel_training_tokens_total{kind="grpo",tokens="trainable"}"#,
        r#"evenkeel_training_micro_batches_total{kind="grpo"}"#,
        "evenkeel_learner_version",
    ] {
        assert!(text.contains(metric), "{metric} is not in {text}");
    }
}

#[tokio::test]
async fn publishing_is_idempotent_by_version_and_bounded_in_number() {
    let mut served = served().await;
    for step in 0..3 {
        let publish =
            PublishRequest { run_id: "run".into(), version: Some(step), keep: Some(2), ..PublishRequest::default() };
        let first = served.client.publish(publish.clone()).await.unwrap().into_inner();
        let again = served.client.publish(publish).await.unwrap().into_inner();
        assert_eq!((first.already_published, again.already_published), (false, true));
        assert_eq!(first.weights, again.weights);
        first.weights.unwrap().validate().unwrap();
        served.step(step, step).await.unwrap();
    }
    let kept = std::fs::read_dir(served.folder.path().join("weights")).unwrap().count();
    assert_eq!(kept, 2);
    let stale = PublishRequest { run_id: "run".into(), version: Some(1), keep: None, ..PublishRequest::default() };
    assert_eq!(served.client.publish(stale).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn what_a_caller_names_stays_besides_the_newest() {
    let mut served = served().await;
    for step in 0..6 {
        let publish = PublishRequest { keep: Some(2), keep_versions: vec![1], ..PublishRequest::default() };
        served.client.publish(PublishRequest { run_id: "run".into(), version: Some(step), ..publish }).await.unwrap();
        let save = SaveCheckpointRequest { keep: Some(2), keep_steps: vec![1, 77], ..save("run", step) };
        served.client.save_checkpoint(save).await.unwrap();
        served.step(step, step).await.unwrap();
    }
    let kept = |part: &str| {
        let entries = std::fs::read_dir(served.folder.path().join(part)).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let number = |name: String| name.trim_start_matches("step-").parse::<u64>().unwrap();
        entries.map(|entry| number(name(entry))).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(kept("weights").into_iter().collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(kept("checkpoints/run").into_iter().collect::<Vec<_>>(), [1, 4, 5]);
}

#[tokio::test]
async fn a_caller_that_names_no_number_or_0_keeps_all() {
    let mut served = served().await;
    for step in 0..5 {
        let keep = if step % 2 == 0 { Some(0) } else { None };
        let publish = PublishRequest { run_id: "run".into(), version: Some(step), keep, ..PublishRequest::default() };
        served.client.publish(publish).await.unwrap();
        let save = SaveCheckpointRequest { run_id: "run".into(), step, keep, ..SaveCheckpointRequest::default() };
        served.client.save_checkpoint(save).await.unwrap();
        served.step(step, step).await.unwrap();
    }
    let kept = |part: &str| std::fs::read_dir(served.folder.path().join(part)).unwrap().count();
    assert_eq!((kept("weights"), kept("checkpoints/run")), (5, 5));
    let one = PublishRequest { run_id: "run".into(), version: None, keep: Some(1), ..PublishRequest::default() };
    let refused = served.client.publish(one).await.unwrap_err();
    assert!(refused.message().contains("keep is 1") && refused.message().contains("2 or more"), "{refused}");
}

#[tokio::test]
async fn the_order_of_groups_follows_the_seed_of_the_run() {
    let digest = async |seed: u64| {
        let shuffled = LearnerSettings { shuffle: true, mini_batch_groups: 1, ..training() };
        let mut served = served_with(shuffled).await;
        let header = TrainHeader { seed, ..served.header(TrainKind::Grpo, 0, 0, 4) };
        served.train(header, (0..4).map(|index| message(u64::from(index), index)).collect()).await.unwrap();
        let publish = PublishRequest { run_id: "run".into(), ..PublishRequest::default() };
        served.client.publish(publish).await.unwrap().into_inner().weights.unwrap().digest
    };
    let first = digest(1).await;
    assert_eq!(digest(1).await, first);
    let mut others = Vec::new();
    for seed in 2..6 {
        others.push(digest(seed).await);
    }
    assert!(others.iter().any(|other| *other != first), "four seeds in a row give the same order of four groups");
}

#[tokio::test]
async fn weights_published_after_a_return_to_an_older_checkpoint_stay_and_later_ones_go_first() {
    let mut served = served().await;
    let publish = |version| PublishRequest {
        run_id: "run".into(),
        version: Some(version),
        keep: Some(2),
        ..PublishRequest::default()
    };
    let save = SaveCheckpointRequest { run_id: "run".into(), ..SaveCheckpointRequest::default() };
    served.client.save_checkpoint(save).await.unwrap();
    for step in 0..3 {
        served.step(step, step).await.unwrap();
        served.client.publish(publish(step + 1)).await.unwrap();
    }
    let load = LoadCheckpointRequest { run_id: "run".into(), which: None, ..Default::default() };
    served.client.load_checkpoint(load).await.unwrap();
    served.client.publish(publish(0)).await.unwrap();
    let folder = served.folder.path().join("weights");
    let kept = [0, 1, 2, 3].map(|version| folder.join(format!("step-{version}")).exists());
    assert_eq!(kept, [true, false, false, true]);
}

#[tokio::test]
async fn scores_are_the_library_s_and_a_bad_item_spoils_no_other() {
    let mut served = served().await;
    let item = |id: &str, prompt: &[u32], response: &[u32]| ScoreItem {
        id: id.into(),
        prompt_token_ids: prompt.to_vec(),
        response_token_ids: response.to_vec(),
        temperature: Some(0.8),
        entropy: true,
        ..ScoreItem::default()
    };
    let items = vec![item("a", &[2, 3], &[4, 5, 6]), item("bad", &[2], &[400]), item("b", &[7], &[8])];
    let requests = items.into_iter().map(|item| ScoreRequest { kind: Some(score_request::Kind::Item(item)) });
    let mut answers = served.client.score(tokio_stream::iter(requests.collect::<Vec<_>>())).await.unwrap().into_inner();
    let wanted = learner(training()).score(&[(&[2, 3], &[4, 5, 6]), (&[7], &[8])], 0.8).unwrap();
    let mut seen = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        seen += 1;
        let wanted = match answer.id.as_str() {
            "a" => &wanted[0],
            "b" => &wanted[1],
            _ => {
                assert!(answer.failure.unwrap().message.contains("400"));
                continue;
            }
        };
        let close = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(&answer.log_probabilities, &wanted.logp) && close(&answer.entropies, &wanted.entropy));
    }
    assert_eq!(seen, 3);
}

#[tokio::test]
async fn a_folder_that_is_no_model_is_refused_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ServiceSettings { model: folder.path().to_owned(), ..ServiceSettings::default() };
    let error = bind(settings).await.err().unwrap().to_string();
    assert!(error.contains("config.json"), "{error}");
    let error = bind(ServiceSettings::default()).await.err().unwrap().to_string();
    assert!(error.contains("model is empty"), "{error}");
    let small = ServiceSettings { model: "model".into(), max_memory: ByteSize::b(1), ..ServiceSettings::default() };
    let error = bind(small).await.err().unwrap().to_string();
    assert!(error.contains("max_memory is 1B") && error.contains("server.max_message"), "{error}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_refused_before_the_model_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let [good, bad] = [dir.path().join("not/there/yet"), file.join("folder")];
    let settings =
        ServiceSettings { model: "model".into(), checkpoints: good, weights: bad, ..ServiceSettings::default() };
    let error = bind(settings).await.err().unwrap().to_string();
    assert!(error.contains("weights is ") && error.contains("a folder that can be written to"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_to_score_are_bounded_by_their_bytes() {
    let mut served = served_as(|settings| {
        settings.server.max_message = ByteSize::kib(4);
        settings.max_memory = ByteSize::kib(4);
    })
    .await;
    let item = |id: &str, tokens: usize| ScoreItem {
        id: id.into(),
        prompt_token_ids: vec![2; tokens],
        response_token_ids: vec![3],
        temperature: Some(1.0),
        ..ScoreItem::default()
    };
    let requests = tokio_stream::iter([ScoreRequest::from(item("large", 3_950)), item("small", 2).into()]);
    let mut scores = served.client.score(requests).await.unwrap().into_inner();
    let mut failures = Vec::new();
    while let Some(score) = scores.message().await.unwrap() {
        failures.extend(score.failure.map(|failure| (score.id, failure.reason)));
    }
    assert_eq!(failures, [("large".to_owned(), "BYTES_FULL".to_owned())], "with its structure it is more than fits");
}

fn save(run_id: &str, step: u64) -> SaveCheckpointRequest {
    SaveCheckpointRequest { run_id: run_id.into(), step, ..SaveCheckpointRequest::default() }
}

fn load_path(run_id: &str, path: &Path) -> LoadCheckpointRequest {
    let which = Some(load_checkpoint_request::Which::Path(path.to_str().unwrap().into()));
    LoadCheckpointRequest { run_id: run_id.into(), which, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_which_nothing_comes_is_dropped_and_gives_the_learner_back() {
    let mut served = served_as(|settings| settings.step_idle = Duration::from_millis(300)).await;
    // One that sends its header alone, one that stops after its first group.
    for parts in [0, 1] {
        let header = served.header(TrainKind::Grpo, 0, 0, 2);
        let mut requests = vec![TrainRequest { kind: Some(train_request::Kind::Header(header)) }];
        requests.extend((0..parts).map(|_| TrainRequest { kind: Some(message(0, 0)) }));
        let endless = tokio_stream::StreamExt::chain(tokio_stream::iter(requests), tokio_stream::pending());
        let mut events = served.client.train(endless).await.unwrap().into_inner();
        let end = async {
            loop {
                match events.message().await {
                    Ok(Some(_)) => {}
                    other => return other.map(drop),
                }
            }
        };
        let status = tokio::time::timeout(Duration::from_secs(120), end).await.expect("it is dropped").unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("no part of the step arrived for step_idle"), "{status}");
    }
    assert_eq!(served.version().await, 0);
    assert_eq!(served.step(0, 0).await.unwrap().version, 1);
}

#[tokio::test]
async fn numbers_beyond_what_was_done_are_refused_and_evict_nothing() {
    let mut served = served().await;
    for step in 0..2 {
        served.step(step, step).await.unwrap();
        served.client.save_checkpoint(save("run", step + 1)).await.unwrap();
    }
    for step in [u64::MAX, u64::MAX - 1, 3, 1, 0] {
        let status = served.client.save_checkpoint(save("run", step)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("allowed: 2, the GRPO steps that the learner has done"), "{status}");
    }
    let mut kept: Vec<_> = std::fs::read_dir(served.folder.path().join("checkpoints/run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, ["step-000001", "step-000002"]);
    let far = served.step(u64::MAX, 2).await.unwrap_err();
    assert!(far.message().contains("allowed: at most base_version, which is 2"), "{far}");
    let many = served.header(TrainKind::Supervised, 0, 2, u32::MAX);
    let many = served.train(many, Vec::new()).await.unwrap_err();
    assert!(many.message().contains("expected_examples is 4294967295"), "{many}");
    let large = SaveCheckpointRequest { client_state: vec![0; (1 << 20) + 1], ..save("run", 2) };
    let large = served.client.save_checkpoint(large).await.unwrap_err();
    assert!(large.message().contains("client_state is 1048577 bytes"), "{large}");
}

#[tokio::test]
async fn changing_calls_are_those_of_the_run_that_has_the_learner() {
    let mut served = served_as(|settings| settings.lease = Duration::from_secs(600)).await;
    served.step(0, 0).await.unwrap();
    served.client.save_checkpoint(save("run", 1)).await.unwrap();
    let publish = PublishRequest { run_id: "other".into(), ..PublishRequest::default() };
    let status = served.client.publish(publish).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let status = served.client.save_checkpoint(save("other", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let load = LoadCheckpointRequest { run_id: "other".into(), which: None, ..Default::default() };
    let status = served.client.load_checkpoint(load).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("the learner serves run `run`"), "{status}");
    for run_id in ["", "a b", "../run", "..", ".", &"x".repeat(1 << 20)] {
        let status = served.client.save_checkpoint(save(run_id, 1)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().len() < 300, "{} bytes", status.message().len());
    }
}

#[tokio::test]
async fn runs_of_one_learner_neither_overwrite_nor_evict_each_other_s_checkpoints() {
    let mut served = served_as(|settings| settings.lease = Duration::ZERO).await;
    let keep = |run_id: &str, step: u64, state: &str| SaveCheckpointRequest {
        client_state: state.as_bytes().to_vec(),
        keep: Some(1),
        ..save(run_id, step)
    };
    // Untrained weights have no owner.
    let first = served.client.save_checkpoint(keep("first", 0, "of the first")).await.unwrap().into_inner();
    served.client.save_checkpoint(keep("second", 0, "of the second")).await.unwrap();
    for (run_id, state) in [("first", "of the first"), ("second", "of the second")] {
        let load = LoadCheckpointRequest { run_id: run_id.into(), which: None, ..Default::default() };
        let loaded = served.client.load_checkpoint(load).await.unwrap().into_inner();
        assert_eq!(String::from_utf8(loaded.client_state).unwrap(), state);
    }
    let path = first.checkpoint.unwrap().path;
    assert!(path.ends_with("checkpoints/first/step-000000"), "{path}");
}

#[tokio::test]
async fn a_checkpoint_of_a_version_that_kept_all_runs_in_one_folder_is_found() {
    let mut served = served().await;
    served.step(0, 0).await.unwrap();
    let saved = served.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();
    let inside = served.folder.path().join("checkpoints");
    std::fs::rename(&saved.path, inside.join("step-000001")).unwrap();
    for which in [None, Some(load_checkpoint_request::Which::Step(1))] {
        let load = LoadCheckpointRequest { run_id: "run".into(), which, ..Default::default() };
        assert_eq!(served.client.load_checkpoint(load).await.unwrap().into_inner().checkpoint.unwrap().step, 1);
    }
}

#[tokio::test]
async fn a_silent_run_s_learner_goes_to_the_next_with_its_own_checkpoint_only() {
    let mut served = served_as(|settings| settings.lease = Duration::ZERO).await;
    served.step(0, 0).await.unwrap();
    let saved = served.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();
    let status = served.client.load_checkpoint(load_path("other", Path::new(&saved.path))).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("is of run `run`"), "{status}");
    for which in [None, Some(load_checkpoint_request::Which::Step(1))] {
        let request = LoadCheckpointRequest { run_id: "other".into(), which, ..Default::default() };
        let status = served.client.load_checkpoint(request).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status}");
    }
    let status = served.client.get_status(LearnerGetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.run_id.as_str(), status.version), ("run", 1));
}

#[tokio::test]
async fn a_checkpoint_is_loaded_from_below_the_folder_of_checkpoints_only() {
    let mut served = served().await;
    served.step(0, 0).await.unwrap();
    let saved = served.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();
    let (root, inside) = (served.folder.path().to_owned(), served.folder.path().join("checkpoints"));
    let outside = root.join("outside");
    std::fs::create_dir(&outside).unwrap();
    for file in std::fs::read_dir(&saved.path).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), outside.join(file.file_name())).unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("run/step-000009")).unwrap();
    let linked = inside.join("step-000008");
    std::fs::create_dir(&linked).unwrap();
    for file in std::fs::read_dir(&outside).unwrap() {
        let file = file.unwrap();
        std::os::unix::fs::symlink(file.path(), linked.join(file.file_name())).unwrap();
    }
    let paths = [outside, inside.join("../outside"), inside.join("link"), linked, inside.clone()];
    for path in paths {
        let status = served.client.load_checkpoint(load_path("run", &path)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{}: {status}", path.display());
        assert!(status.message().contains("allowed: a checkpoint below"), "{status}");
    }
    let by_step = LoadCheckpointRequest {
        run_id: "run".into(),
        which: Some(load_checkpoint_request::Which::Step(9)),
        ..Default::default()
    };
    assert_eq!(served.client.load_checkpoint(by_step).await.unwrap_err().code(), Code::InvalidArgument);
    served.client.load_checkpoint(load_path("run", Path::new(&saved.path))).await.unwrap();
}
