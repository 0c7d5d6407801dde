//! The reward service: is the answer of a sample right?
//!
//! Samples come as items of a stream, each with its own deadline; each verdict leaves the moment it stands, in any order, under the
//! item's id. Judging happens on threads of its own, so that a long text delays no other call. Whatever goes wrong outside of the
//! sample (a gold answer that cannot be read, a full queue, a deadline, a defect) is INVALID and has no reward: it must not be
//! trained on as a wrong answer.
//!
//! [`bind`] makes a server of [`RewardConfig`], for a process of its own or on loopback within another:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_reward::{RewardConfig, bind};
//!
//! let server = bind(RewardConfig::default()).await?.spawn();
//! let endpoint = server.endpoint();
//! # Ok(())
//! # }
//! ```
//!
//! From the outside in: `service` is the gRPC door; [`Judge`] gives the verdict on one item, on an answer by `evenkeel-math` and on a
//! program by `evenkeel-sandbox`, whose sandbox it makes ready when the first program comes.
#![forbid(unsafe_code)]

mod error;
mod judge;
mod line;
mod service;
mod settings;
mod start;
mod tally;

pub use error::RewardError;
pub use judge::{Cancel, Cells, CodeWork, Judge, MathWork, ReadProgram, Work};
pub use settings::{CodeConfig, LimitsConfig, MathConfig, ModeConfig, RewardConfig, SandboxStart, UnsupportedConfig};
pub use start::{bind, bind_with_cells, serve};
