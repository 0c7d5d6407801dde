//! The embedded inference server: Qwen models on the CPU behind the HTTP of vLLM 0.32.
//!
//! It exists so that a cluster trains without anything to install: whoever speaks to a vLLM speaks to it, and cannot tell but by
//! what docs/engine.md lists. [`Engine::start`] serves a folder within the calling process; [`RunningEngine::stop`] drains it.
//!
//! - A request's samples are fixed to the bit by its prompt, settings and seed and by the weights, whatever else runs: alone, in
//!   a batch of hundreds, in any order of arrival, on any number of threads.
//! - Every queue is bounded and says so (503), and a client that goes away frees what it held.
//! - A field that is not honoured is refused by name.
#![forbid(unsafe_code)]

mod connections;
mod engine;
mod error;
mod folder;
mod http;
mod metrics;
mod sampling;
mod scheduler;
mod settings;
mod text;

pub use engine::{Ended, Engine, RunningEngine, check_folder};
pub use error::EngineError;
pub use http::VLLM_VERSION;
pub use settings::{EngineConfig, LogprobsMode};
