//! Which engines there are. They join and leave while the service runs; numbers are for good, so that whoever holds one never means
//! another engine.

use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use super::{Fleet, Member, SeatStatus, Standing};
use crate::engine::Engine;

impl Fleet {
    /// One more engine, which gets no sample before it was looked at. Returns its number.
    pub(crate) fn join(&self, engine: Box<dyn Engine>) -> usize {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.push(Arc::new(Member::new(engine)));
        self.lock().add(Instant::now())
    }

    /// An engine whose address is gone finishes what it has and gets nothing more.
    pub(crate) fn leave(&self, engine: usize) {
        self.change(engine, |seat, _| seat.standing = Standing::Leaving);
    }

    /// An engine whose address is back is looked at like one that was lost.
    pub(crate) fn rejoin(&self, engine: usize) {
        self.change(engine, |seat, _| seat.standing = Standing::Open);
        self.member(engine).kick.notify_one();
    }

    /// The engine of this number.
    pub(crate) fn member(&self, engine: usize) -> Arc<Member> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&members[engine])
    }

    /// Numbers of the engines that are not leaving.
    pub(crate) fn present(&self) -> Vec<usize> {
        let seats = self.seats().into_iter().enumerate();
        seats.filter(|(_, seat)| seat.standing != Standing::Leaving).map(|(engine, _)| engine).collect()
    }

    /// Whether an engine has left: it is leaving, and has nothing in work any more.
    pub(crate) fn has_left(&self, engine: usize) -> bool {
        self.lock().seats[engine].has_left()
    }

    /// Every engine that has not left, with its state.
    pub(crate) fn lines(&self) -> Vec<(Arc<Member>, SeatStatus)> {
        // Held until the seats were read, so that both are of the same moment.
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let lines = members.iter().cloned().zip(self.seats());
        lines.filter(|(_, seat)| seat.standing != Standing::Leaving || seat.in_flight > 0).collect()
    }
}
