//! Fake services over real loopback gRPC: deterministic responses in an order that is different in every run.

pub(crate) mod calculator;
pub(crate) mod environment;
pub(crate) mod generation;
pub(crate) mod learner;
pub(crate) mod recipe;
pub(crate) mod reward;
pub(crate) mod rounds;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_orchestrator::{
    AuditMode, Endpoints, Event, LoopSettings, ResolvedRecipe, RunError, RunHandle, RunOptions, RunOutcome, start_run,
};
use evenkeel_proto::v1::StepKind;
use evenkeel_proto::v1::generation_server::GenerationServer;
use evenkeel_proto::v1::learner_server::LearnerServer;
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use evenkeel_run::metric::LineKind;
use evenkeel_run::metric::table::{self, may_differ};
use evenkeel_run::{MetricsLine, RunDirectory, Summary};

use generation::FakeGeneration;
use learner::FakeLearner;
use reward::FakeReward;

/// How long the learner says that it computed for a sample that is audited: less than a message takes.
pub(crate) const SCORING_SECONDS: f64 = 1e-6;

/// The time limit of every test.
pub(crate) async fn bounded<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(300), test).await.expect("the test ends in time")
}

/// A bijection whose every output bit depends on every input bit.
pub(crate) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(7, |state, byte| mix(state ^ u64::from(byte)))
}

/// A recipe that takes half a second: 2 warm-start steps, 6 steps of 4 prompts and 4 samples.
pub(crate) fn recipe() -> LoopSettings {
    let mut recipe: LoopSettings = LoopSettings::default();
    recipe.run.steps = 6;
    recipe.run.seed = 11;
    recipe.sampling.prompts_per_step = 4;
    recipe.sampling.group_size = 4;
    recipe.sampling.max_tokens = 60;
    recipe.warm_start.steps = 2;
    recipe.warm_start.examples_per_step = 3;
    recipe.evaluation.problems = 5;
    recipe.checkpoint.every = 2;
    // Its answers are written and not drawn, which an audit would tell.
    recipe.sampler_audit.mode = AuditMode::Off;
    let services = &mut recipe.services;
    services.outage_timeout = Duration::from_secs(20);
    services.backoff_initial = Duration::from_millis(10);
    services.backoff_max = Duration::from_millis(50);
    services.client.connect_timeout = Duration::from_secs(1);
    recipe
}

/// The recipe with the small model of the tests.
pub(crate) fn resolved(recipe: &LoopSettings) -> ResolvedRecipe {
    recipe::Program::of(recipe).resolved().unwrap()
}

/// Three services that can be killed and started again on their ports.
pub(crate) struct Cluster {
    pub(crate) generation: FakeGeneration,
    pub(crate) reward: FakeReward,
    pub(crate) learner: FakeLearner,
    settings: ServerSettings,
    servers: [Option<RunningServer>; 3],
    addresses: [String; 3],
}

pub(crate) const GENERATION: usize = 0;
pub(crate) const REWARD: usize = 1;
pub(crate) const LEARNER: usize = 2;

async fn bind(address: &str, settings: &ServerSettings) -> Server {
    let settings = ServerSettings { listen: address.to_owned(), drain: Duration::from_millis(500), ..settings.clone() };
    for _ in 0..200 {
        match Server::bind("fake", "server", settings.clone()).await {
            Ok(server) => return server,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("{address} stays taken");
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::start_with(ServerSettings::default()).await
    }

    /// With settings of all three servers.
    pub(crate) async fn start_with(settings: ServerSettings) -> Self {
        let mut cluster = Self {
            generation: FakeGeneration::default(),
            reward: FakeReward::default(),
            learner: FakeLearner::default(),
            settings,
            servers: [None, None, None],
            addresses: std::array::from_fn(|_| "127.0.0.1:0".to_owned()),
        };
        for service in 0..3 {
            cluster.up(service).await;
        }
        cluster
    }

    /// Starts a service on its previous port, with empty memory.
    pub(crate) async fn up(&mut self, service: usize) {
        let server = bind(&self.addresses[service], &self.settings).await;
        self.addresses[service] = server.address().to_string();
        let drain = server.drain();
        let server = match service {
            GENERATION => server.with_service(GenerationServer::new(self.generation.restarted(drain))),
            REWARD => server.with_service(RewardServer::new(self.reward.restarted(drain))),
            _ => server.with_service(LearnerServer::new(self.learner.restarted())),
        };
        self.servers[service] = Some(server.spawn());
    }

    pub(crate) async fn down(&mut self, service: usize) {
        if let Some(server) = self.servers[service].take() {
            let _ = server.kill().await;
        }
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        let url = |service: usize| format!("http://{}", self.addresses[service]);
        Endpoints {
            generation: url(GENERATION),
            reward: vec![url(REWARD)],
            learner: url(LEARNER),
            environment: Vec::new(),
            described: Default::default(),
            verifiers: Default::default(),
        }
    }

    pub(crate) fn begin(&self, path: &Path, recipe: &LoopSettings) -> RunHandle {
        let recipe = resolved(recipe);
        let directory = RunDirectory::create(path, recipe.record()).unwrap();
        start_run(recipe, directory, self.endpoints(), RunOptions::default()).unwrap()
    }

    /// Why a run is refused before it starts.
    pub(crate) fn refused(&self, path: &Path, recipe: &LoopSettings) -> String {
        let recipe = resolved(recipe);
        let directory = RunDirectory::create(path, recipe.record()).unwrap();
        let refused = start_run(recipe, directory, self.endpoints(), RunOptions::default()).err();
        refused.expect("the run is refused").to_string()
    }

    pub(crate) fn resume(&self, path: &Path, recipe: &LoopSettings) -> RunHandle {
        let recipe = resolved(recipe);
        let directory = RunDirectory::resume(path, recipe.record()).unwrap();
        start_run(recipe, directory, self.endpoints(), RunOptions::default()).unwrap()
    }

    /// Runs to the end.
    pub(crate) async fn run(
        &self,
        path: &Path,
        recipe: &LoopSettings,
    ) -> (Vec<Arc<Event>>, Result<(RunOutcome, Summary), RunError>) {
        finish(self.begin(path, recipe)).await
    }

    /// Runs a recipe to its end while services are lost and come back, each once a step has begun. One of them is the
    /// learner, after which the run goes on from a checkpoint.
    pub(crate) async fn run_with_losses(&mut self, path: &Path, recipe: &LoopSettings, losses: &[(u64, usize)]) {
        self.generation.state.max_delay_ms.store(20, Ordering::Relaxed);
        let handle = self.begin(path, recipe);
        let progress = handle.progress();
        let following = tokio::spawn(finish(handle));
        for &(step, service) in losses {
            until(|| progress.borrow().step >= step).await;
            self.down(service).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.up(service).await;
        }
        let (events, result) = following.await.unwrap();
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        assert!(events.iter().any(|event| matches!(&**event, Event::Rewound { .. })));
    }
}

/// Follows a run to its end.
pub(crate) async fn finish(mut handle: RunHandle) -> (Vec<Arc<Event>>, Result<(RunOutcome, Summary), RunError>) {
    let mut events = Vec::new();
    while let Some(event) = handle.next_event().await {
        let last = matches!(&*event, Event::Finished { .. } | Event::Failed { .. });
        events.push(event);
        if last {
            break;
        }
    }
    (events, handle.join().await)
}

/// The lines of a run of that recipe without any failure.
pub(crate) async fn uninterrupted(recipe: &LoopSettings) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let (_, result) = Cluster::start().await.run(&path, recipe).await;
    assert_eq!(result.unwrap().0, RunOutcome::Completed);
    lines(&path)
}

