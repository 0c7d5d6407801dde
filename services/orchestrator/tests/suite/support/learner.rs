//! A learner whose weights are a hash of everything that it was ever sent, in the order in which it was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::learner_server::Learner;
use evenkeel_proto::v1::load_checkpoint_request::Which;
use evenkeel_proto::v1::{
    CheckpointRef, Failure, FailureCode, LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest,
    LoadCheckpointResponse, ModelInfo, OperateRequest, OperateResponse, PublishRequest, PublishResponse,
    ReplacedTensors, ResetRequest, ResetResponse, RunWrites, SampleReport, SaveCheckpointRequest,
    SaveCheckpointResponse, ScoreItem, ScoreRequest, ScoreResponse, SupervisedExample, TokenStatistics, TrainAccepted,
    TrainEvent, TrainGroup, TrainKind, TrainReport, TrainRequest, TrainSample, WeightsRef, score_request,
    train_request,
};
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::generation::{GROUPS, log_probability, score};
use super::{SCORING_SECONDS, hash, mix};

pub(crate) const SETTINGS_HASH: &str = "sha256:settings";

/// What a process holds and loses.
#[derive(Debug, Clone, Default)]
struct Memory {
    run_id: String,
    version: u64,
    digest: u64,
    /// The last one only: a real learner keeps few.
    report: Option<TrainReport>,
}

/// What it knew when it wrote a checkpoint, with the state of its caller.
type Saved = (Memory, Vec<u8>);

/// Whether a step has to wait, by its number.
pub(crate) type Holds = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// What outlives it, and what tests look at.
#[derive(Default)]
pub(crate) struct FakeState {
    disk: Mutex<BTreeMap<(String, u64), Saved>>,
    /// Groups of each step as they were sent.
    pub(crate) groups: Mutex<BTreeMap<u64, Vec<TrainGroup>>>,
    /// Examples of supervised steps.
    pub(crate) examples: Mutex<Vec<SupervisedExample>>,
    /// How often each step was really done.
    pub(crate) done: Mutex<BTreeMap<(i32, u64), u32>>,
    /// After these GRPO steps the connection is cut before the report is out.
    pub(crate) cut_after: Mutex<BTreeSet<u64>>,
    /// These GRPO steps are dropped once before they are whole, as if nothing of them had come for too long.
    pub(crate) idle_at: Mutex<BTreeSet<u64>>,
    /// Whether a GRPO step whose groups are all here is not done yet.
    pub(crate) holds: Mutex<Option<Holds>>,
    /// These GRPO steps fail once as where a GPU is lost, or too many updates in a row were skipped.
    pub(crate) fails_at: Mutex<BTreeSet<u64>>,
    /// How often a step was sent, whether it was done or not.
    pub(crate) sent: Mutex<BTreeMap<u64, u32>>,
    /// Most checkpoints and published versions that its disks hold, and what each run said that it writes.
    pub(crate) room: Mutex<Option<(u64, u64)>>,
    pub(crate) writes: Mutex<Vec<RunWrites>>,
    /// So many checkpoints find the disk full.
    pub(crate) disk_full: AtomicU32,
    /// Where folders are made, as a real learner would.
    pub(crate) folder: Mutex<Option<PathBuf>>,
    /// How many (checkpoints, published versions) it was asked to keep, by call.
    pub(crate) kept: Mutex<BTreeSet<(Option<u32>, Option<u32>)>>,
    /// Digests of what it has published, by version.
    published: Mutex<BTreeMap<u64, String>>,
    /// Whether its steps change nothing, as with a learning rate of 0.
    pub(crate) is_frozen: AtomicBool,
    /// Which of them were to stay besides, by call.
    pub(crate) kept_besides: Mutex<BTreeSet<(&'static str, Vec<u64>)>>,
    /// The folders of published versions are gone.
    pub(crate) are_weights_gone: AtomicBool,
    /// Every sampled token is this many thousandths of a nat likelier than it should be on average.
    pub(crate) surprise: AtomicU32,
    /// Versions of which samples were scored, with their tokens.
    pub(crate) audited: Mutex<BTreeMap<u64, usize>>,
    /// Whether it trains adapters.
    pub(crate) trains_adapters: AtomicBool,
    /// Hash of its settings, as it reports it.
    pub(crate) settings_hash: Mutex<Option<String>>,
}

#[derive(Clone, Default)]
pub(crate) struct FakeLearner {
    pub(crate) state: Arc<FakeState>,
    memory: Arc<Mutex<Memory>>,
}

impl FakeLearner {
    pub(crate) fn restarted(&self) -> Self {
        Self { state: Arc::clone(&self.state), memory: Arc::default() }
    }

