//! An engine in the hands of one sample.

use std::sync::Arc;

use super::board::Grant;
use super::session::Session;
use super::{Fleet, Member};

/// A sample's place on an engine; dropping it gives the place back.
pub(crate) struct Lease {
    fleet: Arc<Fleet>,
    grant: Grant,
    member: Arc<Member>,
}

impl Lease {
    pub(super) fn new(fleet: Arc<Fleet>, grant: Grant) -> Self {
        let member = fleet.member(grant.engine);
        Self { fleet, grant, member }
    }

    /// Number of the engine.
    pub(crate) fn engine(&self) -> usize {
        self.grant.engine
    }

    /// The engine.
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// The engine's time under its present weights.
    pub(crate) fn session(&self) -> &Session {
        &self.grant.session
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.fleet.give_back(&self.grant);
    }
}
