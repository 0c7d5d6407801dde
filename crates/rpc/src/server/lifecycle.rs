//! A server from binding its port to its shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use evenkeel_config::{Settings, human};
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

use super::access::{AccessLayer, HttpTokenAuth};
use super::bind::bind;
use super::calls::CallLayer;
use super::connections::Connections;
use super::http_port::{HttpLimits, HttpPort};
use super::incoming::accept_all;
use super::metrics_port;
use super::tls::ServerCertificates;
use super::web_pages::refuse_web_pages;
use super::{Drain, ServerError, ServerSettings};
use crate::BoxFuture;
use crate::admission::{Admission, Unit};
use crate::exposure::{validate_plaintext, warn_of_plaintext};
use crate::private::PrivateAddress;
use evenkeel_telemetry::{MetricsHandle, install_metrics, metrics_router};

/// Interval of the upkeep of histograms, which must not wait for a scrape.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Headers of a call, as HTTP/2 counts them.
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// How long aborted connections may take to close.
const ABORT_GRACE: Duration = Duration::from_secs(1);
/// How a shutdown ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// All work in progress was finished.
    Drained,
    /// The time limit of the drain was over, and the rest was aborted.
    Aborted,
}

/// The port of `/metrics`, with its address in the settings and the bound one.
#[derive(Debug)]
struct MetricsPort {
    listener: TcpListener,
    listen: String,
    address: SocketAddr,
    handle: MetricsHandle,
}

/// A bound server that does not serve yet.
#[derive(Debug)]
pub struct Server {
    name: String,
    settings: ServerSettings,
    private: Option<PrivateAddress>,
    listener: TcpListener,
    address: SocketAddr,
    metrics: Option<MetricsPort>,
    http: Option<HttpPort>,
    tls: Option<ServerCertificates>,
    access: AccessLayer,
    routes: RoutesBuilder,
    services: Vec<&'static str>,
    drain: Drain,
}

