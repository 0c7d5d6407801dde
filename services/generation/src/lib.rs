//! The generation service: inference engines that speak vLLM's HTTP as one reliable source of rollouts.
//!
//! A sample goes in as token ids and comes out as token ids with one log-probability each, or as a failure that says why; what an
//! engine answers counts only as far as it checks. Engines may die, hang, restart with old weights or answer nonsense: their samples
//! are begun again elsewhere, with the same seed and under the same id. New weights reach every engine before a sample can carry
//! their version.
//!
//! [`bind`] makes a server of [`GenerationConfig`]:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_generation::{GenerationConfig, bind};
//!
//! let config = GenerationConfig { endpoints: vec!["http://127.0.0.1:8000".into()], ..GenerationConfig::default() };
//! let server = bind(config).await?.spawn();
//! println!("{}", server.endpoint());
//! # Ok(())
//! # }
//! ```
//!
//! From the outside in: `service` is the gRPC door, `sample` the life of one item, `fleet` the engines and who gets what, `weights`
//! their change, `engine` what is asked of an engine and how vLLM is asked it.
#![forbid(unsafe_code)]

mod engine;
mod error;
mod fleet;
mod model;
mod sample;
mod service;
mod settings;
mod start;
mod status;
mod weights;

pub use error::GenerationError;
pub use settings::{EngineConfig, GenerationConfig, LogProbabilitySetting, PauseSetting, StreamSetting, WeightsConfig};
pub use start::{bind, bind_with, serve};
