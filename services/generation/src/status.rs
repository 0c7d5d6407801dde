//! `GetStatus`: engines, their versions, their load.

use evenkeel_proto::v1::{EngineStatus, GenerationGetStatusResponse, ModelInfo, ServerStatus};

use crate::service::GenerationService;

/// Name of the server.
pub(crate) const NAME: &str = "generation";

/// The state of the service.
pub(crate) fn status(service: &GenerationService) -> GenerationGetStatusResponse {
    let fleet = &service.fleet;
    let target = fleet.target();
    let model = fleet.model.get().map(|model| model.info.clone()).unwrap_or_default();
    let engines = fleet.lines().into_iter().map(|(member, seat)| EngineStatus {
        name: member.name.clone(),
        endpoint: member.engine.endpoint().to_owned(),
        engine_version: member.info.get().map(|info| info.version.clone()).unwrap_or_default(),
        health: seat.standing.health().into(),
        policy_version: seat.said,
        in_flight_items: seat.in_flight as u64,
        in_flight_tokens: seat.tokens,
        tokens_per_second: seat.tokens_per_second,
        consecutive_failures: seat.failures,
        last_error: seat.last_error,
        running_requests: seat.demand.map(|demand| demand.running),
        waiting_requests: seat.demand.map(|demand| demand.waiting),
        cache_usage: seat.demand.map(|demand| demand.cache_usage),
        asleep: member.is_asleep(),
    });
    GenerationGetStatusResponse {
        server: Some(ServerStatus {
            name: NAME.to_owned(),
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: u64::try_from(service.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            draining: service.drain.is_draining(),
        }),
        policy_version: target.version,
        weights_digest: target.digest.clone(),
        model: Some(ModelInfo { context_tokens: fleet.context_tokens(), ..model }),
        queue: Some(service.items.status()),
        engines: engines.collect(),
    }
}
