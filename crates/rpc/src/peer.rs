//! The identity of clients. A server shares its capacity between connections, and between the hosts that they come
//! from.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    static CURRENT: ClientId;
}

/// One connection of a client, unique within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    connection: u64,
    host: Host,
}

/// The host of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 /64 network: a host that has one of its addresses has all.
    V6([u16; 4]),
    /// Unknown; each connection counts as a host of its own.
    Unknown(u64),
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl ClientId {
    /// A new client at an unknown address.
    pub fn anonymous() -> Self {
        let connection = Self::next();
        Self { connection, host: Host::Unknown(connection) }
    }

    /// A new connection from an address.
    pub fn at(address: IpAddr) -> Self {
        Self { connection: Self::next(), host: address.into() }
    }

    fn next() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    pub fn host(self) -> Host {
        self.host
    }

    /// The client of the current call; an anonymous one outside of calls.
    pub fn current() -> Self {
        CURRENT.try_with(|client| *client).unwrap_or_else(|_| Self::anonymous())
    }

    /// Runs a call of this client.
    pub(crate) fn scope<F: Future>(self, call: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, call)
    }
}
