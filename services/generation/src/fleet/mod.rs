//! All engines: who gets a sample, who is given up, and what each is known to be.

mod adopt;
mod board;
mod confirm;
mod follow;
mod lease;
mod member;
mod monitor;
mod rate;
mod roster;
mod seat;
mod session;

#[cfg(test)]
mod board_tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_rpc::error::ServiceError;
use tokio::time::Instant;

use crate::engine::{Demand, EngineError};
use crate::model::Model;
use crate::settings::{EngineConfig, GenerationConfig};
use crate::weights::Target;
use board::{Answers, Board, Grant, Refusal};

pub(crate) use board::Want;
pub(crate) use follow::{MakeEngine, follow, one_each};
pub(crate) use lease::Lease;
pub(crate) use member::{Control, Member};
pub(crate) use monitor::{look_after, watch};
pub(crate) use seat::Standing;
pub(crate) use session::{Cut, Session};

/// All engines.
pub(crate) struct Fleet {
    /// By number. Engines join and leave; a number is never given twice.
    members: RwLock<Vec<Arc<Member>>>,
    /// What the engines serve, once one of them was probed.
    pub(crate) model: OnceLock<Model>,
    pub(crate) settings: GenerationConfig,
    /// Engines are to sleep.
    resting: AtomicBool,
    board: Mutex<Board>,
}

/// What is known of an engine at a moment.
#[derive(Debug, Clone)]
pub(crate) struct SeatStatus {
    pub(crate) standing: Standing,
    pub(crate) said: Option<u64>,
    pub(crate) in_flight: usize,
    pub(crate) tokens: u64,
    pub(crate) tokens_per_second: f64,
    pub(crate) failures: u32,
    pub(crate) last_error: String,
    pub(crate) demand: Option<Demand>,
}

impl Fleet {
    /// Without engines yet.
    pub(crate) fn new(settings: GenerationConfig) -> Self {
        let after = Duration::from_millis(settings.engine.unavailable_after_ms);
        let (limit, affinity) = (settings.max_in_flight, settings.affinity_samples);
        let board = Mutex::new(Board::new(0, Target::initial(None), limit, affinity, after));
        Self { members: RwLock::default(), model: OnceLock::new(), settings, resting: AtomicBool::new(false), board }
    }

    pub(crate) fn engine_settings(&self) -> &EngineConfig {
        &self.settings.engine
    }

    /// Longest sequence that every engine takes.
    pub(crate) fn context_tokens(&self) -> u32 {
        let (members, board) = (self.members.read().unwrap_or_else(PoisonError::into_inner), self.lock());
        let shortest = |also_left: bool| {
            let there = members.iter().zip(&board.seats).filter(|(_, seat)| also_left || !seat.has_left());
            there.filter_map(|(member, _)| member.info.get().map(|info| info.context_tokens)).min()
        };
        // While new engines are looked at, that of the ones before them.
        shortest(false).or_else(|| shortest(true)).unwrap_or(0)
    }

    /// The weights that samples are drawn from.
    pub(crate) fn target(&self) -> Arc<Target> {
        Arc::clone(&self.lock().target)
    }

    /// An engine for a sample, as soon as there is one.
    pub(crate) async fn acquire(self: &Arc<Self>, want: Want) -> Result<Lease, ServiceError> {
        let asked = self.lock().ask(want, Instant::now());
        let answer = match asked {
            Ok(grant) => return Ok(Lease::new(Arc::clone(self), grant)),
            Err(answer) => Answer { fleet: self, answer },
        };
        match answer.wait().await {
            Ok(grant) => Ok(Lease::new(Arc::clone(self), grant)),
            Err(refusal) => Err(self.explain(&refusal)),
        }
    }

    /// A sample succeeded.
    pub(crate) fn succeeded(&self, lease: &Lease, tokens: usize) {
        self.change(lease.engine(), |seat, _| seat.succeed(tokens, Instant::now()));
    }

    /// A sample failed, and it was not the sample's fault.
    pub(crate) fn failed(&self, lease: &Lease, error: &EngineError) {
        let (engine, member) = (lease.engine(), lease.member());
        metrics::counter!(
            "evenkeel_engine_failures_total", "engine" => member.name.clone(), "kind" => error.kind()
        )
        .increment(1);
        self.change(engine, |seat, _| seat.fail(error, self.engine_settings(), Instant::now()));
        tracing::debug!(engine = member.name, %error, "sample failed");
        member.kick.notify_one();
    }

    /// Changes what an engine is good for, and gives it what waits.
    pub(crate) fn change(&self, engine: usize, change: impl FnOnce(&mut seat::Seat, &Arc<Target>)) {
        let answers = self.lock().change(engine, Instant::now(), change);
        self.hand_over(answers);
    }

    /// An engine samples, and has these weights. Without effect where other ones are wanted meanwhile, or where it is leaving.
    pub(crate) fn admit(&self, engine: usize, standing: Standing, has: &Target) {
        self.change(engine, |seat, target| {
            if **target == *has && seat.standing != Standing::Leaving {
                seat.begin(standing, target);
            }
        });
    }

