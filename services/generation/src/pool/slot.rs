//! A slot on an engine, held by one sample.

use std::sync::Arc;

use evenkeel_rpc::error::ServiceError;
use tokio::sync::oneshot;

use super::EnginePool;
use super::engine::PooledEngine;
use super::request::{Assignment, Rejection, Reply};
use super::weights::WeightsSession;
use crate::engine::EngineClientError;

/// A sample's slot on an engine. Dropping it frees the slot.
pub(crate) struct EngineSlot {
    pool: Arc<EnginePool>,
    assignment: Assignment,
    engine: Arc<PooledEngine>,
}

impl EngineSlot {
    pub(super) fn new(pool: Arc<EnginePool>, assignment: Assignment) -> Self {
        let engine = pool.engine(assignment.engine);
        Self { pool, assignment, engine }
    }

    pub(crate) fn engine(&self) -> &Arc<PooledEngine> {
        &self.engine
    }

    /// The adapter that the engine samples from, by its name; `None`: from its model.
    pub(crate) fn adapter(&self) -> Option<&str> {
        self.engine.adapter_name(self.session().weights())
    }

    /// The session that the sample belongs to.
    pub(crate) fn session(&self) -> &WeightsSession {
        &self.assignment.session
    }

    pub(crate) fn record_success(&self, tokens: usize) {
        self.pool.record_success(&self.engine, tokens);
    }

    /// The sample failed, through no fault of its own.
    pub(crate) fn record_failure(&self, error: &EngineClientError) {
        self.pool.record_failure(&self.engine, error);
    }

    /// Makes sure that what the engine has sent so far was sampled from the session's weights.
    pub(crate) async fn verify_weights(&self) -> Result<(), EngineClientError> {
        self.pool.verify_weights(&self.engine, self.session()).await
    }
}

impl Drop for EngineSlot {
    fn drop(&mut self) {
        self.pool.release(&self.assignment);
    }
}

/// A sample that asks for a version, until it is answered: engines keep an adapter that it may need again.
pub(crate) struct Wanted {
    pool: Arc<EnginePool>,
    version: u64,
}

impl Wanted {
    pub(super) fn new(pool: Arc<EnginePool>, version: u64) -> Self {
        pool.balancer().want(version);
        Self { pool, version }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let was_last = self.pool.balancer().no_longer_wants(self.version);
        if was_last && self.version != self.pool.weights().number && self.pool.adapter_limits().is_some() {
            self.pool.members().iter().for_each(|engine| engine.request_check());
        }
    }
}

/// A request in the balancer's queue. An assignment that comes after it was dropped is released.
pub(super) struct PendingSlot<'a> {
    pool: &'a Arc<EnginePool>,
    reply: oneshot::Receiver<Reply>,
}

impl<'a> PendingSlot<'a> {
    pub(super) fn new(pool: &'a Arc<EnginePool>, reply: oneshot::Receiver<Reply>) -> Self {
        Self { pool, reply }
    }

    pub(super) async fn granted(mut self) -> Result<EngineSlot, ServiceError> {
        // The balancer answers every request before it is dropped, and the pool outlives this.
        match (&mut self.reply).await.unwrap_or(Err(Rejection::NoEngine)) {
            Ok(assignment) => Ok(EngineSlot::new(Arc::clone(self.pool), assignment)),
            Err(rejection) => Err(self.pool.explain(&rejection)),
        }
    }
}

impl Drop for PendingSlot<'_> {
    fn drop(&mut self) {
        self.reply.close();
        if let Ok(Ok(assignment)) = self.reply.try_recv() {
            self.pool.release(&assignment);
        }
    }
}