/// All lines of a run, without the values that may differ.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let files = [
        ("warm_start.jsonl", StepKind::WarmStart, LineKind::WarmStart),
        ("metrics.jsonl", StepKind::Train, LineKind::Train),
        ("evaluation.jsonl", StepKind::Evaluation, LineKind::Evaluation),
    ];
    let mut all = Vec::new();
    for (name, kind, line_kind) in files {
        for line in std::fs::read_to_string(path.join(name)).unwrap().lines() {
            let mut line = MetricsLine::from_json(kind, line).unwrap();
            every_value_has_a_row(&line, line_kind);
            line.values.retain(|name, _| !may_differ(name));
            all.push(format!("{name} {}", line.to_json()));
        }
    }
    all.extend(std::fs::read_to_string(path.join("prompts.jsonl")).unwrap().lines().map(str::to_owned));
    all
}

/// The lines of GRPO steps.
pub(crate) fn metrics(path: &Path) -> Vec<MetricsLine> {
    let text = std::fs::read_to_string(path.join("metrics.jsonl")).unwrap();
    let lines: Vec<_> = text.lines().map(|line| MetricsLine::from_json(StepKind::Train, line).unwrap()).collect();
    lines.iter().for_each(|line| every_value_has_a_row(line, LineKind::Train));
    lines
}

/// Every name in a line is that of a metric which such lines may have.
pub(crate) fn every_value_has_a_row(line: &MetricsLine, kind: LineKind) {
    for name in line.values.keys() {
        let row = table::find(name).unwrap_or_else(|| panic!("no row of the table of metrics has {name}"));
        assert!(row.lines.contains(&kind), "{name} in a line of {}", kind.label());
    }
}

pub(crate) fn temp() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    (dir, path)
}

/// Waits until something holds; the test's bound ends it if it never does.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for a condition that needs a call.
pub(crate) async fn until_async(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Kills a run repeatedly after random times until it comes through; `with_learner` kills that, too. Returns how often
/// it was killed.
pub(crate) async fn kill_until_it_comes_through(
    cluster: &mut Cluster,
    path: &Path,
    recipe: &LoopSettings,
    with_learner: bool,
    seed: u64,
) -> u64 {
    let mut kills = 0;
    let mut handle = cluster.begin(path, recipe);
    loop {
        // Later tries get farther, so that one of them comes through. The moment within a step is left to chance.
        for _ in 0..1 + mix(seed ^ kills) % (3 + 2 * kills) {
            handle.next_event().await;
        }
        tokio::time::sleep(Duration::from_millis(mix(!seed ^ kills) % 8)).await;
        let is_through = handle.progress().borrow().step == recipe.run.steps;
        if kills > 0 && (is_through || kills == 12) {
            break;
        }
        handle.kill().await;
        kills += 1;
        if with_learner {
            cluster.down(LEARNER).await;
            cluster.up(LEARNER).await;
        }
        handle = cluster.resume(path, recipe);
    }
    assert_eq!(finish(handle).await.1.unwrap().0, RunOutcome::Completed);
    assert!(kills > 0);
    kills
}

/// Kills a run as above and compares it with the undisturbed run. Returns the services.
pub(crate) async fn kill_and_resume(recipe: &LoopSettings, with_learner: bool, seed: u64) -> Cluster {
    let (_dir, path) = temp();
    let mut cluster = Cluster::start().await;
    let kills = kill_until_it_comes_through(&mut cluster, &path, recipe, with_learner, seed).await;
    assert_eq!(lines(&path), uninterrupted(recipe).await, "after {kills} kills");
    cluster
}
