//! A service behind a dispatcher that is unreachable: reported, waited for, and in the end given up.

use std::time::Instant;

use evenkeel_rpc::retry::Retries;

use super::{Retrier, Stop};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};

/// Watches whether a service has connected workers. The dispatcher reconnects; this reports how long it takes and ends
/// the run after the time limit of the settings.
#[derive(Debug)]
pub(crate) struct Outage {
    service: Dependency,
    endpoint: String,
    retrier: Retrier,
    message: String,
    ongoing: Option<Ongoing>,
}

#[derive(Debug)]
struct Ongoing {
    retries: Retries,
    next_report: Instant,
    /// A connection that is being opened is no outage yet: the first report comes after the first pause.
    reported: bool,
}

impl Outage {
    pub(crate) fn new(service: Dependency, endpoint: String, retrier: Retrier) -> Self {
        let message = format!("the {service} service at {endpoint} does not answer");
        Self { service, endpoint, retrier, message, ongoing: None }
    }

    /// What to report from now on.
    pub(crate) fn set_message(&mut self, message: &str) {
        if self.message != message {
            message.clone_into(&mut self.message);
        }
    }

    /// Records whether the service is reachable.
    ///
    /// # Errors
    /// [`RunError::ServiceLost`] once it was unreachable for too long; a stop while it is.
    pub(crate) fn observe(&mut self, reachable: bool, stop: &Stop) -> Result<(), Halt> {
        if reachable {
            if let Some(Ongoing { retries, reported: true, .. }) = self.ongoing.take() {
                self.retrier.recovered(self.service, retries.waited().unwrap_or_default());
            }
            return Ok(());
        }
        let now = Instant::now();
        let is_new = self.ongoing.is_none();
        let ongoing = self.ongoing.get_or_insert_with(|| Ongoing {
            retries: self.retrier.policy().start(),
            next_report: now,
            reported: false,
        });
        if now < ongoing.next_report {
            return Ok(());
        }
        let Some(retry) = ongoing.retries.next_retry() else {
            let waited_ms = ongoing.retries.waited().unwrap_or_default().as_millis() as u64;
            let service = self.service;
            let endpoint = self.endpoint.clone();
            return Err(RunError::ServiceLost { service, endpoint, waited_ms, message: self.message.clone() }.into());
        };
        ongoing.next_report = now + retry.pause;
        if is_new {
            return Ok(());
        }
        if stop.is_requested() {
            return Err(Halt::Stop);
        }
        ongoing.reported = true;
        self.retrier.waiting(self.service, &self.endpoint, self.message.clone(), retry);
        Ok(())
    }
}