    /// The answer to an item that names published weights: what the fake engine says of its tokens, and that they are
    /// no surprise.
    fn published(&self, item: &ScoreItem, version: u64) -> ScoreResponse {
        if self.state.are_weights_gone.load(Ordering::Relaxed) {
            let failure = Failure::new(FailureCode::FailedPrecondition, "WEIGHTS_GONE", "there is no such folder");
            return ScoreResponse { id: item.id.clone(), failure: Some(failure), ..ScoreResponse::default() };
        }
        let ids = &item.response_token_ids;
        *self.state.audited.lock().unwrap().entry(version).or_default() += ids.len();
        let each = |of: &dyn Fn(u32) -> f32| ids.iter().map(|id| of(*id)).collect::<Vec<f32>>();
        let ends = item.sampling.as_ref().map_or(&[] as &[u32], |sampling| &sampling.end_token_ids);
        let surprise = self.state.surprise.load(Ordering::Relaxed) as f32 / 1000.0;
        // As for tokens that are drawn from their distribution: uniform, and another number for each token.
        let drawn = hash(&format!("{version} {ids:?}"));
        let uniform = |at: usize| (mix(drawn ^ (at as u64) << 40) >> 40) as f32 / (1_u64 << 24) as f32;
        let statistics = TokenStatistics {
            log_probabilities: each(&log_probability),
            entropies: each(&|id| surprise - log_probability(id)),
            variances: each(&|_| 1.0),
            surprises: each(&|_| surprise),
            less_likely: (0..ids.len()).map(uniform).collect(),
            equally_likely: each(&|_| 0.0),
            ranks: vec![1; ids.len()],
            beyond_rank_5: each(&|_| 0.0),
            beyond_rank_50: each(&|_| 0.0),
            largest_log_probabilities: each(&log_probability),
            below_hundredth: each(&|_| 0.0),
            below_floor: each(&|_| 0.0),
            end_probabilities: each(&|id| f32::from(u8::from(ends.contains(&id)))),
            ..TokenStatistics::default()
        };
        let log_probabilities = statistics.log_probabilities.clone();
        let id = item.id.clone();
        let statistics = Some(statistics);
        let compute_seconds = SCORING_SECONDS;
        ScoreResponse { id, log_probabilities, version, statistics, compute_seconds, ..ScoreResponse::default() }
    }

    fn tensor_groups(&self) -> Vec<String> {
        let base = self.state.trains_adapters.load(Ordering::Relaxed).then_some(BASE_GROUP);
        GROUPS.into_iter().chain(base).map(str::to_owned).collect()
    }

    fn hash(&self) -> String {
        self.state.settings_hash.lock().unwrap().clone().unwrap_or_else(|| SETTINGS_HASH.to_owned())
    }

    fn folder(&self, kind: &str, number: u64) -> String {
        match &*self.state.folder.lock().unwrap() {
            None => format!("/nowhere/{kind}/step-{number}"),
            Some(root) => {
                let path = root.join(kind).join(format!("step-{number}"));
                std::fs::create_dir_all(&path).unwrap();
                path.display().to_string()
            }
        }
    }

