//! Loads the compiled guest.

use std::path::{Path, PathBuf};

use wasmtime::component::Component;
use wasmtime::{Config, Engine};

use super::{Form, GuestError, builder, image_folder, is_whole};
use crate::sandbox;

/// Why a compiled guest cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is missing, or does not match its hash.
    #[error("{} is missing or damaged", .0.display())]
    Damaged(PathBuf),
    /// The engine cannot be set up on this machine, or not with this guest.
    #[error("{0:#}")]
    Engine(wasmtime::Error),
    /// The guest was compiled for another engine or processor.
    #[error("{}: {error:#}", path.display())]
    Incompatible {
        /// File with the compiled guest.
        path: PathBuf,
        /// The reason of wasmtime.
        error: wasmtime::Error,
    },
}

impl Form {
    /// The configuration of the engine, without the options of a compiler.
    pub fn config(self) -> Config {
        sandbox::config(1, self == Self::Counted)
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
