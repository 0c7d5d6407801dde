//! The run that owns the learner, and until when no other may take over.

use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_rpc::error::{Reason, ServiceError};

use super::status::StatusBoard;

/// Longest name of a run, in bytes.
const MAX_RUN_ID: usize = 128;

/// The run that the weights belong to, and its last activity.
pub(super) struct Lease {
    owner: String,
    seen: Instant,
    duration: Duration,
    status: StatusBoard,
}

impl Lease {
    /// Without a run. `duration`: how long a silent run keeps the learner.
    pub(super) fn new(duration: Duration, status: StatusBoard) -> Self {
        Self { owner: String::new(), seen: Instant::now(), duration, status }
    }

    /// Records activity of the run.
    pub(super) fn renew(&mut self) {
        self.seen = Instant::now();
    }

    /// Makes a run the owner of the weights.
    pub(super) fn assign(&mut self, run_id: &str) {
        self.renew();
        run_id.clone_into(&mut self.owner);
        self.status.set_run(run_id);
    }

    /// Refuses a run other than the owner, unless the weights are untrained (`version` 0) and the owner's lease has
    /// expired.
    pub(super) fn check_owner(&self, run_id: &str, version: u64) -> Result<(), ServiceError> {
        Self::validate_name("run_id", run_id)?;
        let owner = &self.owner;
        if owner.is_empty() || owner == run_id || (version == 0 && self.remaining().is_zero()) {
            return Ok(());
        }
        let message = format!("run_id is `{run_id}`, the learner holds weights of run `{owner}`");
        Err(ServiceError::Precondition { reason: Reason::OtherRun, message })
    }

    /// Refuses to load a checkpoint of another run before the owner's lease has expired.
    pub(super) fn check_expired(&self, run_id: &str) -> Result<(), ServiceError> {
        Self::validate_name("run_id", run_id)?;
        let (owner, remaining) = (&self.owner, self.remaining());
        if owner.is_empty() || owner == run_id || remaining.is_zero() {
            return Ok(());
        }
        let message = format!(
            "run_id is `{run_id}`, the learner serves run `{owner}`, whose lease lasts {} ms more unless it is renewed",
            remaining.as_millis()
        );
        Err(ServiceError::Unavailable { reason: Reason::Leased, message })
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
