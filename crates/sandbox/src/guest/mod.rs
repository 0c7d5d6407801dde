//! The guest: CPython as a WebAssembly component, compiled to machine code and stored in a folder.
//!
//! `crates/guest` builds and compiles it, with tools that the sandbox itself does not need. Here it is located by its
//! file name, which identifies its sources, and loaded. If it is missing, the builder is started.
//!
//! The folder is `EVENKEEL_GUEST_DIR`, or `evenkeel` in the user's cache folder. Each file is stored with its hash, and
//! rebuilt if it does not match. A read-only folder named by `EVENKEEL_GUEST_IMAGE` is searched first: container images
//! include the guest there.

mod builder;
mod folder;
mod form;
mod sources;

use std::path::{Path, PathBuf};

use wasmtime::Engine;
use wasmtime::component::Component;

pub use builder::BUILDER;
pub use folder::{default_folder, finish, image_folder, is_whole, lock};
pub use form::Form;
pub use sources::{COMPONENTIZER, LINKER_DIGEST, MODULES, WHEELS, WIT, component_name};

/// Why the guest is not available.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// It is not in the folder, and its builder is not installed.
    #[error(
        "the guest interpreter is not in {folder} and `{BUILDER}`, which builds it, is not installed: run `cargo run \
         --release -p {BUILDER}` in a checkout, or name the program with EVENKEEL_GUEST_BUILDER",
        folder = folder.display()
    )]
    NoBuilder {
        /// Where it was searched for.
        folder: PathBuf,
    },
    /// The builder failed.
    #[error("building the guest interpreter failed: {0}")]
    Build(String),
    /// The compiled guest is damaged, or incompatible with this program or this processor.
    #[error("the guest interpreter cannot be loaded: {0}")]
    Load(#[from] LoadError),
    /// There is no folder to store it in.
    #[error("no folder for the guest interpreter: set EVENKEEL_GUEST_DIR, XDG_CACHE_HOME or HOME")]
    NoFolder,
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

/// Why a compiled guest cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is missing, or does not match its hash.
    #[error("{} is missing or damaged", .0.display())]
    Damaged(PathBuf),
    /// The engine cannot be set up on this machine, or not with this guest.
    #[error("{0:#}")]
    Engine(wasmtime::Error),
    /// It was compiled for another engine or processor.
    #[error("{}: {error:#}", path.display())]
    Incompatible {
        /// The file.
        path: PathBuf,
        /// The reason of wasmtime.
        error: wasmtime::Error,
    },
}

impl GuestError {
    /// Wraps an error about a file.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Loads the compiled guest, and has it built first if it is missing. `progress` is called with every line that the
/// builder writes.
pub(crate) fn load(
    folder: &Path,
    engine: &Engine,
    form: Form,
    progress: &dyn Fn(&str),
) -> Result<Component, GuestError> {
    let name = form.file_name();
    let image = image_folder();
    if let Some(component) = image
        .iter()
        .map(|image| image.as_path())
        .chain([folder])
        .find_map(|folder| open(engine, &folder.join(&name)).ok())
    {
        return Ok(component);
    }
    builder::run(folder, form, progress)?;
    Ok(open(engine, &folder.join(&name))?)
}

/// Loads a compiled guest from a file.
///
/// # Errors
///
/// The file does not match its hash, or was compiled for another engine or processor.
pub fn open(engine: &Engine, path: &Path) -> Result<Component, LoadError> {
    if !is_whole(path) {
        return Err(LoadError::Damaged(path.to_owned()));
    }
    // SAFETY: the file contains machine code, and wasmtime requires that it comes from `precompile_component`. It is in
    // a folder that belongs to this program, was renamed to its name after it was written completely, is never
    // modified, and matches the hash that was recorded when it was built. An attacker who can forge both files can
    // replace this program as well. Wasmtime itself refuses code for another version or processor.
    #[allow(unsafe_code)]
    let component = unsafe { Component::deserialize_file(engine, path) };
    component.map_err(|error| LoadError::Incompatible { path: path.to_owned(), error })
}
