//! One engine on the board.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::EngineHealth;
use tokio::time::Instant;

use super::rate::Rate;
use super::session::{Cut, Session};
use crate::engine::{Blame, Demand, EngineError};
use crate::settings::EngineConfig;
use crate::weights::Target;

/// An engine on probation gets this part of what a healthy one may have.
const PROBATION_PART: usize = 8;

/// What an engine is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Samples.
    Healthy,
    /// Few samples, until one succeeds.
    Suspect,
    /// No samples until a probe succeeds.
    Open,
    /// No samples until its weights are changed.
    Paused,
    /// No samples until it has the weights.
    Stale,
    /// No samples any more: its address is gone. What it has in work is finished.
    Leaving,
}

impl Standing {
    pub(crate) fn is_usable(self) -> bool {
        matches!(self, Self::Healthy | Self::Suspect)
    }

    pub(crate) fn health(self) -> EngineHealth {
        match self {
            Self::Healthy => EngineHealth::Healthy,
            Self::Suspect => EngineHealth::Suspect,
            Self::Open => EngineHealth::Open,
            Self::Paused => EngineHealth::Paused,
            Self::Stale => EngineHealth::Stale,
            Self::Leaving => EngineHealth::Draining,
        }
    }
}

/// What the board knows of an engine.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) standing: Standing,
    pub(crate) session: Arc<Session>,
    /// Samples in work.
    pub(crate) in_flight: usize,
    /// Tokens still expected of them at most.
    pub(crate) tokens: u64,
    /// Failed samples in a row.
    pub(crate) failures: u32,
    /// Until when it is left alone, where it failed at too many samples.
    pub(super) resting: Option<Instant>,
    /// The last failure. Empty: none yet.
    pub(crate) last_error: String,
    /// The version that it said last.
    pub(crate) said: Option<u64>,
    /// Number of its last sample, so that equals take turns.
    pub(super) last_given: u64,
    pub(super) rate: Rate,
    limit: usize,
    /// What its metrics said last.
    pub(crate) demand: Option<Demand>,
    /// Most samples that it may have while more wait in it than may. `None`: no such bound.
    room: Option<usize>,
}

impl Seat {
    pub(super) fn new(target: &Arc<Target>, limit: usize, now: Instant) -> Self {
        Self {
            standing: Standing::Open,
            session: Session::new(Arc::clone(target)),
            in_flight: 0,
            tokens: 0,
            failures: 0,
            resting: None,
            last_error: String::new(),
            said: None,
            last_given: 0,
            rate: Rate::new(now),
            limit,
            demand: None,
            room: None,
        }
    }

    /// Whether it is leaving and has nothing in work any more.
    pub(super) fn has_left(&self) -> bool {
        self.standing == Standing::Leaving && self.in_flight == 0
    }

    /// Whether it may get another sample.
    pub(super) fn takes(&self) -> bool {
        let limit = match self.standing {
            Standing::Healthy => self.limit,
            Standing::Suspect => (self.limit / PROBATION_PART).max(1),
            Standing::Open | Standing::Paused | Standing::Stale | Standing::Leaving => 0,
        };
        self.in_flight < limit.min(self.room.unwrap_or(limit))
    }

    /// From now on it samples from `target`.
    pub(super) fn begin(&mut self, standing: Standing, target: &Arc<Target>) {
        // Requests of before go on under the name of the weights that they began with.
        if self.session.target != *target || self.session.is_cut() || self.session.pausing().is_some() {
            self.session = Session::new(Arc::clone(target));
        }
        self.said = Some(target.version);
        self.standing = standing;
    }

    /// Its metrics say how much it has. What waits in it waits better here, where another engine may become free first: it keeps as
    /// many samples as leave `max_waiting` waiting, at least one.
    pub(super) fn hears(&mut self, demand: Option<Demand>, max_waiting: u64) {
        self.demand = demand;
        let over = demand.map_or(0, |demand| demand.waiting.saturating_sub(max_waiting));
        let over = usize::try_from(over).unwrap_or(usize::MAX);
        self.room = (over > 0).then(|| self.in_flight.saturating_sub(over).max(1));
    }

    /// A sample succeeded.
    pub(super) fn succeed(&mut self, tokens: usize, now: Instant) {
        (self.failures, self.resting) = (0, None);
        self.rate.add(now, tokens as u64);
        if self.standing == Standing::Suspect {
            self.standing = Standing::Healthy;
        }
    }

    /// A sample failed, and it was not the sample's fault.
    pub(super) fn fail(&mut self, error: &EngineError, settings: &EngineConfig, now: Instant) {
        // An engine that was changed or given up meanwhile has been judged already.
        if !self.standing.is_usable() || self.session.is_cut() {
            return;
        }
        self.last_error = error.to_string();
        if error.blame() == Blame::Connection {
            // Whoever looks after it finds out at once whether it is there.
            self.standing = Standing::Open;
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.standing = Standing::Suspect;
        if let Some(over) = self.failures.checked_sub(settings.breaker_failures) {
            let pause = settings.probe_initial_ms.saturating_mul(1 << over.min(20)).min(settings.probe_max_ms);
            self.resting = Some(now + Duration::from_millis(pause));
            self.standing = Standing::Open;
        }
    }

    /// Nothing more from it, and nothing of what it has.
    pub(super) fn lose(&mut self, standing: Standing, why: &str) {
        if self.standing != Standing::Leaving {
            self.standing = standing;
        }
        self.last_error = why.to_owned();
        self.session.cut(Cut::Lost(why.to_owned()));
    }
}
