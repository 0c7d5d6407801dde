//! The guest: CPython as a WebAssembly component, compiled to machine code and found in a folder.
//!
//! `crates/guest` builds and compiles it, with tools that no worker needs. Here it is found by its name, which says what it was made
//! from, and loaded; where it is missing the builder's program is started.
//!
//! The folder is `EVENKEEL_GUEST_DIR`, or `evenkeel` in the user's cache folder. Each file has its hash beside it: one that was cut short
//! or changed is made again. A read-only folder named by `EVENKEEL_GUEST_IMAGE` is searched first: container images carry the guest there.

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
pub(crate) use sources::hex;
pub use sources::{COMPONENTIZER, LINKER_DIGEST, MODULES, WHEELS, WIT, component_name};

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// It is not in the folder, and neither is the program that builds it.
    #[error(
        "the guest interpreter is not in {folder} and `{BUILDER}`, which builds it, is not installed: run `cargo run --release -p {BUILDER}` \
         in a checkout, or name the program with EVENKEEL_GUEST_BUILDER",
        folder = folder.display()
    )]
    NoBuilder {
        /// Where the guest was looked for.
        folder: PathBuf,
    },
    /// The builder failed.
    #[error("building the guest interpreter failed: {0}")]
    Build(String),
    /// The compiled guest does not fit this program or this processor.
    #[error("the guest interpreter cannot be loaded: {0}")]
    Load(String),
    /// No folder to keep it in.
    #[error("no folder for the guest interpreter: set EVENKEEL_GUEST_DIR, XDG_CACHE_HOME or HOME")]
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
    /// What happened to a file.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Loads the compiled guest, and has it built first where it is missing. `progress` is called with every line that the builder writes.
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
    open(engine, &folder.join(&name)).map_err(GuestError::Load)
}

/// The compiled form in a file, if it is whole and made for an engine like this one and for this processor.
///
/// # Errors
///
/// Says what is wrong with the file.
pub fn open(engine: &Engine, path: &Path) -> Result<Component, String> {
    if !is_whole(path) {
        return Err(format!("{} is missing or damaged", path.display()));
    }
    // SAFETY: the file holds machine code, and wasmtime requires that `precompile_component` made it. It lies in a folder of this
    // program's own, got its name by a rename after it was written whole, is never written to again, and has just been found to have
    // the hash that was noted when it was made. Whoever can forge both files can replace this program as well. A form made by another
    // version or for another processor is refused by wasmtime itself.
    #[allow(unsafe_code)]
    let component = unsafe { Component::deserialize_file(engine, path) };
    component.map_err(|error| format!("{}: {error:#}", path.display()))
}
