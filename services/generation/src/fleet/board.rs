//! Who gets which sample: the engine with the least outstanding tokens, in order of arrival. Plain state, without I/O and without
//! a clock of its own.
//!
//! Only engines that have the target's weights are usable, so that a sample that waits can be given to any of them.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::seat::{Seat, Standing};
use super::session::Session;
use crate::weights::Target;

/// Waiting samples from which on those that nobody waits for any more are looked for.
const PURGE_FROM: usize = 1024;

/// What a sample wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Want {
    /// Tokens that it may take.
    pub(crate) tokens: u64,
    /// Its group; empty for none.
    pub(crate) group: String,
    /// The version that must sample it.
    pub(crate) version: Option<u64>,
    /// The engine that failed at it last.
    pub(crate) avoid: Option<usize>,
}

/// An engine that was given a sample.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) engine: usize,
    pub(crate) tokens: u64,
    pub(crate) session: Arc<Session>,
}

/// Why a sample gets no engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No engine has the version that it wants.
    Version { wanted: u64, current: u64 },
    /// There has been no engine for too long.
    NoEngine,
}

type Reply = oneshot::Sender<Result<Grant, Refusal>>;

/// A sample that waits for an engine.
#[derive(Debug)]
struct Waiter {
    want: Want,
    reply: Reply,
}

/// Answers that are sent once the board is unlocked: a receiver that went away gives its engine back to the board.
#[must_use]
pub(crate) struct Answers(Vec<(Reply, Result<Grant, Refusal>)>);

impl Answers {
    /// Hands them over; what nobody takes comes back.
    pub(crate) fn send(self) -> Vec<Grant> {
        self.0.into_iter().filter_map(|(reply, answer)| reply.send(answer).err()?.ok()).collect()
    }
}

/// Engines and waiting samples.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) seats: Vec<Seat>,
    pub(crate) target: Arc<Target>,
    waiting: VecDeque<Waiter>,
    purge_at: usize,
    given: u64,
    limit: usize,
    affinity: u64,
    /// Since when there is no engine that samples or is about to.
    none_since: Option<Instant>,
    unavailable_after: Duration,
}

impl Board {
    /// A board with `engines` seats that are not usable yet.
    pub(crate) fn new(
        engines: usize,
        target: Target,
        limit: usize,
        affinity: u32,
        unavailable_after: Duration,
    ) -> Self {
        let (target, now) = (Arc::new(target), Instant::now());
        Self {
            seats: (0..engines).map(|_| Seat::new(&target, limit, now)).collect(),
            target,
            waiting: VecDeque::new(),
            purge_at: PURGE_FROM,
            given: 0,
            limit,
            affinity: affinity.into(),
            none_since: Some(now),
            unavailable_after,
        }
    }

    /// One more seat, not usable yet. Returns its number.
    pub(crate) fn add(&mut self, now: Instant) -> usize {
        self.seats.push(Seat::new(&self.target, self.limit, now));
        self.seats.len() - 1
    }

    /// An engine now, or an answer later.
    pub(crate) fn ask(&mut self, want: Want, now: Instant) -> Result<Grant, oneshot::Receiver<Result<Grant, Refusal>>> {
        let (reply, answer) = oneshot::channel();
        let refusal = match want.version {
            Some(wanted) if wanted != self.target.version => {
                Some(Refusal::Version { wanted, current: self.target.version })
            }
            _ if self.is_unavailable(now) => Some(Refusal::NoEngine),
            _ => None,
        };
        if let Some(refusal) = refusal {
            // The receiver is in this very function.
            let _ = reply.send(Err(refusal));
            return Err(answer);
        }
        if self.waiting.is_empty()
            && let Some(engine) = self.choose(&want)
        {
            return Ok(self.give(engine, want.tokens));
        }
        self.waiting.push_back(Waiter { want, reply });
        if self.waiting.len() >= self.purge_at {
            self.waiting.retain(|waiter| !waiter.reply.is_closed());
            self.purge_at = (2 * self.waiting.len()).max(PURGE_FROM);
        }
        Err(answer)
    }

