//! The run that owns the learner, and until when no other may take over.

use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_rpc::error::{Reason, ServiceError};

use super::status::StatusBoard;

/// Longest name of a run, in bytes.
const MAX_RUN_ID: usize = 128;

/// The run that the weights belong to, and its last activity.
pub(super) struct Lease {
    /// Absent until a run has changed the learner's state.
    owner: Option<String>,
    seen: Instant,
    duration: Duration,
    status: StatusBoard,
}

impl Lease {
    /// Without a run. `duration`: how long a silent run keeps the learner.
    pub(super) fn new(duration: Duration, status: StatusBoard) -> Self {
        Self { owner: None, seen: Instant::now(), duration, status }
    }

    /// Records activity of the run.
    pub(super) fn renew(&mut self) {
        self.seen = Instant::now();
    }

    /// Makes a run the owner of the weights.
    pub(super) fn assign(&mut self, run_id: &str) {
        self.renew();
        self.owner = Some(run_id.to_owned());
        self.status.set_run(run_id);
    }

    /// Refuses a run other than the owner, unless the weights are untrained (`version` 0) and the owner's lease has
    /// expired.
    pub(super) fn check_owner(&self, run_id: &str, version: u64) -> Result<(), ServiceError> {
        Self::validate_name("run_id", run_id)?;
        let Some(owner) = self.other_owner(run_id).filter(|_| version > 0 || !self.remaining().is_zero()) else {
            return Ok(());
        };
        let message = format!("run_id is `{run_id}`, the learner holds weights of run `{owner}`");
        Err(ServiceError::Precondition { reason: Reason::RunMismatch, message })
    }

    /// Refuses to load a checkpoint of another run before the owner's lease has expired.
    pub(super) fn check_expired(&self, run_id: &str) -> Result<(), ServiceError> {
        Self::validate_name("run_id", run_id)?;
        let remaining = self.remaining();
        let Some(owner) = self.other_owner(run_id).filter(|_| !remaining.is_zero()) else { return Ok(()) };
        let message = format!(
            "run_id is `{run_id}`, the learner serves run `{owner}`, whose lease lasts {} ms more unless it is renewed",
            remaining.as_millis()
        );
        Err(ServiceError::Unavailable { reason: Reason::Leased, message })
    }

    /// The owner, where it is another run.
    fn other_owner(&self, run_id: &str) -> Option<&str> {
        self.owner.as_deref().filter(|owner| *owner != run_id)
    }

    fn remaining(&self) -> Duration {
        self.duration.saturating_sub(self.seen.elapsed())
    }

    /// Refuses invalid names of runs.
    pub(super) fn validate_name(field: &str, run_id: &str) -> Result<(), FieldError> {
        let allowed = "letters, digits, `-`, `_` and `.`, at most 128";
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        match run_id.len() {
            0 => Err(FieldError::missing(field, "the name of the run")),
            bytes if bytes > MAX_RUN_ID => Err(FieldError::new(field, format_args!("{bytes} bytes"), allowed)),
            // A run's name is also the name of a folder.
            _ if run_id.bytes().all(good) && !run_id.bytes().all(|byte| byte == b'.') => Ok(()),
            _ => Err(FieldError::new(field, format_args!("{run_id:?}"), allowed)),
        }
    }
}
