//! Calls to the learner, the generation service and the orchestrator by clients that own no run.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::weights_ref::Source;
use evenkeel_proto::v1::{
    GenerateItem, GenerateRequest, GetRunRequest, LearnerGetStatusResponse, ListRunsRequest, LoadCheckpointRequest,
    LoraWeights, NcclWeights, PathWeights, PublishRequest, SaveCheckpointRequest, ScoreItem, ScoreRequest, Segment,
    StartRunRequest, StopRunRequest, TrainGroup, TrainHeader, TrainKind, TrainRequest, UpdateWeightsRequest,
    WatchRunRequest, WeightsRef, load_checkpoint_request,
};
use prost::Message;

use super::Round;
use crate::abuse::wire::{self, Failed};

/// A step that is begun as it should be and never goes on; others that are not as they should be.
pub(super) async fn idle_step(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().learner).await?;
    let status = wire::unary(&channel, "/evenkeel.v1.Learner/GetStatus", wire::framed(&[])).await?.1;
    let status = LearnerGetStatusResponse::decode(status)?;
    let header = TrainHeader {
        run_id: if round.number.is_multiple_of(3) { status.run_id } else { format!("stranger-{}", round.number) },
        step: if round.number % 4 == 1 { u64::MAX } else { status.last_grpo_step.map_or(1, |step| step + 1) },
        base_version: status.version,
        expected_groups: if round.number.is_multiple_of(2) { 4 } else { u32::MAX },
        settings_hash: status.settings_hash,
        kind: TrainKind::Grpo.into(),
        ..TrainHeader::default()
    };
    let mut pieces = vec![wire::encoded(&TrainRequest::from(header))];
    if round.number % 3 == 2 {
        let group = TrainGroup { index: 7, ..TrainGroup::default() };
        pieces.push(wire::encoded(&TrainRequest::from(group)));
    }
    let response = wire::call(&channel, "/evenkeel.v1.Learner/Train", pieces, true).await?;
    let (code, _) = wire::end(response).await;
    round.count(&code);
    Ok(())
}

/// Checkpoints with numbers beyond reason, in the names of other runs, from any folder.
pub(super) async fn checkpoints(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().learner).await?;
    let odd = "../../x\n\x1b[31m";
    for (run_id, step) in [("stranger", u64::MAX), ("stranger", u64::MAX - 1), (odd, 1), ("", 1), ("stranger", 1 << 40)]
    {
        let request = SaveCheckpointRequest {
            run_id: run_id.to_owned(),
            step,
            client_state: vec![7; 1 << 20],
            keep: Some(1),
            ..SaveCheckpointRequest::default()
        };
        round.call(&channel, "/evenkeel.v1.Learner/SaveCheckpoint", wire::encoded(&request)).await?;
    }
    let path = |path: &str| load_checkpoint_request::Which::Path(path.to_owned());
    let foreign = round.targets().foreign_weights.to_string_lossy();
    for which in
        [path("/etc"), path("/proc/self/root"), path(&foreign), path(odd), load_checkpoint_request::Which::Step(1)]
    {
        let request = LoadCheckpointRequest { run_id: "stranger".to_owned(), which: Some(which), ..Default::default() };
        round.call(&channel, "/evenkeel.v1.Learner/LoadCheckpoint", wire::encoded(&request)).await?;
    }
    for version in [None, Some(0), Some(u64::MAX)] {
        let request =
            PublishRequest { run_id: "stranger".repeat(100_000), version, keep: Some(2), ..PublishRequest::default() };
        round.call(&channel, "/evenkeel.v1.Learner/Publish", wire::encoded(&request)).await?;
    }
    Ok(())
}

/// Sequences that cannot be scored.
pub(super) async fn scores(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().learner).await?;
    let item = |id: String, ids: Vec<u32>, temperature: f32| {
        let prompt_token_ids = ids.clone();
        let temperature = Some(temperature);
        let item = ScoreItem { id, prompt_token_ids, response_token_ids: ids, temperature, ..ScoreItem::default() };
        wire::encoded(&ScoreRequest::from(item))
    };
    let items = vec![
        item("a\n\x1b[31m".to_owned(), vec![u32::MAX; 10], 1.0),
        item("x".repeat(100_000), vec![5; 10], f32::NAN),
        item("b".to_owned(), vec![], 1.0),
        item("c".to_owned(), vec![5; 1_000_000], 1.0),
        item("d".to_owned(), vec![5; 10], -1.0),
    ];
    let (code, _) = wire::end(wire::call(&channel, "/evenkeel.v1.Learner/Score", items, false).await?).await;
    round.count(&code);
    Ok(())
}

