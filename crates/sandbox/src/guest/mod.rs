//! The guest: CPython as a WebAssembly component, compiled to machine code and stored in a folder.
//!
//! `crates/guest` builds and compiles it, with tools that the sandbox itself does not need. Here it is located by its
//! file name, which identifies its sources, and loaded (`load`), or left to worker processes. If it is missing, the
//! builder is started.
//!
//! The folder is `EVENKEEL_GUEST_DIR`, or `evenkeel` in the user's cache folder. Each file is stored with its hash, and
//! rebuilt if it does not match. A read-only folder named by `EVENKEEL_GUEST_IMAGE` is searched first: container images
//! include the guest there.

mod builder;
mod folder;
mod form;
#[cfg(feature = "interpreter")]
mod load;
mod python;
mod sources;

use std::path::{Path, PathBuf};

pub use builder::BUILDER;
pub(crate) use builder::find as find_builder;
pub use folder::{default_folder, finish, image_folder, is_whole, lock};
pub use form::Form;
#[cfg(feature = "interpreter")]
pub(crate) use load::load;
#[cfg(feature = "interpreter")]
pub use load::{LoadError, open};
pub use python::python_module;
pub use sources::{COMPONENTIZER, LINKER_DIGEST, MODULES, WHEELS, WIT, component_name};

/// Why the guest is not available.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest is not in the folder, and its builder is not installed.
    #[error(
        "the guest interpreter is not in {folder} and `{BUILDER}`, which builds it, is not installed: run `cargo build \
         --release --workspace --bin {BUILDER}` in a checkout, or name the program with EVENKEEL_GUEST_BUILDER",
        folder = folder.display()
    )]
    NoBuilder {
        /// Folder that was searched.
        folder: PathBuf,
    },
    /// This program has no interpreter, and the one that has is not installed.
    #[error(
        "this program was built without the feature `sandbox` and `{BUILDER}`, which runs programs for it, is not \
         installed: run `cargo build --release --workspace --bin {BUILDER}` in a checkout, name the program \
         with EVENKEEL_GUEST_BUILDER, or build this one with `--features sandbox`"
    )]
    NoInterpreter,
    /// A worker process does not start.
    #[error("programs cannot be run: {0}")]
    Worker(String),
    /// The builder ran and failed.
    #[error("building the guest interpreter failed: {0}")]
    Build(String),
    /// The compiled guest is damaged, or incompatible with this program or this processor.
    #[cfg(feature = "interpreter")]
    #[error("the guest interpreter cannot be loaded: {0}")]
    Load(#[from] LoadError),
    /// There is no folder to store it in.
    #[error("no folder for the guest interpreter: set EVENKEEL_GUEST_DIR, XDG_CACHE_HOME or HOME")]
    NoFolder,
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// File that could not be read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl GuestError {
    /// Wraps an error about a file.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Has the guest built if no folder has it.
pub(crate) fn ensure(folder: &Path, form: Form, progress: &dyn Fn(&str)) -> Result<(), GuestError> {
    let name = form.file_name();
    if image_folder().into_iter().chain([folder.to_owned()]).any(|folder| is_whole(&folder.join(&name))) {
        return Ok(());
    }
    builder::run(folder, form, progress)
}
