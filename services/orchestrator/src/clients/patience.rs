//! Trying again: pauses that double, one message for each attempt, a last moment.

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_common::error::reason_of;
use evenkeel_proto::v1::RunState;
use tonic::{Code, Status};

use super::Stop;
use crate::error::{Halt, RunError};
use crate::events::{Event, Events};
use crate::settings::ServicesSettings;

/// How long and how often things that may come back are tried.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    pub(crate) events: Events,
    pub(crate) stop: Stop,
    settings: ServicesSettings,
}

/// What one attempt came to.
enum Attempt {
    /// Another may succeed.
    Gone(String),
    /// No other will.
    Final(Halt),
}

impl Patience {
    pub(crate) fn new(events: Events, stop: Stop, settings: ServicesSettings) -> Self {
        Self { events, stop, settings }
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_millis(self.settings.wait_ms)
    }

    pub(crate) fn first_pause(&self) -> Duration {
        Duration::from_millis(self.settings.backoff_initial_ms)
    }

    pub(crate) fn longer(&self, pause: Duration) -> Duration {
        (pause * 2).min(Duration::from_millis(self.settings.backoff_max_ms))
    }

    /// Calls until it works, the service says no, or it was gone for too long. Each attempt has the deadline of the settings.
    pub(crate) async fn call<T, F>(
        &self,
        service: &'static str,
        endpoint: &str,
        what: &str,
        attempt: impl FnMut() -> F,
    ) -> Result<T, Halt>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let deadline = Duration::from_millis(self.settings.call_deadline_ms);
        let mut attempt = attempt;
        let bounded = || {
            let call = attempt();
            async move {
                let late =
                    || Status::deadline_exceeded(format!("no answer to {what} within {} ms", deadline.as_millis()));
                tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| Err(late()))
            }
        };
        self.call_unbounded(service, endpoint, what, bounded).await
    }

    /// The same for calls that bound themselves.
    pub(crate) async fn call_unbounded<T, F>(
        &self,
        service: &'static str,
        endpoint: &str,
        what: &str,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Halt>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let lost = |waited: Duration, message: String| RunError::ServiceLost {
            service,
            endpoint: endpoint.to_owned(),
            waited_ms: waited.as_millis() as u64,
            message,
        };
        let mut tries = || {
            let call = attempt();
            async move { call.await.map_err(|status| judge(service, what, &status)) }
        };
        self.insist(service, endpoint, &mut tries, lost).await
    }

    /// Writes until the disk takes it.
    pub(crate) async fn write(&self, path: &Path, mut write: impl FnMut() -> Result<(), RunError>) -> Result<(), Halt> {
        let full = AtomicBool::new(false);
        let lost = |waited: Duration, message: String| RunError::DiskLost {
            path: path.to_owned(),
            waited_ms: waited.as_millis() as u64,
            full: full.load(Ordering::Relaxed),
            message,
        };
        let mut tries = || {
            let result = write().map_err(|error| match error {
                RunError::File { source, .. } => {
                    let no_room = matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                    full.store(no_room, Ordering::Relaxed);
                    Attempt::Gone(source.to_string())
                }
                other => Attempt::Final(other.into()),
            });
            std::future::ready(result)
        };
        self.insist("disk", &path.display().to_string(), &mut tries, lost).await
    }

    async fn insist<T, F>(
        &self,
        service: &'static str,
        endpoint: &str,
        attempt: &mut impl FnMut() -> F,
        lost: impl Fn(Duration, String) -> RunError,
    ) -> Result<T, Halt>
    where
        F: Future<Output = Result<T, Attempt>>,
    {
        let (mut since, mut pause): (Option<Instant>, _) = (None, self.first_pause());
        loop {
            let result = tokio::select! {
                biased;
                halt = self.stop.now() => return Err(halt),
                result = attempt() => result,
            };
            let message = match result {
                Ok(value) => {
                    if let Some(since) = since {
                        self.recovered(service, since.elapsed());
                    }
                    return Ok(value);
                }
                Err(Attempt::Final(halt)) => return Err(halt),
                Err(Attempt::Gone(message)) => message,
            };
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= self.limit() {
                return Err(lost(waited, message).into());
            }
            self.waiting(Event::Waiting {
                service,
                endpoint: endpoint.to_owned(),
                message,
                waited_ms: waited.as_millis() as u64,
                gives_up_in_ms: self.limit().saturating_sub(waited).as_millis() as u64,
            });
            tokio::select! {
                biased;
                halt = self.stop.at_all() => return Err(halt),
                () = tokio::time::sleep(pause.min(self.limit().saturating_sub(waited))) => {}
            }
            pause = self.longer(pause);
        }
    }

    pub(super) fn waiting(&self, event: Event) {
        if let Event::Waiting { service, endpoint, message, .. } = &event {
            tracing::warn!(service, endpoint, message, "waiting");
            let text = format!("waiting for {service} at {endpoint}: {message}");
            self.events.update(|progress| (progress.state, progress.message) = (RunState::Waiting, text));
        }
        self.events.tell(event);
    }

    pub(super) fn recovered(&self, service: &'static str, waited: Duration) {
        let waited_ms = waited.as_millis() as u64;
        tracing::info!(service, waited_ms, "back");
        self.events.go_on();
        self.events.tell(Event::Recovered { service, waited_ms });
    }
}

