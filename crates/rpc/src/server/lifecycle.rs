//! From ports to the last answer.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use evenkeel_config::human;
use http::Request;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::Service;

use super::auth::AuthLayer;
use super::bind::bind;
use super::calls::CallLayer;
use super::connections::Connections;
use super::incoming::accept;
use super::metrics_port;
use super::{Drain, ServerError, ServerSettings};
use crate::admission::{Admission, Unit};
use evenkeel_telemetry::{MetricsHandle, install_metrics, metrics_router};

/// How often histograms are folded where nobody scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How long cut connections may take to notice.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was begun was answered.
    Drained,
    /// The drain's deadline ended first, and what was left was cut.
    Cut,
}

/// A server whose ports are taken and that serves nothing yet.
#[derive(Debug)]
pub struct Server {
    name: String,
    settings: ServerSettings,
    listener: TcpListener,
    address: SocketAddr,
    metrics: Option<(TcpListener, MetricsHandle)>,
    transport: tonic::transport::Server,
    auth: AuthLayer,
    routes: RoutesBuilder,
    services: Vec<&'static str>,
    drain: Drain,
}

impl Server {
    /// Takes the ports and reads the files of the settings. `section` is their path, for messages: `reward.server`.
    pub async fn bind(name: &str, section: &str, settings: ServerSettings) -> Result<Self, ServerError> {
        let (listener, address) = bind(format!("{section}.listen"), &settings.listen).await?;
        let auth = AuthLayer::from_file(section, settings.token_file.as_deref())?;
        let transport = tonic::transport::Server::builder()
            .max_concurrent_streams(settings.max_concurrent_streams)
            .http2_keepalive_interval(settings.keepalive_interval())
            .http2_keepalive_timeout(Some(settings.keepalive_timeout));
        let transport = match &settings.tls {
            None => transport,
            Some(tls) => transport.tls_config(super::tls::load(section, tls)?).map_err(|error| ServerError::Tls {
                setting: format!("{section}.tls"),
                message: crate::client::chain(&error),
            })?,
        };
        Ok(Self {
            name: name.to_owned(),
            settings,
            listener,
            address,
            metrics: None,
            transport,
            auth,
            routes: Routes::builder(),
            services: Vec::new(),
            drain: Drain::new(),
        })
    }

    /// Takes a port for `/metrics` as well. In one process it is enough that one server does.
    pub async fn with_metrics(mut self, setting: &str, address: &str) -> Result<Self, ServerError> {
        let (listener, address) = bind(setting.to_owned(), address).await?;
        match install_metrics() {
            Some(handle) => {
                tracing::info!(server = self.name, %address, "metrics");
                self.metrics = Some((listener, handle));
            }
            None => {
                tracing::warn!(server = self.name, "another metrics recorder is installed, none of ours are served")
            }
        }
        Ok(self)
    }

    /// Adds a service. Give it [`Server::max_message`] before: generated servers have limits of their own.
    #[must_use]
    pub fn with_service<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = http::Response<Body>, Error = Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        self.services.push(S::NAME);
        self.routes.add_service(service);
        self
    }

    /// What it listens on; the port that was found where the settings said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How its handlers learn that it ends.
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// The settings' limit for `max_decoding_message_size` and `max_encoding_message_size`.
    pub fn max_message(&self) -> usize {
        self.settings.max_message.bytes_usize()
    }

    /// How clients in the same process reach it, as a URL.
    pub fn endpoint(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        format!("{}://{address}", if self.settings.tls.is_some() { "https" } else { "http" })
    }

    /// Serves until `shutdown` ends, then drains.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<Ended, ServerError> {
        // They own the listeners: when they have ended, the ports are free again.
        let mut helpers = JoinSet::new();
        let result = self.serve(&mut helpers, shutdown).await;
        helpers.shutdown().await;
        result
    }

    async fn serve(self, helpers: &mut JoinSet<()>, shutdown: impl Future<Output = ()>) -> Result<Ended, ServerError> {
        let Self { name, settings, listener, address, metrics, transport, auth, mut routes, services, drain } = self;
        if let Some((listener, handle)) = metrics {
            serve_metrics(helpers, listener, handle);
        }
        let health = HealthReporter::new();
        routes.add_service(tonic_health::pb::health_server::HealthServer::new(
            tonic_health::server::HealthService::from_health_reporter(health.clone()),
        ));
        if settings.reflection {
            add_reflection(&mut routes, &services);
        }
        tell(&health, &services, ServingStatus::Serving).await;

        let stop = CancellationToken::new();
        let connections = Connections::new(&settings);
        helpers.spawn(connections.clone().look_after());
        let incoming = accept(helpers, listener, stop.clone(), drain.aborting_token(), connections);
        let calls = CallLayer {
            draining: drain.draining_token(),
            receiving: Admission::new("receive", Unit::Bytes, settings.max_receive.bytes_usize()),
            max_decoded: settings.max_decoded.bytes(),
            message_timeout: settings.message_timeout,
        };
        let serving = transport
            .layer(calls)
            .layer(auth)
            .add_routes(routes.routes())
            .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
        let mut serving = pin!(serving);
        tracing::info!(server = name, %address, ?services, "serving");

        let end = async {
            tokio::select! {
                () = shutdown => {}
                // Who aborts has no time for a drain.
                () = drain.aborting() => return,
            }
            tell(&health, &services, ServingStatus::NotServing).await;
            tracing::info!(server = name, settle = %human(settings.settle), drain = %human(settings.drain), "draining");
            tokio::select! {
                () = tokio::time::sleep(settings.settle) => {}
                () = drain.aborting() => {}
            }
        };
        tokio::select! {
            result = &mut serving => return result.map(|()| Ended::Drained).map_err(ServerError::from),
            () = end => {}
        }

        drain.begin();
        stop.cancel();
        let drained = async {
            tokio::select! {
                biased;
                () = drain.aborting() => None,
                result = tokio::time::timeout(settings.drain, &mut serving) => result.ok(),
            }
        };
        if let Some(result) = drained.await {
            result?;
            tracing::info!(server = name, "ended, everything answered");
            return Ok(Ended::Drained);
        }
        drain.abort();
        if tokio::time::timeout(CUT_GRACE, serving).await.is_err() {
            tracing::warn!(server = name, "a connection did not notice that it was cut");
        }
        tracing::warn!(server = name, "ended, unanswered work was cut");
        Ok(Ended::Cut)
    }
}

/// `/metrics` on a port of its own, also while the server drains.
fn serve_metrics(helpers: &mut JoinSet<()>, listener: TcpListener, handle: MetricsHandle) {
    let upkeep = handle.clone();
    helpers.spawn(metrics_port::serve(listener, metrics_router(handle)));
    helpers.spawn(async move {
        let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            interval.tick().await;
            upkeep.upkeep();
        }
    });
}

/// Health of every service, and of the server as a whole under the empty name.
async fn tell(health: &HealthReporter, services: &[&'static str], status: ServingStatus) {
    for service in services.iter().chain(&[""]) {
        health.set_service_status(*service, status).await;
    }
}

/// Describes what is served here and nothing else, in both versions of the protocol: older tools know only the alpha.
fn add_reflection(routes: &mut RoutesBuilder, services: &[&'static str]) {
    let builder = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(evenkeel_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        services
            .iter()
            .chain(&["grpc.health.v1.Health"])
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    routes.add_service(builder().build_v1().expect("the descriptors were written by our own build"));
    routes.add_service(builder().build_v1alpha().expect("the descriptors were written by our own build"));
}