    /// An engine gets nothing more, and what it has is taken back.
    pub(crate) fn lose(&self, engine: usize, standing: Standing, why: &str) {
        self.change(engine, |seat, _| seat.lose(standing, why));
    }

    /// Other weights from now on.
    pub(crate) fn aim(&self, target: Target) -> Arc<Target> {
        let target = Arc::new(target);
        let answers = self.lock().aim(Arc::clone(&target), Instant::now());
        self.hand_over(answers);
        target
    }

    /// An engine says that its weights are these.
    pub(crate) fn heard(&self, engine: usize, version: Option<u64>) {
        self.lock().seats[engine].said = version;
    }

    /// What an engine's metrics say of its load.
    pub(crate) fn hears(&self, engine: usize, demand: Option<Demand>, max_waiting: u64) {
        self.change(engine, |seat, _| seat.hears(demand, max_waiting));
    }

    /// Whether an engine failed at so many samples that it must prove itself, and until when it is left alone.
    pub(crate) fn proof(&self, engine: usize) -> (bool, Option<Instant>) {
        let board = self.lock();
        let seat = &board.seats[engine];
        (seat.failures >= self.engine_settings().breaker_failures, seat.resting)
    }

    /// The standing of an engine, and the weights that it should have at the same moment.
    pub(crate) fn standing(&self, engine: usize) -> (Standing, Arc<Target>) {
        let board = self.lock();
        (board.seats[engine].standing, Arc::clone(&board.target))
    }

    /// An engine's time under its present weights.
    pub(crate) fn session(&self, engine: usize) -> Arc<Session> {
        Arc::clone(&self.lock().seats[engine].session)
    }

    /// Ends when an engine has no sample.
    pub(crate) async fn idle(&self, engine: usize) {
        let member = self.member(engine);
        loop {
            let left = member.idle.notified();
            if self.lock().seats[engine].in_flight == 0 {
                return;
            }
            left.await;
        }
    }

    /// Whether engines are to sleep from now on.
    pub(crate) fn rest(&self, rest: bool) {
        self.resting.store(rest, Ordering::Release);
    }

    /// Whether engines are to sleep.
    pub(crate) fn rests(&self) -> bool {
        self.resting.load(Ordering::Acquire)
    }

    /// Refuses what waits once there has been no engine for too long.
    pub(crate) fn expire(&self) {
        let answers = self.lock().expire(Instant::now());
        self.hand_over(answers);
    }

    /// Why there is no engine. `None` where there is one.
    pub(crate) fn why_none(&self) -> Option<ServiceError> {
        if self.lock().has_none() { Some(self.explain(&Refusal::NoEngine)) } else { None }
    }

    /// The state of every engine, by number.
    fn seats(&self) -> Vec<SeatStatus> {
        let now = Instant::now();
        let status = |seat: &mut seat::Seat| SeatStatus {
            standing: seat.standing,
            said: seat.said,
            in_flight: seat.in_flight,
            tokens: seat.tokens,
            tokens_per_second: seat.rate.per_second(now),
            failures: seat.failures,
            last_error: seat.last_error.clone(),
            demand: seat.demand,
        };
        self.lock().seats.iter_mut().map(status).collect()
    }

    fn explain(&self, refusal: &Refusal) -> ServiceError {
        match refusal {
            Refusal::Version { wanted, current } => ServiceError::Precondition {
                reason: "VERSION_NOT_THERE",
                message: format!("policy_version is {wanted}, allowed: {current}, which the engines have"),
            },
            Refusal::NoEngine => {
                let states = self.lines().into_iter().map(|(member, seat)| {
                    format!("{} is {:?}: {}", member.name, seat.standing, seat.last_error).to_lowercase()
                });
                let states = states.collect::<Vec<_>>().join("; ");
                let states = if states.is_empty() { "none is there".to_owned() } else { states };
                ServiceError::Unavailable { reason: "NO_ENGINE", message: format!("no engine can sample: {states}") }
            }
        }
    }

    fn give_back(&self, grant: &Grant) {
        let answers = self.lock().release(grant.engine, grant.tokens);
        self.member(grant.engine).idle.notify_waiters();
        self.hand_over(answers);
    }

    /// Sends answers, and gives back what nobody took, which may answer others in turn.
    fn hand_over(&self, answers: Answers) {
        let mut untaken = answers.send();
        while let Some(grant) = untaken.pop() {
            let more = self.lock().release(grant.engine, grant.tokens);
            self.member(grant.engine).idle.notify_waiters();
            untaken.extend(more.send());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        // Nothing that is done under the lock leaves the board half changed.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that is waited for. One that comes too late is given back.
struct Answer<'a> {
    fleet: &'a Fleet,
    answer: tokio::sync::oneshot::Receiver<Result<Grant, Refusal>>,
}

impl Answer<'_> {
    async fn wait(mut self) -> Result<Grant, Refusal> {
        // The board answers everything that waits before it is dropped, and the fleet outlives this.
        (&mut self.answer).await.unwrap_or(Err(Refusal::NoEngine))
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(grant)) = self.answer.try_recv() {
            self.fleet.give_back(&grant);
        }
    }
}
