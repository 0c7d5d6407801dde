//! Why the guest could not be built.

use evenkeel_sandbox::guest::GuestError;

/// Why the guest could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The machine has no suitable Python.
    #[error(
        "building the guest needs Python 3.9 or newer: `{command}` {problem}; install python3 or name one with \
        EVENKEEL_PYTHON"
    )]
    NoPython { command: String, problem: String },
    /// Python has no pip and cannot create an environment with one.
    #[error("building the guest needs Python's pip (on Debian: python3-pip or python3-venv): {0}")]
    NoPip(String),
    /// componentize-py could not be installed.
    #[error("building the guest needs {wheel} from the Python package index: {problem}")]
    NoComponentizer {
        wheel: String,
        /// The end of pip's output.
        problem: String,
    },
    #[error("componentize-py failed: {0}")]
    Componentize(String),
    /// The component does not have the structure that the linker expects.
    #[error("linking the guest failed: {0}")]
    Link(String),
    /// The component does not compile.
    #[error("compiling the guest failed: {0}")]
    Compile(String),
    /// An error in the folder or a file in it.
    #[error(transparent)]
    Guest(#[from] GuestError),
}