    /// A sample has left its engine.
    pub(crate) fn release(&mut self, engine: usize, tokens: u64) -> Answers {
        let seat = &mut self.seats[engine];
        seat.in_flight -= 1;
        seat.tokens -= tokens;
        self.pump()
    }

    /// Changes the standing of an engine; what waits may get it.
    pub(crate) fn change(
        &mut self,
        engine: usize,
        now: Instant,
        change: impl FnOnce(&mut Seat, &Arc<Target>),
    ) -> Answers {
        change(&mut self.seats[engine], &self.target);
        self.look(now);
        self.pump()
    }

    /// Other weights from now on: nothing is given until an engine has them. What waits for another version is refused.
    pub(crate) fn aim(&mut self, target: Arc<Target>, now: Instant) -> Answers {
        self.target = target;
        for seat in self.seats.iter_mut().filter(|seat| seat.standing.is_usable()) {
            seat.standing = Standing::Paused;
        }
        self.look(now);
        let current = self.target.version;
        let (keep, refused): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiter| waiter.want.version.is_none_or(|wanted| wanted == current));
        self.waiting = keep;
        let refuse = |waiter: Waiter| {
            let wanted = waiter.want.version.unwrap_or(current);
            (waiter.reply, Err(Refusal::Version { wanted, current }))
        };
        Answers(refused.into_iter().map(refuse).collect())
    }

    /// Refuses everything that waits once there has been no engine for too long.
    pub(crate) fn expire(&mut self, now: Instant) -> Answers {
        if !self.is_unavailable(now) {
            return Answers(Vec::new());
        }
        Answers(self.waiting.drain(..).map(|waiter| (waiter.reply, Err(Refusal::NoEngine))).collect())
    }

    /// Whether there is no engine that samples or is about to.
    pub(crate) fn has_none(&self) -> bool {
        self.none_since.is_some()
    }

    fn is_unavailable(&self, now: Instant) -> bool {
        self.none_since.is_some_and(|since| now.saturating_duration_since(since) >= self.unavailable_after)
    }

    fn look(&mut self, now: Instant) {
        let some = self.seats.iter().any(|seat| seat.standing.is_usable() || seat.standing == Standing::Paused);
        self.none_since = if some { None } else { Some(self.none_since.unwrap_or(now)) };
    }

    fn pump(&mut self) -> Answers {
        let mut answers = Vec::new();
        while let Some(front) = self.waiting.front() {
            if !front.reply.is_closed() {
                let Some(engine) = self.choose(&front.want) else { break };
                let tokens = front.want.tokens;
                let grant = self.give(engine, tokens);
                let waiter = self.waiting.pop_front().expect("the front was just looked at");
                answers.push((waiter.reply, Ok(grant)));
            } else {
                self.waiting.pop_front();
            }
        }
        Answers(answers)
    }

    fn give(&mut self, engine: usize, tokens: u64) -> Grant {
        self.given += 1;
        let seat = &mut self.seats[engine];
        seat.in_flight += 1;
        seat.tokens += tokens;
        seat.last_given = self.given;
        Grant { engine, tokens, session: Arc::clone(&seat.session) }
    }

    fn choose(&self, want: &Want) -> Option<usize> {
        let free = |engine: &usize| self.seats[*engine].takes();
        let busyness = |&engine: &usize| {
            let seat = &self.seats[engine];
            // Who failed at it is asked again only where nobody else is free.
            (want.avoid == Some(engine), seat.tokens, seat.last_given)
        };
        let least = (0..self.seats.len()).filter(free).min_by_key(busyness)?;
        if self.affinity == 0 || want.group.is_empty() || self.seats.len() == 1 {
            return Some(least);
        }
        let usable = (0..self.seats.len()).filter(|&engine| self.seats[engine].standing.is_usable());
        let home = usable.max_by_key(|&engine| rendezvous(&want.group, engine))?;
        let slack = self.affinity.saturating_mul(want.tokens);
        let close = self.seats[home].tokens <= self.seats[least].tokens.saturating_add(slack);
        Some(if free(&home) && close && want.avoid != Some(home) { home } else { least })
    }
}

/// How much a group likes an engine. When an engine leaves, only its own groups move.
fn rendezvous(group: &str, engine: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, engine).hash(&mut hasher);
    hasher.finish()
}