/// What a failed call means.
fn judge(service: &'static str, what: &str, status: &Status) -> Attempt {
    let message = format!("{} ({:?})", status.message(), status.code());
    let ours = reason_of(status).is_some();
    match status.code() {
        // Aborted: what was begun before a connection was lost is still being done.
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Aborted => Attempt::Gone(message),
        // The transport's own failures; our servers always give a reason.
        Code::Unknown | Code::Internal | Code::Cancelled if !ours => Attempt::Gone(message),
        // The learner has other weights than it must have: it was started anew.
        Code::FailedPrecondition if service == "learner" => Attempt::Final(Halt::LearnerLost(message)),
        _ => Attempt::Final(RunError::Refused { service, what: what.to_owned(), message }.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn patience(wait_ms: u64) -> Patience {
        let settings =
            ServicesSettings { wait_ms, backoff_initial_ms: 5, backoff_max_ms: 10, ..ServicesSettings::default() };
        Patience::new(Events::new(1), Stop::new(), settings)
    }

    fn full() -> Result<(), RunError> {
        let source = std::io::Error::from(ErrorKind::StorageFull);
        Err(RunError::File { path: PathBuf::from("metrics.jsonl"), source })
    }

    #[tokio::test]
    async fn a_full_disk_is_waited_for_and_told() {
        let patience = patience(10_000);
        let mut told = patience.events.subscribe();
        patience.events.enter(RunState::Training);
        let mut times = 0;
        let write = || {
            times += 1;
            if times < 3 { full() } else { Ok(()) }
        };
        patience.write(Path::new("metrics.jsonl"), write).await.unwrap();
        let events: Vec<_> = std::iter::from_fn(|| told.try_recv().ok()).collect();
        assert!(matches!(&*events[0], Event::Waiting { service: "disk", endpoint, .. } if endpoint == "metrics.jsonl"));
        assert!(matches!(&*events[2], Event::Recovered { service: "disk", .. }));
        assert_eq!((events.len(), patience.events.state()), (3, RunState::Training));
    }

    #[tokio::test]
    async fn a_disk_that_stays_full_ends_the_run_by_its_file() {
        let halt = patience(30).write(Path::new("metrics.jsonl"), full).await.unwrap_err();
        assert!(matches!(&halt, Halt::Error(RunError::DiskLost { waited_ms: 30.., full: true, .. })), "{halt:?}");
    }

    #[tokio::test]
    async fn what_is_no_outage_is_not_tried_again() {
        let call = |service: &'static str, status: Status| async move {
            let mut times = 0;
            let attempt = || {
                times += 1;
                std::future::ready(Err::<(), _>(status.clone()))
            };
            let halt = patience(50).call(service, "http://a:1", "Publish", attempt).await.unwrap_err();
            (halt, times)
        };
        let (halt, times) = call("learner", Status::failed_precondition("the version is 0")).await;
        assert!(matches!(halt, Halt::LearnerLost(_)) && times == 1);
        let (halt, times) = call("generation", Status::invalid_argument("no")).await;
        assert!(matches!(halt, Halt::Error(RunError::Refused { service: "generation", .. })) && times == 1);
        let (halt, times) = call("learner", Status::unavailable("gone")).await;
        assert!(matches!(halt, Halt::Error(RunError::ServiceLost { service: "learner", .. })) && times > 2);
    }
}
