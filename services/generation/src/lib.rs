//! The generation service: inference engines as one reliable source of rollouts.
//!
//! A sample comes in as token ids and goes out as token ids with one log-probability each, or as a failure that says
//! why. Responses of engines are validated before they count. Engines may die, hang, restart with old weights or
//! respond with garbage: their samples are drawn again on another engine, with the same seed and id. New weights reach
//! an engine before it samples under their version.
//!
//! [`bind`] makes a server from a [`GenerationSettings`]:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_generation::{GenerationSettings, bind};
//!
//! let settings = GenerationSettings { endpoints: vec!["http://127.0.0.1:8000".into()], ..GenerationSettings::default() };
//! let server = bind(settings).await?.spawn();
//! println!("{}", server.endpoint());
//! # Ok(())
//! # }
//! ```
//!
//! From the outside in: `service` implements the gRPC API, `sample` one item, `discovery` and `monitor` watch the
//! engines, `update` changes their weights, which `agents` fetch where there is no folder that all see, `pool` holds
//! their state and balances load, [`engine`] is the client of one of them, by
//! protocol.
#![forbid(unsafe_code)]

mod agents;
mod discovery;
pub mod engine;
mod error;
mod health;
mod model;
mod monitor;
mod pool;
mod sample;
mod series;
mod service;
mod settings;
mod start;
mod update;

pub use engine::WORKER_EXTENSION;
pub use error::GenerationError;
pub use series::SERIES;

pub use settings::{
    AgentsSettings, EngineClientSettings, GenerationSettings, LogProbabilitySetting, PauseSetting, StreamSetting,
    WeightsSettings, WeightsSource,
};
pub use start::{BindOptions, bind, bind_with, serve};
