//! The guest's compiled form: machine code for this engine and these CPU features, mapped from a file.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::{GuestError, folder, portable};

pub(super) fn load(
    folder: &Path,
    component: &Path,
    engine: &Engine,
    progress: &dyn Fn(&str),
) -> Result<Component, GuestError> {
    let content = folder::sha256(component).map_err(GuestError::io(component))?;
    // Stands for the engine's version, its settings and the features of this CPU.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let path = folder.join(format!("guest-{}-{:016x}.cwasm", &content[..16], hasher.finish()));
    if let Some(component) = open(engine, &path).or_else(|| from_image(engine, &content)) {
        return Ok(component);
    }
    let _lock = folder::lock(folder)?;
    if let Some(component) = open(engine, &path) {
        return Ok(component);
    }
    progress("compiling the guest interpreter for this machine (once, about half a minute)");
    write(engine, component, &path)?;
    open(engine, &path).ok_or_else(|| GuestError::Load(format!("{} cannot be read back", path.display())))
}

/// Compiles a component into a file.
pub(super) fn write(engine: &Engine, component: &Path, path: &Path) -> Result<(), GuestError> {
    let wasm = fs::read(component).map_err(GuestError::io(component))?;
    let code = engine.precompile_component(&wasm).map_err(|error| GuestError::Load(format!("{error:#}")))?;
    let temporary = path.with_added_extension(format!("{}", std::process::id()));
    let written = fs::write(&temporary, code).map_err(GuestError::io(&temporary));
    let finished = written.and_then(|()| folder::finish(&temporary, path));
    if finished.is_err() {
        // A disk that is full must not stay full for it.
        let _ = fs::remove_file(&temporary);
    }
    finished
}

/// The form that a container image carries, where it fits this CPU.
fn from_image(engine: &Engine, content: &str) -> Option<Component> {
    let image = folder::image()?;
    open(engine, &image.join(portable::name(content)))
}

/// The compiled form, where there is a whole one.
fn open(engine: &Engine, path: &Path) -> Option<Component> {
    if !folder::is_whole(path) {
        return None;
    }
    // SAFETY: the file holds machine code, and wasmtime asks that it be what `precompile_component` gave. It lies in a folder of this
    // program's own, got its name by a rename after it was written whole, is never written to again, and has just been found to have
    // the hash that was noted when it was made. Whoever can forge both files can replace this program as well. A form made by another
    // version or for another CPU is refused by wasmtime itself.
    #[allow(unsafe_code)]
    let component = unsafe { Component::deserialize_file(engine, path) };
    component.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_finished_takes_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("empty.wasm");
        fs::write(&component, b"\0asm\x0d\0\x01\0").unwrap();
        // A folder is in the place of the file.
        let path = folder.path().join("guest.cwasm");
        fs::create_dir_all(path.join("full")).unwrap();
        let engine = crate::sandbox::engine(1, false).unwrap();
        assert!(write(&engine, &component, &path).is_err());
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| name.ends_with(&std::process::id().to_string())).count(), 0);
    }
}
