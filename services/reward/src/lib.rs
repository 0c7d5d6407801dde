//! The reward service: judges whether the answer of a sample is right.
//!
//! Samples arrive as items of a stream, each with its own deadline. Each verdict is sent as soon as it is final, in any
//! order, with the item's id. Judging runs on separate threads, so that a long text delays no other call. A fault that
//! is not the sample's own (an invalid gold answer, a full queue, a deadline, a defect) is INVALID and has no reward:
//! it must not be trained on as a wrong answer.
//!
//! [`bind`] creates a server from [`RewardSettings`], in a process of its own or on loopback within another:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_reward::{RewardSettings, bind};
//!
//! let server = bind(RewardSettings::default()).await?.spawn();
//! let endpoint = server.endpoint();
//! # Ok(())
//! # }
//! ```
//!
//! `service` implements the gRPC API. [`Verifier`] judges a single item: an answer with `evenkeel-math`, a program with
//! `evenkeel-sandbox`, whose sandbox is prepared when the first program arrives. `functions` calls reward functions of
//! Python files, `judge` asks a model that scores by a rubric. [`gateway`] is one address in front of many workers.
#![forbid(unsafe_code)]

mod counts;
mod error;
mod functions;
pub mod gateway;
mod judge;
mod run_code;
mod serial_thread;
mod series;
mod service;
mod settings;
mod spans;
mod start;
mod verifier;

pub use error::RewardError;
pub use evenkeel_judge::{JudgeError, JudgeSettings, RECORD_FILE};
pub use judge::check_judge;
pub use series::SERIES;
pub use settings::{
    CodeSettings, FunctionSettings, FunctionTables, HttpSettings, LimitSettings, MathDefaults, ModeSetting,
    RewardSettings, SandboxStart, UnsupportedSetting,
};
pub use start::{bind, bind_with_worker_processes, serve};
pub use verifier::{CodeWork, MathWork, ReadProgram, SandboxError, Verifier, Work, WorkerProcesses};