impl Server {
    /// Binds the port and reads the files of the settings. `section` is the path of the settings for errors, such as
    /// `reward.server`.
    pub fn bind<'a>(
        name: &'a str,
        section: &'a str,
        settings: ServerSettings,
    ) -> BoxFuture<'a, Result<Self, ServerError>> {
        Box::pin(Self::bind_port(name, section, settings))
    }

    async fn bind_port(name: &str, section: &str, settings: ServerSettings) -> Result<Self, ServerError> {
        settings.validate().map_err(|error| error.within(section))?;
        let (listener, address) = bind(format!("{section}.listen"), &settings.listen).await?;
        let private = settings.private.then(|| PrivateAddress::claim(address));
        let access = match &private {
            Some(address) => AccessLayer::private(address),
            None => AccessLayer::open(section, settings.token_file.as_deref(), &settings.auth)?,
        };
        let optional = settings.certificates_are_optional();
        let tls = settings.tls.as_ref().map(|tls| ServerCertificates::for_grpc(section, tls, optional)).transpose()?;
        settings.protection().warn(&format!("gRPC ({name})"), address, &format!("{section}.insecure"));
        Ok(Self {
            name: name.to_owned(),
            settings,
            private,
            listener,
            address,
            metrics: None,
            http: None,
            tls,
            access,
            routes: Routes::builder(),
            services: Vec::new(),
            drain: Drain::new(),
        })
    }

    /// Also serves `/metrics` on another port, in plaintext. One server per process is enough. If the settings have
    /// tokens, it requires one of a reader or a higher role.
    pub fn with_metrics<'a>(self, setting: &'a str, listen: &'a str) -> BoxFuture<'a, Result<Self, ServerError>> {
        Box::pin(self.bind_metrics(setting, listen))
    }

    async fn bind_metrics(mut self, setting: &str, listen: &str) -> Result<Self, ServerError> {
        let remedy = "or `server.insecure = true` on a trusted network";
        validate_plaintext(setting, listen, self.settings.insecure, remedy)?;
        let (listener, address) = bind(setting.to_owned(), listen).await?;
        warn_of_plaintext("/metrics", address, "server.insecure is true");
        match install_metrics() {
            Some(handle) => {
                tracing::info!(server = self.name, %address, "metrics");
                self.metrics = Some(MetricsPort { listener, listen: listen.to_owned(), address, handle });
            }
            None => {
                tracing::warn!(server = self.name, "another metrics recorder is installed; /metrics is not served")
            }
        }
        Ok(self)
    }

    /// Also serves routes over HTTP/1 on another port, in plaintext, on at most `connections` connections; further ones
    /// wait. When the server drains, the responses in progress are finished.
    ///
    /// # Errors
    /// [`ServerError::Listen`].
    pub async fn with_http(
        mut self,
        setting: &str,
        listen: &str,
        router: Router,
        connections: usize,
    ) -> Result<(Self, SocketAddr), ServerError> {
        let (listener, address) = bind(setting.to_owned(), listen).await?;
        let listen = listen.to_owned();
        let limits = HttpLimits::default();
        self.http = Some(HttpPort { listener, listen, router, probes: None, tls: None, connections, limits });
        Ok((self, address))
    }

    /// Adds a service. Set its message limits to [`Server::max_message`] first: generated servers have defaults of
    /// their own.
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

    /// The bound address, with the actual port if the settings have port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The shutdown signal for handlers.
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// `max_message` of the settings in bytes, for `max_decoding_message_size` and `max_encoding_message_size`.
    pub fn max_message(&self) -> usize {
        self.settings.max_message.bytes_usize()
    }

    /// The URL for clients on the same machine.
    pub fn endpoint(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        format!("{}://{address}", if self.settings.tls.is_some() { "https" } else { "http" })
    }

    /// Serves until `shutdown` completes, then drains.
    pub fn run(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, Result<ShutdownOutcome, ServerError>> {
        self.run_until(Box::pin(shutdown))
    }

    /// Not generic, so that HTTP/2 and all layers are compiled with this crate and not with each program that serves.
    fn run_until(self, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, Result<ShutdownOutcome, ServerError>> {
        Box::pin(self.serve_and_clean_up(shutdown))
    }

    async fn serve_and_clean_up(self, shutdown: BoxFuture<'static, ()>) -> Result<ShutdownOutcome, ServerError> {
        // They own the listeners: once they have ended, the ports are free again.
        let mut helpers = JoinSet::new();
        let result = self.serve(&mut helpers, shutdown).await;
        helpers.shutdown().await;
        result
    }

    async fn serve(
        self,
        helpers: &mut JoinSet<()>,
        shutdown: BoxFuture<'static, ()>,
    ) -> Result<ShutdownOutcome, ServerError> {
        let Self {
            name,
            settings,
            listener,
            address,
            metrics,
            http,
            tls,
            access,
            private,
            mut routes,
            services,
            drain,
        } = self;
        if let Some(metrics) = metrics {
            serve_metrics(helpers, metrics, access.metrics_auth());
        }
        let health = HealthReporter::new();
        routes.add_service(tonic_health::pb::health_server::HealthServer::new(
            tonic_health::server::HealthService::from_health_reporter(health.clone()),
        ));
        if settings.reflection {
            add_reflection(&mut routes, &services);
        }
        set_health(&health, &services, ServingStatus::Serving).await;

        let stop = CancellationToken::new();
        let mut http_port = JoinSet::new();
        if let Some(http) = http {
            http_port.spawn(http.serve(stop.clone()));
        }
        let connections = Connections::new(&settings);
        helpers.spawn(connections.clone().close_expired());
        let incoming = accept_all(helpers, listener, tls, stop.clone(), drain.aborting_token(), connections);
        let calls = CallLayer {
            draining: drain.draining_token(),
            receiving: Admission::new("receive", Unit::Bytes, settings.max_receive.bytes_usize()),
            max_decoded: settings.max_decoded.bytes(),
            message_timeout: settings.message_timeout,
        };
        let serving = tonic::transport::Server::builder()
            .max_concurrent_streams(settings.max_concurrent_streams)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .http2_keepalive_interval(settings.keepalive_interval())
            .http2_keepalive_timeout(Some(settings.keepalive_timeout))
            .layer(calls)
            .layer(access)
            .add_routes(routes.routes())
            .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
        let mut serving = pin!(serving);
        tracing::info!(server = name, %address, ?services, "serving");

        let end = async {
            tokio::select! {
                () = shutdown => {}
                // Aborting skips the drain.
                () = drain.aborting() => return,
            }
            set_health(&health, &services, ServingStatus::NotServing).await;
            tracing::info!(server = name, settle = %human(settings.settle), drain = %human(settings.drain), "draining");
            tokio::select! {
                () = tokio::time::sleep(settings.settle) => {}
                () = drain.aborting() => {}
            }
        };
        tokio::select! {
            result = &mut serving => return result.map(|()| ShutdownOutcome::Drained).map_err(ServerError::from),
            () = end => {}
        }

        drain.begin();
        // Before its port is free.
        drop(private);
        stop.cancel();
        let drained = async {
            tokio::select! {
                biased;
                () = drain.aborting() => None,
                result = tokio::time::timeout(settings.drain, async {
                    let result = (&mut serving).await;
                    while http_port.join_next().await.is_some() {}
                    result
                }) => result.ok(),
            }
        };
        if let Some(result) = drained.await {
            result?;
            tracing::info!(server = name, "shut down; everything was answered");
            return Ok(ShutdownOutcome::Drained);
        }
        drain.abort();
        if tokio::time::timeout(ABORT_GRACE, serving).await.is_err() {
            tracing::warn!(server = name, "a connection did not close after it was aborted");
        }
        tracing::warn!(server = name, "shut down; unanswered work was aborted");
        Ok(ShutdownOutcome::Aborted)
    }
}

/// Serves `/metrics`, also while the server drains.
fn serve_metrics(helpers: &mut JoinSet<()>, port: MetricsPort, auth: HttpTokenAuth) {
    let MetricsPort { listener, listen, address, handle } = port;
    let upkeep = handle.clone();
    let router = metrics_router(handle).layer(from_fn_with_state(auth, HttpTokenAuth::guard));
    helpers.spawn(metrics_port::serve(listener, refuse_web_pages(router, address, &listen)));
    helpers.spawn(async move {
        let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            interval.tick().await;
            upkeep.upkeep();
        }
    });
}

/// Sets the health of every service, and of the whole server under the empty name.
async fn set_health(health: &HealthReporter, services: &[&'static str], status: ServingStatus) {
    for service in services.iter().chain(&[""]) {
        health.set_service_status(*service, status).await;
    }
}

/// Adds reflection of exactly the services of this server, in both versions of the protocol: older tools know only
/// v1alpha.
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
