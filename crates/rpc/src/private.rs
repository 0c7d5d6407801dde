//! Private servers: a process starts them for itself, on loopback, and they refuse everybody else.
//!
//! They know their own clients by a secret that the process draws at random when it starts the first one. It is nowhere
//! but in memory. Clients of the process send it to addresses at which a private server listens, in place of the token
//! of their settings, and to no others: neither to services of other processes nor to verifiers of the user's own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use evenkeel_host::Secret;

use crate::reload::BearerTokens;

/// The secret of this process.
static SECRET: LazyLock<BearerTokens> = LazyLock::new(|| BearerTokens::fixed(Secret::random()));
/// Where private servers of this process listen.
static ADDRESSES: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());

/// The address of a private server. Clients of this process send the secret there until it is dropped: drop it before
/// the port is free again.
#[derive(Debug)]
pub struct PrivateAddress(SocketAddr);

impl PrivateAddress {
    /// Claims the address of a server that has bound it and lets nobody in without [`PrivateAddress::tokens`].
    pub fn claim(address: SocketAddr) -> Self {
        addresses().insert(address);
        Self(address)
    }

    /// What callers must send.
    pub fn tokens(&self) -> BearerTokens {
        SECRET.clone()
    }
}

impl Drop for PrivateAddress {
    fn drop(&mut self) {
        addresses().remove(&self.0);
    }
}

/// What to send to the server at a URL, if it is a private one of this process.
pub fn tokens_for(url: &str) -> Option<BearerTokens> {
    let address: SocketAddr = url.strip_prefix("http://")?.trim_end_matches('/').parse().ok()?;
    addresses().contains(&address).then(|| SECRET.clone())
}

fn addresses() -> MutexGuard<'static, BTreeSet<SocketAddr>> {
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_goes_to_the_addresses_of_private_servers_as_long_as_they_listen() {
        // Nobody listens at port 1 of this address.
        let claimed = PrivateAddress::claim("127.8.7.6:1".parse().unwrap());
        let secret = claimed.tokens().first().unwrap();
        for url in ["http://127.8.7.6:1", "http://127.8.7.6:1/"] {
            assert_eq!(tokens_for(url).unwrap().first().unwrap().expose(), secret.expose());
        }
        for url in ["http://127.8.7.6:2", "http://127.8.7.5:1", "https://127.8.7.6:1", "http://localhost:1", ""] {
            assert!(tokens_for(url).is_none(), "{url}");
        }
        assert!(!format!("{claimed:?} {:?}", claimed.tokens()).contains(secret.expose()));
        drop(claimed);
        assert!(tokens_for("http://127.8.7.6:1").is_none());
    }
}
