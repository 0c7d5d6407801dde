//! Episodes with several turns, without I/O.
//!
//! - [`episode`] is an episode as the run sees it, which drives it; [`session`] the same as a worker sees it, which
//!   serves it.
//! - [`tool_calls`] takes what the model said apart: reasoning, text and calls of tools.
//! - [`budget`] is what an episode may use.
//! - [`BuiltIn`] names the environments that come with the program, each an [`Environment`].
//! - [`Description`] is what the model is told of one, and [`EnvironmentOrigin`] where one comes from.
//!
//! The protocol is `evenkeel.v1.Environment`, whose messages are used as they are.
#![forbid(unsafe_code)]

pub mod budget;
pub mod episode;
pub mod session;
pub mod tool_calls;

mod built_in;
mod calculator;
mod description;
mod environment;
mod guess_number;
mod large_numbers;
mod rational;
mod tool;

pub use built_in::BuiltIn;
pub use description::{AGENT, Description, Descriptions, EnvironmentOrigin, OPENENV, PYTHON, VERIFIERS};
pub use environment::{Environment, MAX_CONTENT, StepResult, TaskError, answered, cut, read_call, step, user_says};
pub use tool::Tool;
