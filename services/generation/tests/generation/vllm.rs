//! Tests against a real vLLM at `VLLM_URL`, with a tiny untied model whose folder is readable here:
//!
//! ```text
//! evenkeel model --recipe cli/tests/suite/small.toml --set model.fresh.tied=false --set model.fresh.context_tokens=2048 --out MODEL
//! VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --port 8100 --dtype float32 --logprobs-mode processed_logprobs --generation-config vllm
//! VLLM_URL=http://127.0.0.1:8100 cargo test --release -p evenkeel-generation --test generation a_real_engine -- --ignored --nocapture
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_generation::{GenerationSettings, StreamSetting, WeightsSettings};
use evenkeel_proto::v1::{
    CancelItem, EngineUpdateOutcome, FinishReason, GenerateItem, PauseMode, ProveWeightsRequest, Rollout, SleepLevel,
    SleepRequest, TokenSequence, UpdateWeightsRequest, WakeUpRequest, WeightsRef,
};

use crate::support::{Service, content, item, items, settings_of, with_tokens};

fn settings() -> GenerationSettings {
    let mut settings = settings_of(vec![std::env::var("VLLM_URL").expect("VLLM_URL is the engine's URL")]);
    settings.engine.control_timeout = Duration::from_secs(20);
    settings.engine.health_interval = Duration::from_secs(1);
    settings.item_deadline = Duration::from_secs(120);
    settings.weights = WeightsSettings {
        marker: String::new(),
        update_timeout: Duration::from_secs(60),
        ..WeightsSettings::default()
    };
    settings
}

/// A copy of a model's folder with every weight multiplied, so that it samples something else.
fn scaled(from: &Path, to: PathBuf, factor: f32) -> String {
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    let file = to.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let head = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for value in bytes[head..].chunks_exact_mut(4) {
        let scaled = f32::from_le_bytes((&*value).try_into().unwrap()) * factor;
        value.copy_from_slice(&scaled.to_le_bytes());
    }
    fs::write(file, bytes).unwrap();
    to.to_str().unwrap().to_owned()
}

fn update(version: u64, path: &str, mode: PauseMode) -> UpdateWeightsRequest {
    let weights = WeightsRef::at_path(version, format!("sha256:{version:064x}"), path, 0);
    UpdateWeightsRequest { weights: Some(weights), pause_mode: mode.into(), ..UpdateWeightsRequest::default() }
}

/// A sample that does not end by itself within the test.
fn endless(mut item: GenerateItem) -> GenerateItem {
    item.sampling.as_mut().unwrap().ignore_eos = Some(true);
    with_tokens(item, 240)
}

