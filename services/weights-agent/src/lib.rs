//! The agent beside engines, where these share no folder with the learner: it fetches published weights over gRPC, and
//! keeps one copy of them for all engines of its node.
//!
//! [`bind`] creates a server from [`WeightsAgentSettings`]. `service` implements the gRPC API, `pull` is one pull: what
//! it consists of says the learner (`description`), `folders` are the copies of this node, `fetch` brings one file,
//! `writer` writes it, `rate` bounds the bandwidth.
//!
//! A copy gets its name once the digest of the whole is that of the request. What was fetched before a cut is kept and
//! continued, also by another process; tensors that the copy before has are taken from there.
#![forbid(unsafe_code)]

mod description;
mod error;
mod fetch;
mod folders;
mod pull;
mod rate;
mod series;
mod service;
mod settings;
mod start;
mod writer;

pub use error::WeightsAgentError;
pub use series::SERIES;
pub use settings::WeightsAgentSettings;
pub use start::bind;
