//! A service behind a dispatcher that is gone: told, waited for, and in the end given up.

use std::time::{Duration, Instant};

use super::{Patience, Stop};
use crate::error::{Halt, RunError};
use crate::events::Event;

/// Watches whether workers of one service are connected. The dispatcher itself connects again; this counts the time.
#[derive(Debug)]
pub(crate) struct Outage {
    service: &'static str,
    endpoint: String,
    patience: Patience,
    /// What is wrong.
    message: String,
    since: Option<Instant>,
    /// When it is told next, and the pause before that.
    told: Option<(Instant, Duration)>,
}

impl Outage {
    pub(crate) fn new(service: &'static str, endpoint: String, patience: Patience) -> Self {
        let message = format!("the {service} service at {endpoint} does not answer");
        Self { service, endpoint, patience, message, since: None, told: None }
    }

    /// What to tell from now on.
    pub(crate) fn say(&mut self, message: &str) {
        if self.message != message {
            message.clone_into(&mut self.message);
        }
    }

    /// Says whether the service is there. An error once it was gone for too long.
    pub(crate) fn watch(&mut self, is_there: bool, stop: &Stop) -> Result<(), Halt> {
        let now = Instant::now();
        if is_there {
            if let (Some(since), Some(_)) = (self.since.take(), self.told.take()) {
                self.patience.recovered(self.service, now - since);
            }
            return Ok(());
        }
        let waited = now - *self.since.get_or_insert(now);
        let limit = self.patience.limit();
        if waited >= limit {
            let waited_ms = waited.as_millis() as u64;
            let (service, endpoint) = (self.service, self.endpoint.clone());
            return Err(RunError::ServiceLost { service, endpoint, waited_ms, message: self.message.clone() }.into());
        }
        // A connection that is being opened is no outage yet.
        let due = match self.told {
            None => waited >= self.patience.first_pause(),
            Some((next, ..)) => now >= next,
        };
        if due {
            if stop.is_asked() {
                return Err(Halt::Stop);
            }
            let pause = match self.told {
                None => self.patience.first_pause(),
                Some((_, pause)) => self.patience.longer(pause),
            };
            self.told = Some((now + pause, pause));
            self.patience.waiting(Event::Waiting {
                service: self.service,
                endpoint: self.endpoint.clone(),
                message: self.message.clone(),
                waited_ms: waited.as_millis() as u64,
                gives_up_in_ms: limit.saturating_sub(waited).as_millis() as u64,
            });
        }
        Ok(())
    }
}