/// Requests that run in the engine, by its metrics.
async fn running(url: &str) -> f64 {
    let text = reqwest::get(format!("{url}/metrics")).await.unwrap().text().await.unwrap();
    let line = text.lines().find(|line| line.starts_with("vllm:num_requests_running")).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// How far the log-probabilities of a sample are from those that its engine gives its tokens in a proof of weights, on
/// average.
async fn scored_again(service: &Service, version: u64, rollout: &Rollout) -> f32 {
    let (ids, sampled) = content(rollout);
    let token_ids: Vec<u32> = rollout.prompt_token_ids.iter().chain(&ids).copied().collect();
    let request = ProveWeightsRequest {
        version: Some(version),
        sequences: vec![TokenSequence { token_ids }],
        temperature: Some(1.0),
        deadline_ms: None,
    };
    let proof = service.client.clone().prove_weights(request).await.unwrap().into_inner();
    assert!(proof.engines[0].failure.is_none(), "{proof:?}");
    let scores = &proof.engines[0].scores[0].log_probabilities[rollout.prompt_token_ids.len() - 1..];
    assert_eq!(scores.len(), sampled.len());
    scores.iter().zip(&sampled).map(|(again, first)| (again - first).abs()).sum::<f32>() / sampled.len() as f32
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real vLLM at VLLM_URL"]
async fn a_real_engine() {
    let service = Service::with(settings()).await;
    let status = service.status().await;
    println!("{status:#?}");
    let model = status.model.unwrap();
    assert!(model.vocabulary_size > 0 && !model.architecture.is_empty(), "its folder is readable here");
    let url = std::env::var("VLLM_URL").unwrap();
    let models: serde_json::Value =
        serde_json::from_slice(&reqwest::get(format!("{url}/v1/models")).await.unwrap().bytes().await.unwrap())
            .unwrap();
    let root = PathBuf::from(models["data"][0]["root"].as_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let other = scaled(&root, folder.path().join("other"), 4.0);
    let same = scaled(&root, folder.path().join("same"), 1.0);

    // The same seeds are the same samples, whole or streamed.
    let first = service.draw_all(items(64)).await;
    assert!(first.values().all(|rollout| rollout.failure.is_none()), "{first:#?}");
    let streaming = Service::with(GenerationSettings { stream: StreamSetting::Always, ..settings() }).await;
    let second = streaming.draw_all(items(64)).await;
    let equal = first.iter().filter(|(id, rollout)| content(rollout).0 == content(&second[*id]).0).count();
    println!("{equal} of 64 samples are the same when streamed");
    assert!(equal >= 60);
    drop(streaming);

    // What engines refuse is the item's own fault; a cancel frees the engine.
    let mut stream = service.stream().await;
    stream.send(GenerateItem { keep_partial: true, ..endless(item("long", 1)) }).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream.send(CancelItem::new("long")).await;
    let cancelled = stream.next().await;
    println!("cancelled after {} tokens", content(&cancelled).0.len());
    assert_eq!(cancelled.finish_reason(), FinishReason::Cancelled);

    stream.send(endless(item("whole", 1))).await;
    while service.status().await.engines[0].in_flight_items == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.send(CancelItem::new("whole")).await;
    assert_eq!(stream.next().await.finish_reason(), FinishReason::Cancelled);
    let begun = Instant::now();
    while running(&url).await > 0.0 {
        assert!(begun.elapsed() < Duration::from_secs(1), "the engine goes on");
    }
    println!("the engine was free {:?} after the cancel", begun.elapsed());

    // Other weights sample something else, and the first ones again the same.
    let mut version = status.policy_version;
    for (path, mode) in
        [(&other, PauseMode::Wait), (&same, PauseMode::Abort), (&other, PauseMode::Keep), (&same, PauseMode::Wait)]
    {
        version += 1;
        let long = GenerateItem { keep_partial: true, ..endless(item(format!("across {version}"), 1)) };
        stream.send(long).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let begun = Instant::now();
        let response = service.update(update(version, path, mode)).await.unwrap();
        println!("{:?} after {:?}", response.engines[0], begun.elapsed());
        assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Updated, "{response:?}");
        let across = stream.next().await;
        let spans: Vec<_> = across.segments.iter().map(|s| (s.policy_version.unwrap(), s.token_ids.len())).collect();
        println!("{mode:?}: {:?} {spans:?}", across.finish_reason());
        let expected = if mode == PauseMode::Abort { FinishReason::Aborted } else { across.finish_reason() };
        assert_eq!(across.finish_reason(), expected);
        let rollouts = service.draw_all(items(64)).await;
        let equal = first.iter().filter(|(id, rollout)| content(rollout).0 == content(&rollouts[*id]).0).count();
        println!("version {version}: {equal} of 64 samples are those of the first weights");
        assert!(if path == &same { equal >= 60 } else { equal <= 4 });
        assert!(rollouts.values().all(|rollout| rollout.segments[0].policy_version == Some(version)));
        let gap = scored_again(&service, version, rollouts.values().next().unwrap()).await;
        println!("version {version}: scored again, the tokens of a sample are {gap:.2e} nats apart on average");
        assert!(gap < 0.05);
    }
    // Asleep it samples nothing; it wakes with other weights, or as it was.
    for (level, woken_by_weights) in
        [(SleepLevel::Offload, true), (SleepLevel::Discard, true), (SleepLevel::Offload, false)]
    {
        let request = SleepRequest { level: level.into(), ..SleepRequest::default() };
        let slept = service.client.clone().sleep(request).await.unwrap().into_inner();
        println!("{slept:?}");
        assert!(slept.engines[0].asleep, "{slept:?}");
        stream.send(item(format!("asleep {level:?} {woken_by_weights}"), 1)).await;
        assert!(tokio::time::timeout(Duration::from_secs(1), stream.next()).await.is_err(), "it sleeps");
        if woken_by_weights {
            version += 1;
            let response = service.update(update(version, &same, PauseMode::Wait)).await.unwrap();
            assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Updated, "{response:?}");
        } else {
            let woken = service.client.clone().wake_up(WakeUpRequest::default()).await.unwrap().into_inner();
            assert!(woken.engines[0].failure.is_none(), "{woken:?}");
        }
        assert_eq!(stream.next().await.segments[0].policy_version, Some(version));
        let rollouts = service.draw_all(items(64)).await;
        let equal = first.iter().filter(|(id, rollout)| content(rollout).0 == content(&rollouts[*id]).0).count();
        println!("{level:?}: {equal} of 64 samples are those of the first weights after sleep");
        assert!(equal >= 60);
    }
    let begun = Instant::now();
    let many: Vec<_> = (0..512).map(|seed| with_tokens(item(format!("m/{seed}"), seed), 50)).collect();
    let rollouts = service.draw_all(many).await;
    println!("512 samples of at most 50 tokens in {:?}", begun.elapsed());
    assert!(rollouts.values().all(|rollout| rollout.failure.is_none()));
}
