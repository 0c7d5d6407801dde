//! Calls and writes that are retried: one event for each attempt, until it works, cannot work or the time limit is
//! over.

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::error::{Reason, has_reason};
use evenkeel_rpc::retry::{Retry, RetryPolicy, is_retryable};
use tonic::{Code, Request, Status};

use super::Stop;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::{Event, Events};
use crate::instruments;
use crate::settings::ServicesSettings;

/// Retries what may come back by the policy of the settings `services`, reports it, and ends at a stop.
#[derive(Debug, Clone)]
pub(crate) struct Retrier {
    events: Events,
    stop: Stop,
    policy: RetryPolicy,
    time_limit: Duration,
    call_deadline: Duration,
}

/// Why an attempt failed.
enum Failure {
    /// Another attempt may succeed.
    Retryable(String),
    Final(Halt),
}

impl Retrier {
    pub(crate) fn new(events: Events, stop: Stop, settings: &ServicesSettings) -> Self {
        let policy = RetryPolicy::new(settings.backoff_initial, settings.backoff_max);
        Self {
            events,
            stop,
            policy: policy.with_time_limit(settings.outage_timeout),
            time_limit: settings.outage_timeout,
            call_deadline: settings.call_deadline,
        }
    }

    pub(crate) fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// The time that one call may take.
    pub(super) fn call_deadline(&self) -> Duration {
        self.call_deadline
    }

    /// A request that carries the deadline of a call.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.call_deadline);
        request
    }

    /// Calls until it works, the service refuses, or it was unreachable for too long. Each attempt has the deadline of
    /// the settings.
    pub(crate) async fn call<T, F>(
        &self,
        service: Dependency,
        endpoint: &str,
        what: &str,
        mut attempt: impl FnMut() -> F + Send,
    ) -> Result<T, Halt>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let deadline = self.call_deadline;
        let bounded = || {
            let call = attempt();
            async move {
                let late =
                    || Status::deadline_exceeded(format!("no answer to {what} within {} ms", deadline.as_millis()));
                tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| Err(late()))
            }
        };
        self.call_without_deadline(service, endpoint, what, bounded).await
    }

    /// Retries calls that bound themselves.
    pub(crate) async fn call_without_deadline<T, F>(
        &self,
        service: Dependency,
        endpoint: &str,
        what: &str,
        mut attempt: impl FnMut() -> F + Send,
    ) -> Result<T, Halt>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let lost = |waited: Duration, message: String| RunError::ServiceLost {
            service,
            endpoint: endpoint.to_owned(),
            waited_ms: waited.as_millis() as u64,
            message,
        };
        let mut attempt = || -> BoxFuture<'_, Result<T, Failure>> {
            let call = attempt();
            Box::pin(async move { call.await.map_err(|status| classify(service, what, &status)) })
        };
        self.retry(service, endpoint, &mut attempt, &lost).await
    }

    /// Writes until the disk accepts it.
    pub(crate) async fn write<E: Into<RunError>>(
        &self,
        path: &Path,
        mut write: impl FnMut() -> Result<(), E> + Send,
    ) -> Result<(), Halt> {
        let full = AtomicBool::new(false);
        let lost = |waited: Duration, message: String| RunError::DiskLost {
            path: path.to_owned(),
            waited_ms: waited.as_millis() as u64,
            full: full.load(Ordering::Relaxed),
            message,
        };
        let mut attempt = || -> BoxFuture<'_, Result<(), Failure>> {
            Box::pin(std::future::ready(write().map_err(|error| match error.into() {
                RunError::File { source, .. } => {
                    full.store(
                        matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded),
                        Ordering::Relaxed,
                    );
                    Failure::Retryable(source.to_string())
                }
                other => Failure::Final(other.into()),
            })))
        };
        self.retry(Dependency::Disk, &path.display().to_string(), &mut attempt, &lost).await
    }

    // Compiled once for each type of result, and not for each call.
    async fn retry<'a, T>(
        &self,
        service: Dependency,
        endpoint: &str,
        attempt: &mut (dyn FnMut() -> BoxFuture<'a, Result<T, Failure>> + Send),
        lost: &(dyn Fn(Duration, String) -> RunError + Sync),
    ) -> Result<T, Halt> {
        let mut retries = self.policy.start();
        loop {
            let result = tokio::select! {
                biased;
                halt = self.stop.now() => return Err(halt),
                result = attempt() => result,
            };
            let message = match result {
                Ok(value) => {
                    if let Some(waited) = retries.waited() {
                        self.recovered(service, waited);
                    }
                    return Ok(value);
                }
                Err(Failure::Final(halt)) => return Err(halt),
                Err(Failure::Retryable(message)) => message,
            };
            let Some(retry) = retries.next_retry() else {
                return Err(lost(retries.waited().unwrap_or(self.time_limit), message).into());
            };
            self.waiting(service, endpoint, message, retry);
            tokio::select! {
                biased;
                halt = self.stop.any() => return Err(halt),
                () = tokio::time::sleep(retry.pause) => {}
            }
        }
    }

    /// Reports that a service is unreachable and will be tried again.
    pub(super) fn waiting(&self, service: Dependency, endpoint: &str, message: String, retry: Retry) {
        instruments::retry(service);
        instruments::waiting(service, true);
        tracing::warn!(service = service.label(), endpoint, message, "waiting");
        let text = format!("waiting for {service} at {endpoint}: {message}");
        let event = Event::Waiting {
            service,
            endpoint: endpoint.to_owned(),
            message,
            waited_ms: retry.waited.as_millis() as u64,
            gives_up_in_ms: retry.left.unwrap_or(Duration::MAX).as_millis() as u64,
        };
        self.events.waiting(text, event);
    }

    pub(super) fn recovered(&self, service: Dependency, waited: Duration) {
        instruments::outage(service, waited);
        instruments::waiting(service, false);
        let waited_ms = waited.as_millis() as u64;
        tracing::info!(service = service.label(), waited_ms, "recovered");
        self.events.resume_phase();
        self.events.emit(Event::Recovered { service, waited_ms });
    }
}

