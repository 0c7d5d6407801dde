//! Models that settings and options call by their name on the Hugging Face hub instead of by their folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel_files::Size;
use evenkeel_hub::{Environment, Hub, HubError, ModelName, Patience, Snapshot};

/// The folder of a model: the path itself, or where the cache has what it names.
///
/// # Errors
/// A name that is none, or a model that cannot be had.
pub(crate) fn folder(field: &str, path: &Path) -> Result<PathBuf> {
    if !ModelName::is_name(path) {
        return Ok(path.to_owned());
    }
    let name = ModelName::parse(field, &path.to_string_lossy())?;
    Ok(fetch(&name).with_context(|| field.to_owned())?.folder)
}

/// Brings a model into the cache, and says how far it has come where that takes a while.
///
/// # Errors
/// A model that cannot be had.
pub(crate) fn fetch(name: &ModelName) -> Result<Snapshot, HubError> {
    let hub = Hub::new(Environment::read()?, Patience::default());
    let hub = hub.with_progress(|progress| {
        let percent = 100 * progress.bytes / progress.size.max(1);
        print_err!("downloading {}: {percent} % of {}", progress.file, Size(progress.size));
    });
    hub.fetch(name)
}
