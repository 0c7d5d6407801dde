//! The user's cache folder.

use std::path::PathBuf;

/// `evenkeel` in the user's cache folder: in `XDG_CACHE_HOME`, or in `.cache` of the home. `None` where the environment
/// names neither.
pub fn cache_folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("evenkeel"))
}
