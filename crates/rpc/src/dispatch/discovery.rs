//! Endpoints of workers and the resolution of their names.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::FieldError;
use tokio::sync::watch;

use crate::BoxFuture;
use crate::client::{SOCKET, ServerAddress};

pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `host`, with `port`.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// The endpoints of a setting.
#[derive(Clone)]
pub struct Endpoints {
    fixed: BTreeSet<ServerAddress>,
    names: Vec<Name>,
    resolver: Arc<dyn Resolve>,
}

/// A name with a worker at each address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: u16,
    secure: bool,
}

impl Endpoints {
    /// Parses the setting `endpoints`.
    pub fn parse(endpoints: &[impl AsRef<str>]) -> Result<Self, FieldError> {
        const ALLOWED: &str = "http://HOST:PORT, https://HOST:PORT, dns://HOST:PORT or dns+tls://HOST:PORT";
        if endpoints.is_empty() {
            return Err(FieldError::new("endpoints", "empty", format!("at least one of {ALLOWED}")));
        }
        let mut parsed = Self::none();
        for (index, endpoint) in endpoints.iter().enumerate() {
            let endpoint = endpoint.as_ref();
            let invalid = || FieldError::new(format!("endpoints[{index}]"), format_args!("{endpoint:?}"), ALLOWED);
            let (scheme, rest) = endpoint.split_once("://").ok_or_else(invalid)?;
            let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(invalid)?;
            let port: u16 = port.parse().map_err(|_| invalid())?;
            if host.is_empty() || host.contains(['/', '?', '@', ' ']) {
                return Err(invalid());
            }
            match scheme {
                "http" | "https" => {
                    parsed.fixed.insert(ServerAddress::new(format!("{scheme}://{host}:{port}")));
                }
                "dns" | "dns+tls" => {
                    let name = Name { host: host.to_owned(), port, secure: scheme == "dns+tls" };
                    if !parsed.names.contains(&name) {
                        parsed.names.push(name);
                    }
                }
                _ => return Err(invalid()),
            }
        }
        Ok(parsed)
    }

    /// Parses addresses that may be sockets as well, `unix:PATH`, of programs that this process has started. Settings
    /// have none: a client of the process could name any socket of the machine.
    ///
    /// # Errors
    /// As [`Endpoints::parse`].
    pub fn with_sockets(addresses: &[String]) -> Result<Self, FieldError> {
        let (sockets, others): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.starts_with(SOCKET));
        if sockets.is_empty() {
            return Self::parse(&others);
        }
        let mut parsed = if others.is_empty() { Self::none() } else { Self::parse(&others)? };
        parsed.fixed.extend(sockets.into_iter().map(ServerAddress::new));
        Ok(parsed)
    }

    fn none() -> Self {
        Self { fixed: BTreeSet::new(), names: Vec::new(), resolver: Arc::new(SystemResolver) }
    }

    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// The current addresses: fixed ones at once, those behind names as they are resolved. Resolution ends with the
    /// last receiver.
    pub fn watch(self, interval: Duration) -> watch::Receiver<BTreeSet<ServerAddress>> {
        let (found, receiver) = watch::channel(self.fixed.clone());
        if !self.names.is_empty() {
            tokio::spawn(self.keep_resolving(interval, found));
        }
        receiver
    }

    async fn keep_resolving(self, interval: Duration, found: watch::Sender<BTreeSet<ServerAddress>>) {
        let mut known: Vec<BTreeSet<ServerAddress>> = vec![BTreeSet::new(); self.names.len()];
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = found.closed() => return,
            }
            for (name, known) in self.names.iter().zip(&mut known) {
                // A resolver that hangs must not block the other names.
                let answer = tokio::time::timeout(
                    interval.max(Duration::from_secs(5)),
                    self.resolver.resolve(&name.host, name.port),
                );
                match answer.await.map_err(io::Error::from).flatten() {
                    Ok(addresses) if !addresses.is_empty() => {
                        *known = addresses.into_iter().map(|at| name.address(at)).collect()
                    }
                    // The last result stays valid: a resolver that fails says nothing about the workers.
                    Ok(_) => tracing::debug!(host = name.host, "no address found"),
                    Err(error) => {
                        metrics::counter!("evenkeel_resolve_failures_total", "host" => name.host.clone()).increment(1);
                        tracing::debug!(host = name.host, %error, "cannot resolve");
                    }
                }
            }
            let all: BTreeSet<ServerAddress> = known.iter().flatten().chain(&self.fixed).cloned().collect();
            found.send_if_modified(|current| {
                let changed = *current != all;
                *current = all;
                changed
            });
        }
    }
}

impl Name {
    fn address(&self, socket: SocketAddr) -> ServerAddress {
        let scheme = if self.secure { "https" } else { "http" };
        ServerAddress { url: format!("{scheme}://{socket}"), host: Some(self.host.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Returns the configured result.
    #[derive(Default)]
    struct Scripted(Mutex<Option<Vec<SocketAddr>>>);

    impl Resolve for Scripted {
        fn resolve<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
            let answer = self.0.lock().unwrap().clone().ok_or_else(|| io::Error::other("no answer"));
            Box::pin(std::future::ready(answer))
        }
    }

    fn urls(addresses: &BTreeSet<ServerAddress>) -> Vec<&str> {
        addresses.iter().map(|target| target.url.as_str()).collect()
    }

    #[test]
    fn endpoints_are_read_or_refused_by_index() {
        assert!(Endpoints::parse(&["http://a:1", "https://[::1]:2/", "dns://reward:3", "dns+tls://reward:4"]).is_ok());
        for endpoint in [
            "reward:1",
            "unix:/run/reward",
            "unix:///run/reward",
            "ftp://a:1",
            "http://a",
            "http://:1",
            "http://a:x",
            "dns://a/b:1",
        ] {
            let error = Endpoints::parse(&["http://a:1", endpoint]).err().unwrap();
            assert_eq!((error.field.as_str(), error.value), ("endpoints[1]", format!("{endpoint:?}")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_resolved_again_and_its_last_result_stays_valid() {
        let resolver = Arc::new(Scripted::default());
        let set = |answer: Option<&[&str]>| {
            *resolver.0.lock().unwrap() = answer.map(|list| list.iter().map(|at| at.parse().unwrap()).collect());
        };
        set(Some(&["10.0.0.2:7", "10.0.0.1:7"]));
        let endpoints =
            Endpoints::parse(&["dns://reward:7", "http://fixed:1"]).unwrap().with_resolver(resolver.clone());
        let mut found = endpoints.watch(Duration::from_secs(3));
        found.changed().await.unwrap();
        assert_eq!(urls(&found.borrow_and_update()), ["http://10.0.0.1:7", "http://10.0.0.2:7", "http://fixed:1"]);
        assert_eq!(found.borrow().first().unwrap().host.as_deref(), Some("reward"));

        set(None);
        tokio::time::sleep(Duration::from_secs(10)).await;
        set(Some(&[]));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!found.has_changed().unwrap(), "failures remove no worker");

        set(Some(&["10.0.0.2:7", "10.0.0.3:7"]));
        found.changed().await.unwrap();
        assert_eq!(urls(&found.borrow_and_update()), ["http://10.0.0.2:7", "http://10.0.0.3:7", "http://fixed:1"]);
    }
}
