//! Models that options name on the Hugging Face hub.

use std::path::{Path, PathBuf};

use anyhow::Result;
use evenkeel_recipe::named_model;

use crate::terminal::note;

/// The folder of a model: the path itself, or where the cache has what it names.
///
/// # Errors
/// A name that is none, a folder that is not there, or a model that cannot be had.
pub(crate) fn folder(field: &str, path: &Path) -> Result<PathBuf> {
    let folder = named_model::folder(field, path, note)?;
    named_model::require_folder(field, &folder)?;
    Ok(folder)
}
