//! One address in front of many reward workers, for people and programs that know only one.
//!
//! The orchestrator does without it: it keeps a stream to every worker itself. A gateway takes the same calls as a
//! worker and gives every item, of whichever call, to the worker with the least outstanding work. Items of a worker
//! that is lost go to others; their clients notice nothing.

mod service;
mod settings;
mod status;

use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::client::Connector;
use evenkeel_rpc::dispatch::{DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::server::Server;

use crate::error::RewardError;
use service::GatewayService;
pub use settings::GatewaySettings;
use status::Workers;

/// Binds the port of a gateway. Workers are looked for from then on; the gateway serves before the first is found.
///
/// # Errors
/// Invalid settings, a port that is in use, a missing file.
pub fn bind(settings: GatewaySettings) -> BoxFuture<'static, Result<Server, RewardError>> {
    Box::pin(start(settings))
}

async fn start(settings: GatewaySettings) -> Result<Server, RewardError> {
    settings.validate().map_err(RewardError::Gateway)?;
    let endpoints = Endpoints::parse(&settings.endpoints).map_err(RewardError::Gateway)?;
    let connector = Connector::new("gateway.client", settings.client.clone()).map_err(RewardError::Client)?;
    let server = Server::bind(&settings.name, "gateway.server", settings.server.clone()).await?;
    let options = DispatchOptions {
        max_outstanding: settings.max_outstanding,
        max_pending: settings.max_items,
        ..DispatchOptions::default()
    };
    let workers = Workers::new(endpoints.clone().watch(options.resolve_interval), connector.clone());
    let dispatcher = Dispatcher::start(&options, endpoints, connector);
    let limits = ItemLimits {
        max_items: settings.max_items,
        max_memory: settings.max_memory,
        // Those that run wait for a worker, which has a limit of its own.
        max_running: settings.max_items,
        grace: Duration::ZERO,
    };
    let items = ItemServer::new(limits, server.drain());
    let service = GatewayService::new(settings.name, dispatcher, workers, items, server.drain());
    let limit = server.max_message();
    let service = RewardServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}