/// What a failed call means for the run.
fn classify(service: Dependency, what: &str, status: &Status) -> Failure {
    let message = format!("{} ({:?})", status.message(), status.code());
    match status.code() {
        _ if is_retryable(status) => Failure::Retryable(message),
        // The learner has other weights than it must have: it was restarted. At a fault of an engine it has lost nothing.
        Code::FailedPrecondition if service == Dependency::Learner && !has_reason(status, Reason::SampledOtherwise) => {
            Failure::Final(Halt::LearnerLost(message))
        }
        _ => Failure::Final(RunError::Refused { service, what: what.to_owned(), message }.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use evenkeel_proto::v1::RunState;
    use evenkeel_rpc::error::ServiceError;

    use super::*;

    fn retrier(outage_timeout_ms: u64) -> Retrier {
        let settings = ServicesSettings {
            outage_timeout: Duration::from_millis(outage_timeout_ms),
            backoff_initial: Duration::from_millis(5),
            backoff_max: Duration::from_millis(10),
            ..ServicesSettings::default()
        };
        Retrier::new(Events::new(1), Stop::new(), &settings)
    }

    fn full() -> Result<(), RunError> {
        let source = std::io::Error::from(ErrorKind::StorageFull);
        Err(RunError::File { path: PathBuf::from("metrics.jsonl"), source })
    }

    #[tokio::test]
    async fn a_full_disk_is_retried_and_reported() {
        let retrier = retrier(10_000);
        let mut emitted = retrier.events.subscribe();
        retrier.events.enter_phase(RunState::Training);
        let mut times = 0;
        let write = || {
            times += 1;
            if times < 3 { full() } else { Ok(()) }
        };
        retrier.write(Path::new("metrics.jsonl"), write).await.unwrap();
        let events: Vec<_> = std::iter::from_fn(|| emitted.try_recv().ok()).collect();
        assert!(
            matches!(&*events[0], Event::Waiting { service: Dependency::Disk, endpoint, .. } if endpoint == "metrics.jsonl")
        );
        assert!(matches!(&*events[2], Event::Recovered { service: Dependency::Disk, .. }));
        assert_eq!((events.len(), retrier.events.state()), (3, RunState::Training));
    }

    #[tokio::test]
    async fn a_disk_that_stays_full_ends_the_run_and_names_the_file() {
        let halt = retrier(30).write(Path::new("metrics.jsonl"), full).await.unwrap_err();
        assert!(matches!(&halt, Halt::Error(RunError::DiskLost { waited_ms: 30.., .. })), "{halt:?}");
    }

    #[tokio::test]
    async fn only_an_outage_is_retried() {
        let call = |service: Dependency, status: Status| async move {
            let mut times = 0;
            let attempt = || {
                times += 1;
                std::future::ready(Err::<(), _>(status.clone()))
            };
            let halt = retrier(50).call(service, "http://a:1", "Publish", attempt).await.unwrap_err();
            (halt, times)
        };
        let (halt, times) = call(Dependency::Learner, Status::failed_precondition("the version is 0")).await;
        assert!(matches!(halt, Halt::LearnerLost(_)) && times == 1);
        let reason = Reason::SampledOtherwise;
        let fault = ServiceError::Precondition { reason, message: "an engine differs".to_owned() };
        let (halt, times) = call(Dependency::Learner, fault.into()).await;
        assert!(matches!(halt, Halt::Error(RunError::Refused { service: Dependency::Learner, .. })) && times == 1);
        let (halt, times) = call(Dependency::Generation, Status::invalid_argument("no")).await;
        assert!(matches!(halt, Halt::Error(RunError::Refused { service: Dependency::Generation, .. })) && times == 1);
        let (halt, times) = call(Dependency::Learner, Status::data_loss("the GPU failed")).await;
        assert!(matches!(halt, Halt::Error(RunError::Refused { service: Dependency::Learner, .. })) && times == 1);
        let (halt, times) = call(Dependency::Learner, Status::unavailable("down")).await;
        assert!(matches!(halt, Halt::Error(RunError::ServiceLost { service: Dependency::Learner, .. })) && times > 2);
    }
}
