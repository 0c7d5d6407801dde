//! The trust of a run in its engines: what [`evenkeel_trust`] asks is asked of the services here, and what it says goes
//! to the run's events and metrics.

mod audited_group;
mod engine_scorer;
mod equality;
mod learner_scorer;
mod metrics;
mod run_proof;
mod sampler_audit;

pub(super) use equality::Equality;
pub(super) use learner_scorer::RunLearner;
pub(super) use metrics::{audit_values, evaluation_values, proof_values};
pub(super) use run_proof::{RunProof, TrainedEngines};
pub(super) use sampler_audit::sampler_audit;

use evenkeel_trust::{Remark, RemarkSink};

use crate::events::{Event, Events};

/// Hands remarks to the events of a run.
fn remarks(events: &Events) -> RemarkSink {
    let events = events.clone();
    RemarkSink::new(move |remark| {
        events.emit(match remark {
            Remark::Note(message) => Event::Note { message },
            Remark::Warning(message) => Event::Warning { message },
        });
    })
}
