//! A compiled form for any CPU of a level, for container images: they are built on one machine and run on another.

use std::path::Path;

use super::{GuestError, compiled, ensure_component, folder};
use crate::sandbox;

/// The level: every server CPU since 2013 (Haswell, Zen) is of it.
pub const PORTABLE_CPU: &str = "x86-64-v3";

/// Builds the guest's component in a folder, and beside it a compiled form for [`PORTABLE_CPU`] that `EVENKEEL_GUEST_IMAGE` may name.
///
/// # Errors
///
/// Says what is missing on this machine.
pub fn write_portable(folder: &Path, progress: &dyn Fn(&str)) -> Result<(), GuestError> {
    let component = ensure_component(folder, progress)?;
    let content = folder::sha256(&component).map_err(GuestError::io(&component))?;
    let path = folder.join(name(&content));
    if folder::is_whole(&path) {
        return Ok(());
    }
    let broken = |error: wasmtime::Error| GuestError::Load(format!("{error:#}"));
    let engine = sandbox::portable_engine(PORTABLE_CPU).map_err(broken)?;
    let _lock = folder::lock(folder)?;
    progress(&format!("compiling the guest interpreter for {PORTABLE_CPU}"));
    compiled::write(&engine, &component, &path)
}

/// The file's name.
pub(super) fn name(content: &str) -> String {
    format!("guest-{}-{PORTABLE_CPU}.cwasm", &content[..16])
}