    async fn step(
        &self,
        mut requests: Streaming<TrainRequest>,
        events: tokio::sync::mpsc::Sender<Result<TrainEvent, Status>>,
    ) -> Result<(), Status> {
        let Some(train_request::Kind::Header(header)) =
            requests.next().await.transpose()?.and_then(|request| request.kind)
        else {
            return Err(Status::invalid_argument("no header"));
        };
        header.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
        let key = (header.kind, header.step);
        if header.settings_hash != self.hash() {
            return Err(Status::failed_precondition("another settings_hash"));
        }
        let before = self.memory.lock().unwrap().clone();
        let is_same = |report: &TrainReport| (report.kind, report.step) == key && before.run_id == header.run_id;
        let stored = before.report.clone().filter(is_same);
        let accepted =
            TrainAccepted { run_id: header.run_id.clone(), step: header.step, already_done: stored.is_some() };
        if stored.is_none() && before.version != header.base_version {
            return Err(Status::failed_precondition(format!("the version is {}", before.version)));
        }
        let _ = events.send(Ok(accepted.into())).await;
        if let Some(report) = stored {
            let _ = events.send(Ok(report.into())).await;
            return Ok(());
        }
        if header.kind() == TrainKind::Grpo {
            *self.state.sent.lock().unwrap().entry(header.step).or_default() += 1;
            if self.state.idle_at.lock().unwrap().remove(&header.step) {
                let message = "nothing of it came for step_idle".to_owned();
                return Err(ServiceError::Unavailable { reason: Reason::StepIdle, message }.into());
            }
            if self.state.fails_at.lock().unwrap().remove(&header.step) {
                let message = "the GPU failed: resume from the last checkpoint".to_owned();
                return Err(ServiceError::DataLoss { message }.into());
            }
        }
        let mut groups = Vec::new();
        let mut examples = 0;
        let mut digest = before.digest;
        while let Some(request) = requests.next().await {
            match request?.kind {
                Some(train_request::Kind::Group(group)) => {
                    group.responses().map_err(|error| Status::invalid_argument(error.to_string()))?;
                    if group.index as usize != groups.len() {
                        return Err(Status::invalid_argument("groups come out of order"));
                    }
                    digest = mix(digest ^ hash(&format!("{group:?}")));
                    groups.push(group);
                }
                Some(train_request::Kind::Examples(batch)) => {
                    digest = mix(digest ^ hash(&format!("{batch:?}")));
                    examples += batch.examples.len();
                    self.state.examples.lock().unwrap().extend(batch.examples);
                }
                _ => return Err(Status::invalid_argument("neither groups nor examples")),
            }
        }
        if groups.len() != header.expected_groups as usize || examples != header.expected_examples as usize {
            return Err(Status::invalid_argument(format!("{} groups, {examples} examples", groups.len())));
        }
        if header.kind() == TrainKind::Grpo {
            while self.state.holds.lock().unwrap().as_ref().is_some_and(|holds| holds(header.step)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let number = |salt: u64| (mix(digest ^ salt) >> 11) as f64 / (1_u64 << 53) as f64;
        // Something that looks like training, with everything that was sent in its noise.
        let early = 1.0 / (1.0 + (header.step - 1) as f64 / 8.0);
        let noise = number(3);
        let metrics = [
            ("actor/pg_clipfrac", 0.02 * noise),
            ("actor/ppo_kl", 1e-4 * noise),
            ("actor/entropy", 0.2 + 0.5 * early + 0.03 * noise),
            ("aggregation/length_cv", 0.1 + 0.2 * early + 0.05 * noise),
            ("aggregation/length_gap", 8.0 * early + 3.0 * noise),
            ("aggregation/pull_positive", 0.3 + 0.1 * noise),
            ("aggregation/pull_negative", 0.3 + 0.1 * noise),
        ];
        let report = TrainReport {
            run_id: header.run_id.clone(),
            step: header.step,
            kind: header.kind,
            base_version: header.base_version,
            version: header.base_version + 1,
            loss: if header.kind() == TrainKind::Supervised { 4.0 * early } else { 0.01 * (number(1) - 0.5) },
            gradient_norm: Some(number(2)),
            learning_rate: 1e-4,
            groups: groups.len() as u32,
            samples: count(&groups, |_| true),
            invalid_samples: count(&groups, |sample| !sample.valid),
            response_tokens: tokens(&groups),
            sample_reports: if header.report_samples { sample_reports(&groups) } else { vec![] },
            // Of a supervised step the learner reports none.
            metrics: match header.kind() {
                TrainKind::Supervised => Default::default(),
                _ => metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            },
            ..TrainReport::default()
        };
        {
            let mut memory = self.memory.lock().unwrap();
            let digest = if self.state.is_frozen.load(Ordering::Relaxed) { before.digest } else { digest };
            (memory.run_id, memory.version, memory.digest) = (header.run_id.clone(), report.version, digest);
            memory.report = Some(report.clone());
        }
        *self.state.done.lock().unwrap().entry(key).or_default() += 1;
        if header.kind() == TrainKind::Grpo {
            self.state.groups.lock().unwrap().insert(header.step, groups);
            if self.state.cut_after.lock().unwrap().remove(&header.step) {
                return Err(Status::unavailable("the connection was lost"));
            }
        }
        let _ = events.send(Ok(report.into())).await;
        Ok(())
    }
}

#[tonic::async_trait]
impl Learner for FakeLearner {
    type TrainStream = ReceiverStream<Result<TrainEvent, Status>>;
    type ScoreStream = ReceiverStream<Result<ScoreResponse, Status>>;

    async fn train(&self, request: Request<Streaming<TrainRequest>>) -> Result<Response<Self::TrainStream>, Status> {
        let (events, stream) = tokio::sync::mpsc::channel(8);
        let learner = self.clone();
        tokio::spawn(async move {
            if let Err(status) = learner.step(request.into_inner(), events.clone()).await {
                let _ = events.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn score(&self, request: Request<Streaming<ScoreRequest>>) -> Result<Response<Self::ScoreStream>, Status> {
        let memory = self.memory.lock().unwrap().clone();
        let (sender, responses) = tokio::sync::mpsc::channel(1024);
        let mut requests = request.into_inner();
        while let Some(request) = requests.next().await {
            let Some(score_request::Kind::Item(item)) = request?.kind else { continue };
            // Samples are asked for with their statistics, the tokens of a proof without.
            if let Some(weights) = item.weights.as_ref().filter(|_| item.sampling.is_some()) {
                let _ = sender.send(Ok(self.published(&item, weights.version))).await;
                continue;
            }
            if item.version.is_some_and(|version| version != memory.version) {
                return Err(Status::failed_precondition(format!("the version is {}", memory.version)));
            }
            let digest = |version| self.state.published.lock().unwrap().get(&version).cloned();
            let (weights, replaced) = match &item.weights {
                None => (Some(format!("sha256:{:064x}", memory.digest)), None),
                Some(weights) => (digest(weights.version), weights.replaced.clone()),
            };
            let is_base = |replaced: &ReplacedTensors| replaced.group == BASE_GROUP;
            let weights = if replaced.as_ref().is_some_and(is_base) { Some(BASE_GROUP.to_owned()) } else { weights };
            let replaced = replaced.filter(|replaced| !is_base(replaced));
            let replaced = replaced.map(|replaced| (replaced.group, digest(replaced.version)));
            let (Some(weights), Some(replaced)) = (
                weights,
                match replaced {
                    None => Some(None),
                    Some((group, digest)) => digest.map(|digest| Some((group, digest))),
                },
            ) else {
                let failure = Failure::new(FailureCode::FailedPrecondition, "WEIGHTS_GONE", "its folder is gone");
                let _ =
                    sender.send(Ok(ScoreResponse { id: item.id, failure: Some(failure), ..Default::default() })).await;
                continue;
            };
            let ids: Vec<u32> = item.prompt_token_ids.iter().chain(&item.response_token_ids).copied().collect();
            let scores = (item.prompt_token_ids.len()..ids.len())
                .map(|at| score(&weights, replaced.as_ref(), ids[at - 1], ids[at]));
            let response = ScoreResponse {
                id: item.id,
                log_probabilities: scores.collect(),
                version: memory.version,
                ..ScoreResponse::default()
            };
            let _ = sender.send(Ok(response)).await;
        }
        Ok(Response::new(ReceiverStream::new(responses)))
    }

    async fn publish(&self, request: Request<PublishRequest>) -> Result<Response<PublishResponse>, Status> {
        let memory = self.memory.lock().unwrap().clone();
        let request = request.into_inner();
        self.state.kept.lock().unwrap().insert((None, request.keep));
        self.state.kept_besides.lock().unwrap().insert(("weights", request.keep_versions));
        if request.version.is_some_and(|version| version != memory.version) {
            return Err(Status::failed_precondition(format!("the version is {}", memory.version)));
        }
        let digest = format!("sha256:{:064x}", memory.digest);
        self.state.published.lock().unwrap().insert(memory.version, digest.clone());
        let weights = WeightsRef::at_path(memory.version, digest, self.folder("weights", memory.version), 0);
        Ok(Response::new(PublishResponse { weights: Some(weights), ..PublishResponse::default() }))
    }

    async fn save_checkpoint(
        &self,
        request: Request<SaveCheckpointRequest>,
    ) -> Result<Response<SaveCheckpointResponse>, Status> {
        let request = request.into_inner();
        self.state.kept.lock().unwrap().insert((request.keep, None));
        self.state.kept_besides.lock().unwrap().insert(("checkpoint", request.keep_steps));
        if self.state.disk_full.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(Status::resource_exhausted("no space left on device"));
        }
        let memory = self.memory.lock().unwrap().clone();
        if request.version.is_some_and(|version| version != memory.version) {
            return Err(Status::failed_precondition(format!("the version is {}", memory.version)));
        }
        let path = self.folder("checkpoints", request.step);
        let key = (request.run_id.clone(), request.step);
        self.state.disk.lock().unwrap().entry(key).or_insert((memory.clone(), request.client_state));
        let checkpoint = CheckpointRef {
            path,
            run_id: request.run_id,
            step: request.step,
            version: memory.version,
            ..CheckpointRef::default()
        };
        Ok(Response::new(SaveCheckpointResponse { checkpoint: Some(checkpoint), write_us: 1 }))
    }

    async fn load_checkpoint(
        &self,
        request: Request<LoadCheckpointRequest>,
    ) -> Result<Response<LoadCheckpointResponse>, Status> {
        let LoadCheckpointRequest { run_id, which, from_run_id } = request.into_inner();
        let from = if from_run_id.is_empty() { &run_id } else { &from_run_id };
        let disk = self.state.disk.lock().unwrap();
        let of_run = disk.iter().filter(|((run, _), _)| run == from);
        let found = of_run.rev().find(|((_, step), _)| which.as_ref().is_none_or(|which| *which == Which::Step(*step)));
        let Some(((_, step), (memory, client_state))) = found else { return Err(Status::not_found("none")) };
        *self.memory.lock().unwrap() = Memory { run_id, ..memory.clone() };
        let checkpoint = CheckpointRef {
            step: *step,
            version: memory.version,
            run_id: memory.run_id.clone(),
            ..CheckpointRef::default()
        };
        Ok(Response::new(LoadCheckpointResponse { checkpoint: Some(checkpoint), client_state: client_state.clone() }))
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        *self.memory.lock().unwrap() = Memory { run_id: request.into_inner().run_id, ..Memory::default() };
        Ok(Response::new(ResetResponse {}))
    }

    async fn operate(&self, _: Request<OperateRequest>) -> Result<Response<OperateResponse>, Status> {
        Err(Status::unimplemented("operations are not what is tested"))
    }

    async fn get_status(
        &self,
        request: Request<LearnerGetStatusRequest>,
    ) -> Result<Response<LearnerGetStatusResponse>, Status> {
        let writes = request.into_inner().writes;
        self.state.writes.lock().unwrap().extend(writes.clone());
        let asked = writes
            .map_or((0, 0), |writes| (writes.checkpoints.unwrap_or_default(), writes.versions.unwrap_or_default()));
        let room = self.state.room.lock().unwrap().unwrap_or((u64::MAX, u64::MAX));
        let is_full = asked.0 > room.0 || asked.1 > room.1;
        let full_disks = is_full.then(|| format!("the disk has room for {room:?}, needed: {asked:?}"));
        let memory = self.memory.lock().unwrap().clone();
        Ok(Response::new(LearnerGetStatusResponse {
            version: memory.version,
            run_id: memory.run_id,
            settings_hash: self.hash(),
            model: Some(ModelInfo { vocabulary_size: 128, context_tokens: 512, ..ModelInfo::default() }),
            tensor_groups: self.tensor_groups(),
            full_disks: full_disks.into_iter().collect(),
            ..LearnerGetStatusResponse::default()
        }))
    }
}

/// Advantages as the reward less the mean of the group, weights as one over the number of samples.
fn sample_reports(groups: &[TrainGroup]) -> Vec<SampleReport> {
    let all = groups.iter().map(|group| group.samples.len()).sum::<usize>() as f64;
    let of_group = |group: &TrainGroup| {
        let valid: Vec<f64> = group.samples.iter().filter_map(|sample| sample.shaped_reward).collect();
        let mean = valid.iter().sum::<f64>() / valid.len().max(1) as f64;
        let report = |sample: &TrainSample| {
            let advantage = sample.shaped_reward.map_or(0.0, |reward| reward - mean);
            let trained = advantage != 0.0 && !sample.exclude_from_loss;
            let of_trained = |value: f64| trained.then_some(value);
            let log_probability = of_trained(-0.25);
            let ratio = of_trained(1.0);
            SampleReport { advantage, weight: 1.0 / all, trained, log_probability, ratio }
        };
        group.samples.iter().map(report).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

fn count(groups: &[TrainGroup], which: fn(&TrainSample) -> bool) -> u32 {
    groups.iter().flat_map(|group| &group.samples).filter(|sample| which(sample)).count() as u32
}

fn tokens(groups: &[TrainGroup]) -> u64 {
    let segments = groups.iter().flat_map(|group| &group.samples).flat_map(|sample| &sample.segments);
    segments.map(|segment| segment.token_ids.len() as u64).sum()
}
