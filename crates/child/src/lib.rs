//! Child processes that end with all that they have started: their last words, and frames to and from them.
//!
//! A [`ProcessGroup`] is a program with its pipes, [`LastLines`] keep what it said last, and a [`FramedProcess`] takes
//! requests and gives answers, each in a frame with the id of the request. None of them gets the secrets of this
//! process's environment: [`ChildLimits`].
#![forbid(unsafe_code)]

mod frame;
mod framed_process;
mod group;
mod last_lines;
mod limits;
mod secrets;
mod uncollected;

pub use frame::{Frame, FrameId, read_frame, write_frame};
pub use framed_process::{Answers, FramedProcess, PIPE};
pub use group::{ProcessGroup, StartedProcess, describe_end};
pub use last_lines::LastLines;
pub use limits::ChildLimits;
pub use secrets::has_secret_name;

use std::time::Duration;

/// How long a process may take until it is ready: imports such as torch take long.
pub const START: Duration = Duration::from_secs(120);
/// How long to wait for the status and the last output of a process that ends.
pub const EXIT: Duration = Duration::from_secs(2);
