//! Whether the services make progress while samples are in flight.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::clients::{EnvironmentClient, Outage, Services, VerifierClient};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};

/// How often services are checked while samples are in flight.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What sample tasks observe of the services.
#[derive(Debug)]
pub(super) struct RolloutHealth {
    /// Why engines took no samples, since the last good rollout.
    engine_failure: Mutex<Option<String>>,
    /// Generations that ended, in success or failure.
    rollouts: AtomicU64,
}

impl RolloutHealth {
    pub(super) fn new() -> Self {
        Self { engine_failure: Mutex::default(), rollouts: AtomicU64::new(0) }
    }

    pub(super) fn rollout_ended(&self) {
        self.rollouts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn engines_unavailable(&self, message: String) {
        *lock(&self.engine_failure) = Some(message);
    }

    pub(super) fn engines_available(&self) {
        *lock(&self.engine_failure) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a run whose services are unreachable, have no engines, or hold samples without ever finishing one.
#[derive(Debug)]
pub(super) struct HealthMonitor {
    interval: Interval,
    generation: Outage,
    /// The engines behind the generation service.
    engines: Outage,
    rollouts: StallDetector,
    /// The environment workers, where there are any.
    environments: Option<Outage>,
    /// The reward service and each custom verifier: whether it answers, and whether it verifies.
    verifiers: Vec<(Outage, StallDetector)>,
}

impl HealthMonitor {
    pub(super) fn new(services: &Services) -> Self {
        let settings = services.settings();
        let stall = |service, endpoint, item_deadline: Duration| {
            StallDetector::new(service, endpoint, item_deadline.saturating_add(settings.outage_timeout))
        };
        let mut interval = interval(CHECK_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let generation = services.generation();
        let verifier = |client: &VerifierClient| {
            (client.outage(), stall(client.service(), client.endpoints(), settings.verify_deadline))
        };
        Self {
            environments: services.any_environments().map(EnvironmentClient::outage),
            verifiers: services.verifiers().map(verifier).collect(),
            interval,
            generation: generation.outage(),
            engines: generation.outage(),
            rollouts: stall(Dependency::Generation, generation.endpoint().to_owned(), settings.rollout_deadline),
        }
    }

    /// Waits for the next check.
    pub(super) async fn tick(&mut self) {
        self.interval.tick().await;
    }

    /// Nothing is in flight: progress seen so far does not count for what is in flight next, however late.
    pub(super) fn rest(&mut self) {
        self.rollouts.rest();
        self.verifiers.iter_mut().for_each(|(_, verifications)| verifications.rest());
    }

    /// # Errors
    /// [`RunError::ServiceLost`] once a service made no progress for too long; a stop while one is unreachable.
    pub(super) fn check(&mut self, services: &Services, health: &RolloutHealth) -> Result<(), Halt> {
        let stop = services.stop();
        let engine_failure = lock(&health.engine_failure).clone();
        if let Some(message) = &engine_failure {
            self.engines.set_message(message);
        }
        self.engines.observe(engine_failure.is_none(), stop)?;
        let generation = services.generation();
        self.generation.observe(generation.is_connected(), stop)?;
        self.rollouts.observe(generation.pending(), health.rollouts.load(Ordering::Relaxed))?;
        if let (Some(client), Some(outage)) = (services.any_environments(), &mut self.environments) {
            outage.observe(client.waiting() == 0 || client.is_connected(), stop)?;
        }
        for (client, (outage, verifications)) in services.verifiers().zip(&mut self.verifiers) {
            verifications.observe(client.awaited(), client.answered())?;
            outage.observe(client.awaited() == 0 || client.is_connected(), stop)?;
        }
        Ok(())
    }
}

/// Notices a service that holds items and finishes none of them, not even in failure.
#[derive(Debug)]
struct StallDetector {
    service: Dependency,
    endpoint: String,
    limit: Duration,
    /// Since when it holds items without finishing one, and how many it had finished then.
    since: Option<(Instant, u64)>,
}

impl StallDetector {
    fn new(service: Dependency, endpoint: String, limit: Duration) -> Self {
        Self { service, endpoint, limit, since: None }
    }

    /// Nothing is held until the next observation, of other items.
    fn rest(&mut self) {
        self.since = None;
    }

    /// Records how many items the service holds and how many it has finished so far.
    fn observe(&mut self, held: usize, finished: u64) -> Result<(), RunError> {
        if held == 0 {
            self.since = None;
            return Ok(());
        }
        let (since, before) = *self.since.get_or_insert_with(|| (Instant::now(), finished));
        if before != finished {
            self.since = Some((Instant::now(), finished));
            return Ok(());
        }
        let waited = since.elapsed();
        if waited < self.limit {
            return Ok(());
        }
        Err(RunError::ServiceLost {
            service: self.service,
            endpoint: self.endpoint.clone(),
            waited_ms: waited.as_millis() as u64,
            message: format!("it holds {held} samples and has finished none of them"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_holds_items_and_finishes_none_has_stalled() {
        let mut detector = StallDetector::new(Dependency::Reward, "http://a:1".to_owned(), Duration::ZERO);
        assert!(detector.observe(0, 0).is_ok(), "it holds nothing");
        let error = detector.observe(3, 0).unwrap_err().to_string();
        assert!(error.contains("holds 3 samples and has finished none"), "{error}");
        assert!(detector.observe(3, 1).is_ok(), "it finished one");
        assert!(detector.observe(2, 1).is_err());
        assert!(detector.observe(0, 1).is_ok());
    }

    /// Nobody looks while nothing is in flight, as during a long evaluation of another engine or while a run has all
    /// its samples.
    #[test]
    fn a_service_that_was_given_nothing_for_long_has_not_stalled() {
        let limit = Duration::from_millis(20);
        let mut detector = StallDetector::new(Dependency::Generation, "http://a:1".to_owned(), limit);
        let mut idle_for_longer = |rests: bool| {
            detector.observe(3, 5).unwrap();
            if rests {
                detector.rest();
            }
            std::thread::sleep(2 * limit);
            let found = detector.observe(2, 5).is_ok();
            detector.rest();
            found
        };
        assert!(!idle_for_longer(false), "items that were there all along");
        assert!(idle_for_longer(true));
    }
}
