//! The guest as a file: built once from the sources that this crate carries, compiled once for this machine, found in a folder
//! afterwards.
//!
//! The folder is `EVENKEEL_GUEST_DIR`, or `evenkeel` in the user's cache folder. Both forms are named by what they were made from, and
//! lie beside their own hash: a file that was cut short or changed is made again. A folder that is only read, `EVENKEEL_GUEST_IMAGE`, is
//! looked into first: container images carry the guest there, compiled for any CPU of a level.

mod build;
mod compiled;
mod folder;
mod link;
mod portable;
mod sources;

use std::path::{Path, PathBuf};

use wasmtime::Engine;
use wasmtime::component::Component;

pub use folder::default_folder;
pub use portable::{PORTABLE_CPU, write_portable};
pub(crate) use sources::hex;

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The machine has no Python to build it with.
    #[error(
        "the guest has to be built once, which needs Python 3.9 or newer: `{command}` {problem}; install python3 or name one with EVENKEEL_PYTHON"
    )]
    NoPython {
        /// What was run.
        command: String,
        /// What happened.
        problem: String,
    },
    /// Python is there, but has no pip and cannot make an environment with one.
    #[error("the guest has to be built once, which needs Python's pip (on Debian: python3-pip or python3-venv): {0}")]
    NoPip(String),
    /// componentize-py could not be installed.
    #[error("the guest has to be built once, which needs {wheel} from the Python package index: {problem}")]
    NoComponentizer {
        /// Name and version.
        wheel: String,
        /// The end of pip's output.
        problem: String,
    },
    /// componentize-py failed.
    #[error("building the guest failed: {0}")]
    Build(String),
    /// The component does not compile or does not fit the host.
    #[error("the guest cannot be loaded: {0}")]
    Load(String),
    /// No folder to keep it in.
    #[error("no folder for the guest: set EVENKEEL_GUEST_DIR, XDG_CACHE_HOME or HOME")]
    NoFolder,
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
}

impl GuestError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Builds the guest's component where the folder has none, and says where it is. `progress` is told of everything that takes long.
///
/// # Errors
///
/// Says what is missing on this machine.
pub fn ensure_component(folder: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf, GuestError> {
    build::ensure(folder, progress)
}

/// The component, compiled for the engine.
pub(crate) fn load(folder: &Path, engine: &Engine, progress: &dyn Fn(&str)) -> Result<Component, GuestError> {
    let component = ensure_component(folder, progress)?;
    compiled::load(folder, &component, engine, progress)
}
