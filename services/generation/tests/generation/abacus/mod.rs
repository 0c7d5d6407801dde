//! A second engine protocol, as one is added: this folder, and its line among the protocols that a service is given.
//!
//! `abacus` is an engine whose HTTP has nothing in common with vLLM's: `/about`, `/draw`, `/score`, `/load`, `/hold`
//! and `/go`. Loading also sets the label of the weights.

mod client;
mod server;
mod tests;

use evenkeel_generation::engine::{EngineProtocol, PROTOCOLS};

const WITH_ABACUS: &[EngineProtocol] = &[PROTOCOLS[0], client::PROTOCOL];
