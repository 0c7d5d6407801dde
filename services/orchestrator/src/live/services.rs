//! The services of a run as it sees them: whether they answer, what they have, and what the step waits for.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{EngineHealth, GenerationGetStatusResponse, RunState};
use serde::Serialize;

use crate::clients::{Services, VerifierClient};
use crate::dependency::Dependency;
use crate::events::{Activity, RunProgress};

/// How long the generation service may take to say what its engines do.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Engines that are listed.
const MAX_ENGINES: usize = 64;

/// A service as the run sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ServiceState {
    pub(crate) name: String,
    /// Addresses of the service.
    pub(crate) endpoint: String,
    /// In a word or two.
    pub(crate) health: String,
    /// Pending work, in words.
    pub(crate) load: String,
    /// Whether the step waits for it.
    pub(crate) awaited: bool,
}

/// All services of a run, the engines behind the generation service after it.
pub(super) async fn service_states(services: &Services, progress: &RunProgress) -> Vec<ServiceState> {
    let awaited = awaited(services, progress);
    let generation = services.generation();
    let mut states = vec![ServiceState {
        name: Dependency::Generation.label().to_owned(),
        endpoint: generation.endpoint().to_owned(),
        health: connection(generation.is_connected()),
        load: format!("{} samples in flight", generation.pending()),
        awaited: awaited == Some(Dependency::Generation),
    }];
    // A service that does not answer is shown as it is; nothing is retried for a page.
    match tokio::time::timeout(TIMEOUT, generation.peek()).await {
        Ok(Some(status)) => states.extend(engines(&status)),
        Ok(None) | Err(_) => "no answer about its engines".clone_into(&mut states[0].health),
    }
    states.extend(services.verifiers().map(|verifier| of_verifier(verifier, awaited)));
    states.extend(services.any_environments().map(|environments| ServiceState {
        name: Dependency::Environment.label().to_owned(),
        endpoint: environments.endpoints(),
        health: connection(environments.is_connected()),
        load: format!("{} episodes wait for a worker", environments.waiting()),
        awaited: false,
    }));
    let learner = match progress.state {
        RunState::Waiting if awaited == Some(Dependency::Learner) => "waiting".to_owned(),
        _ => String::new(),
    };
    states.push(ServiceState {
        name: Dependency::Learner.label().to_owned(),
        endpoint: services.learner().endpoint().to_owned(),
        health: learner,
        load: format!("{} groups of the step trained", progress.groups_trained),
        awaited: awaited == Some(Dependency::Learner),
    });
    states
}

fn of_verifier(verifier: &VerifierClient, awaited: Option<Dependency>) -> ServiceState {
    let pending = verifier.awaited();
    ServiceState {
        name: verifier.service().label().to_owned(),
        endpoint: verifier.endpoints(),
        // It connects with its first answer.
        health: if pending == 0 && !verifier.is_connected() {
            "idle".to_owned()
        } else {
            connection(verifier.is_connected())
        },
        load: format!("{pending} answers to verify, {} verified", verifier.verified()),
        awaited: awaited == Some(verifier.service()),
    }
}

fn connection(is_connected: bool) -> String {
    (if is_connected { "connected" } else { "not reachable" }).to_owned()
}

fn engines(status: &GenerationGetStatusResponse) -> impl Iterator<Item = ServiceState> {
    status.engines.iter().take(MAX_ENGINES).map(|engine| {
        let health = match engine.health() {
            _ if engine.asleep => "asleep".to_owned(),
            EngineHealth::Healthy => "healthy".to_owned(),
            other => format!(
                "{}: {}",
                other.as_str_name().trim_start_matches("ENGINE_HEALTH_").to_lowercase(),
                engine.last_error
            ),
        };
        let mut load = format!("{} samples, {:.0} tokens/s", engine.in_flight_items, engine.tokens_per_second);
        if let Some(waiting) = engine.waiting_requests.filter(|waiting| *waiting > 0) {
            load = format!("{load}, {waiting} waiting");
        }
        if let Some(version) = engine.policy_version {
            load = format!("{load}, weights {version}");
        }
        ServiceState {
            name: format!("engine {}", engine.name),
            endpoint: engine.endpoint.clone(),
            health,
            load,
            awaited: false,
        }
    })
}

/// What the step waits for.
fn awaited(services: &Services, progress: &RunProgress) -> Option<Dependency> {
    match progress.activity {
        Activity::Publishing | Activity::Proving => return Some(Dependency::Generation),
        Activity::Checkpointing => return Some(Dependency::Learner),
        Activity::None => {}
    }
    match progress.state {
        RunState::Training | RunState::Evaluating if services.generation().pending() > 0 => {
            Some(Dependency::Generation)
        }
        RunState::Training | RunState::Evaluating if progress.samples_done < progress.samples => {
            let busy = services.verifiers().find(|verifier| verifier.awaited() > 0);
            let dependency = busy.map(|verifier| verifier.service());
            Some(dependency.unwrap_or(Dependency::Generation))
        }
        RunState::Training | RunState::WarmStart => Some(Dependency::Learner),
        _ => progress.waiting_for,
    }
}

/// What a run is doing, in a line: state, step, and what of the step is done.
pub(crate) fn doing(progress: &RunProgress) -> String {
    let mut text = format!("{} · step {} of {}", progress.state.label(), progress.step, progress.total_steps);
    for part in [progress.describe(), progress.message.clone()] {
        if !part.is_empty() {
            text = format!("{text} · {part}");
        }
    }
    text
}
