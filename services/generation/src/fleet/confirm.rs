//! Whose weights a sample really came from. An engine that restarts begins with its first weights and says nothing about it; but
//! it cannot be reached over a connection that was made before. So its weights are asked for after each new connection, and a
//! sample counts once the connections that there were are confirmed. Connections are kept: this costs next to nothing.

use std::sync::atomic::Ordering;

use super::{Fleet, Lease, Standing};
use crate::engine::EngineError;

impl Fleet {
    /// Whether what came over the connections so far was sampled from the lease's weights.
    pub(crate) async fn confirm(&self, lease: &Lease) -> Result<(), EngineError> {
        let member = lease.member();
        if member.confirmed.load(Ordering::Acquire) < member.engine.connections() {
            let _turn = member.confirming.lock().await;
            let connections = member.engine.connections();
            if member.confirmed.load(Ordering::Acquire) < connections {
                let says = member.engine.weights().await?;
                let target = &lease.session().target;
                // An engine that never says was believed when it was given its weights.
                if says.is_some() && !target.is(says.as_deref()) {
                    let error = EngineError::Weights {
                        says: says.unwrap_or_default(),
                        expected: target.label.as_deref().unwrap_or("those that it began with").to_owned(),
                    };
                    self.lose(lease.engine(), Standing::Stale, &error.to_string());
                    member.kick.notify_one();
                    return Err(error);
                }
                member.confirmed.store(connections, Ordering::Release);
            }
        }
        if lease.session().is_cut() {
            return Err(EngineError::TakenBack { reason: "its engine was lost meanwhile".to_owned() });
        }
        Ok(())
    }

    /// Whether nothing is left to confirm of an engine.
    pub(crate) fn is_confirmed(&self, engine: usize) -> bool {
        let member = self.member(engine);
        member.confirmed.load(Ordering::Acquire) >= member.engine.connections()
    }

    /// An engine was just examined: what it said holds for the connections that there were before.
    pub(super) fn confirmed_up_to(&self, engine: usize, connections: u64) {
        self.member(engine).confirmed.fetch_max(connections, Ordering::AcqRel);
    }
}