/// Weights from folders where none are to be taken from, of kinds that are not there.
pub(super) async fn weights(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().generation).await?;
    let foreign = round.targets().foreign_weights.to_string_lossy().into_owned();
    let path = |path: String| Source::Path(PathWeights { path, size_bytes: u64::MAX });
    let sources = [
        path(foreign.clone()),
        path("/etc".to_owned()),
        path("/proc/self/root/etc".to_owned()),
        path(format!("{foreign}/../../../../../../../../etc")),
        path("\n\x1b[31m".repeat(100_000)),
        Source::Lora(LoraWeights { path: foreign, rank: u32::MAX, ..LoraWeights::default() }),
        Source::Nccl(NcclWeights { unique_id: vec![7; 128], world_size: u32::MAX, ..NcclWeights::default() }),
    ];
    for (index, source) in sources.into_iter().enumerate() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let version = if index % 2 == 0 { u64::MAX } else { 1 };
        let weights = Some(WeightsRef { version, digest, source: Some(source), ..WeightsRef::default() });
        let request = UpdateWeightsRequest { weights, ..UpdateWeightsRequest::default() };
        round.call(&channel, "/evenkeel.v1.Generation/UpdateWeights", wire::encoded(&request)).await?;
    }
    Ok(())
}

/// Samples that cannot be drawn, beside some that nobody reads.
pub(super) async fn samples(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().generation).await?;
    let item = |id: &str, change: &dyn Fn(&mut GenerateItem)| -> Bytes {
        let mut item = GenerateItem {
            sample_id: id.to_owned(),
            group_id: "group".to_owned(),
            prompt_token_ids: vec![5, 6, 7],
            sampling: Some(SamplingSettings::plain(8, 1).into()),
            ..GenerateItem::default()
        };
        change(&mut item);
        wire::encoded(&GenerateRequest::from(item))
    };
    let items = vec![
        item("a", &|item| item.prompt_token_ids = vec![u32::MAX; 100]),
        item("b\n\x1b[31m", &|item| item.sampling = None),
        item(&"c".repeat(100_000), &|item| item.deadline_ms = Some(0)),
        item("d", &|item| item.prompt_token_ids = vec![5; 1_000_000]),
        item("e", &|item| item.prefix_segments = vec![Segment::default(); 100_000]),
        item("f", &|item| item.policy_version = Some(u64::MAX)),
        item("g", &|item| {
            item.sampling = item.sampling.take().map(|sampling| evenkeel_proto::v1::Sampling {
                temperature: Some(f32::NAN),
                max_tokens: Some(u32::MAX),
                ..sampling
            })
        }),
        item("h", &|item| item.group_id = "x".repeat(1 << 20)),
    ];
    let (code, _) = wire::end(wire::call(&channel, "/evenkeel.v1.Generation/Generate", items, false).await?).await;
    round.count(&code);
    let unread = (0..64).map(|index| item(&format!("unread-{index}"), &|_| {})).collect();
    let held = wire::call(&channel, "/evenkeel.v1.Generation/Generate", unread, true).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(held);
    Ok(())
}

/// Runs that cannot be, twice each, and questions about runs that are not there.
pub(super) async fn starts(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().orchestrator).await?;
    let recipe = |overrides: &[&str]| StartRunRequest {
        run_id: "stranger".to_owned(),
        configuration: Some(Configuration::Recipe("arithmetic".to_owned())),
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        ..StartRunRequest::default()
    };
    let toml = |text: String| StartRunRequest { configuration: Some(Configuration::Toml(text)), ..recipe(&[]) };
    let named = |run_id: &str| StartRunRequest { run_id: run_id.to_owned(), ..recipe(&["model.fresh.layers=5000"]) };
    let requests = [
        recipe(&["data.files=/dev/zero"]),
        recipe(&["data.files=/proc/self/fd/0"]),
        recipe(&["data.files=/dev/stdin"]),
        recipe(&["model.fresh.hidden_size=1000000000"]),
        recipe(&["model.path=/etc"]),
        recipe(&["services.client.token_file=/dev/zero"]),
        recipe(&["sampling.prompts_per_step=4000000000"]),
        recipe(&["no.such=1"]),
        toml("[".repeat(100_000)),
        toml("\x1b[31m\nrun = 7".to_owned()),
        named("../../etc/x"),
        named(&"x".repeat(1 << 20)),
        named("a\n\x1b[31m"),
        StartRunRequest { run_id: "stranger".to_owned(), resume: true, ..StartRunRequest::default() },
    ];
    for request in requests {
        let message = wire::encoded(&request);
        let path = "/evenkeel.v1.Orchestrator/StartRun";
        let twice = [message.clone(), message].map(|message| round.call(&channel, path, message));
        let [first, second] = twice;
        let (first, second) = tokio::join!(first, second);
        first.and(second)?;
    }
    let run_id = || "x\n".repeat(100_000);
    let get = wire::encoded(&GetRunRequest { run_id: run_id() });
    round.call(&channel, "/evenkeel.v1.Orchestrator/GetRun", get).await?;
    let stop = wire::encoded(&StopRunRequest { run_id: run_id(), mode: 99 });
    round.call(&channel, "/evenkeel.v1.Orchestrator/StopRun", stop).await?;
    let list = wire::encoded(&ListRunsRequest { page_size: u32::MAX, page_token: run_id() });
    round.call(&channel, "/evenkeel.v1.Orchestrator/ListRuns", list).await?;
    let watch = wire::encoded(&WatchRunRequest { run_id: run_id(), from_step: Some(u64::MAX), progress_ms: None });
    round.call(&channel, "/evenkeel.v1.Orchestrator/WatchRun", watch).await?;
    Ok(())
}
