//! The environment service: the other side of episodes with several turns.
//!
//! One stream carries many episodes, each with a state of its own (`evenkeel_episode::session`). An episode whose worker is lost begins again
//! elsewhere: nothing of it is kept. A fault that is not the model's own (an invalid task, a full worker, a deadline) ends the episode without
//! a result: it must not be trained on as if the model had failed.
//!
//! [`bind`] creates a server from [`EnvironmentSettings`], in a process of its own or on loopback within another. `service` implements the
//! gRPC API, `stream` serves one call of it, `open_episode` is one episode.
#![forbid(unsafe_code)]

mod counts;
mod error;
mod open_episode;
mod series;
mod service;
mod settings;
mod start;
mod stream;

pub use error::EnvironmentError;
pub use series::SERIES;
pub use settings::EnvironmentSettings;
pub use start::bind;
