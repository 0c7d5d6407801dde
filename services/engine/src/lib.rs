//! The embedded inference server: dense decoders on the CPU behind the HTTP API of vLLM 0.32.
//!
//! With it a cluster can train without installing anything else. Clients of vLLM use it unchanged; docs/engine.md lists
//! the differences. [`Engine::start`] serves a folder within the calling process; [`RunningEngine::stop`] drains it.
//!
//! - Prompt, settings, seed and weights determine the samples of a request to the bit: alone, in a batch of hundreds,
//!   in any order of arrival, on any number of threads.
//! - Every queue is bounded (503 when it is full), and a client that disconnects frees what it held.
//! - Unsupported fields are refused by name.
#![forbid(unsafe_code)]

mod engine;
mod error;
mod finish;
mod folder;
mod http;
mod metrics;
mod sampling;
mod scheduler;
mod settings;
mod text;

pub use engine::{Engine, RunningEngine, Shutdown, validate_model_folder};
pub use error::EngineError;
pub use evenkeel_model::sampling::LogprobsMode;
pub use folder::context_tokens;
pub use http::VLLM_VERSION;
pub use metrics::SERIES;
pub use settings::{EngineSettings, EngineTlsSettings};
