//! Child processes that end with all that they have started: their last words, and lines of JSON to and from them.
//!
//! A [`ProcessGroup`] is a program with its pipes, [`LastLines`] keep what it said last, and a [`JsonProcess`] takes
//! requests and gives answers, a line of JSON each.
#![forbid(unsafe_code)]

mod group;
mod json_process;
mod last_lines;

pub use group::{ProcessGroup, StartedProcess, describe_end};
pub use json_process::{Answers, JsonProcess};
pub use last_lines::LastLines;

use std::time::Duration;

/// How long a process may take until it is ready: imports such as torch take long.
pub const START: Duration = Duration::from_secs(120);
/// How long to wait for the status and the last output of a process that ends.
pub const EXIT: Duration = Duration::from_secs(2);
