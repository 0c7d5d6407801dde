//! What a cell did.

use std::time::Duration;

use crate::run::{ExitStatus, Run};

/// What a cell did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellOutcome {
    /// The cell ended. The session goes on.
    Ran {
        /// Standard output and error, and the value of a last expression.
        text: String,
        /// Whether it ended with an exception, which is in the text.
        raised: bool,
    },
    /// The cell was ended, and its interpreter with it: the next cell begins without the names that there were.
    Ended {
        /// Output before the failure.
        text: String,
        /// Why the cell was ended, in one line.
        why: String,
    },
    /// There is no outcome, through no fault of the cell: the session is lost.
    Lost(String),
}

impl CellOutcome {
    pub(super) fn of(run: Run, limit: Duration) -> Self {
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let ended = |why: String| Self::Ended { text: text.clone(), why };
        match run.status {
            ExitStatus::Returned(value) => Self::Ran { text, raised: value != b"T" },
            ExitStatus::TimeLimit => ended(format!("it took longer than {} s", limit.as_secs_f64())),
            ExitStatus::OutOfMemory => ended("it used more memory than it may".to_owned()),
            ExitStatus::OutputLimit => ended("it wrote more than it may".to_owned()),
            ExitStatus::Exited(_) => ended("it ended its interpreter".to_owned()),
            ExitStatus::Trapped(why) => ended(why),
            // The program in the interpreter catches whatever a cell raises; a cell may have broken that.
            ExitStatus::Raised(why)
            | ExitStatus::Fatal(why)
            | ExitStatus::LoadFailed(why)
            | ExitStatus::CompileError(why) => ended(why),
            ExitStatus::NoSuchFunction => ended("it broke its interpreter".to_owned()),
            ExitStatus::NeedsMemory | ExitStatus::Starved => Self::Lost("the machine is too busy".to_owned()),
            ExitStatus::Cancelled => Self::Lost("cancelled".to_owned()),
            ExitStatus::Internal(why) => Self::Lost(why),
        }
    }
}
