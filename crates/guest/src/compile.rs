//! Compiles the component to machine code.

use std::fs;
use std::path::Path;

use evenkeel_sandbox::guest::{self, Form, GuestError};
use wasmtime::{Engine, OptLevel};

use crate::BuildError;

/// The engine that compiles for the sandbox.
pub(crate) fn engine(form: Form) -> Result<Engine, BuildError> {
    let failed = |error: wasmtime::Error| BuildError::Compile(format!("{error:#}"));
    let mut config = form.config();
    config.cranelift_opt_level(OptLevel::Speed);
    if let Some((target, level)) = Form::target() {
        config.target(target).map_err(failed)?;
        enable(&mut config, level);
    }
    Engine::new(&config).map_err(failed)
}

/// Enables a set of CPU features in the compiler.
#[allow(unsafe_code)]
fn enable(config: &mut wasmtime::Config, level: &str) {
    // SAFETY: the flag is a set of CPU features. Wasmtime refuses to load the code on a processor that lacks any of
    // them.
    unsafe {
        config.cranelift_flag_enable(level);
    }
}

/// Removes what compilations left that were killed. No other one is running while the folder is locked.
fn clear(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let prefix = format!("{}.", name.to_string_lossy());
    let is_left =
        |name: &str| name.strip_prefix(&prefix).is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_left(&entry.file_name().to_string_lossy()) {
            // A disk without room for another one will show.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Compiles a component into a file. The caller holds the lock of its folder.
pub(crate) fn write(engine: &Engine, wasm: &[u8], path: &Path) -> Result<(), BuildError> {
    let code = engine.precompile_component(wasm).map_err(|error| BuildError::Compile(format!("{error:#}")))?;
    clear(path);
    let temporary = path.with_added_extension(format!("{}", std::process::id()));
    let written = fs::write(&temporary, code).map_err(GuestError::io(&temporary));
    let finished = written.and_then(|()| guest::finish(&temporary, path));
    if finished.is_err() {
        // Do not leave a full disk filled with it.
        let _ = fs::remove_file(&temporary);
    }
    Ok(finished?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_compilation_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guest.cwasm");
        for name in ["guest.cwasm.1234", "guest.cwasm.sha256", "guest.cwasm", "lock"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        clear(&path);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["guest.cwasm", "guest.cwasm.sha256", "lock"]);
    }

    #[test]
    fn a_failed_compilation_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let component = b"\0asm\x0d\0\x01\0";
        // A folder has the name of the file.
        let path = folder.path().join("guest.cwasm");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(write(&engine(Form::Timed).unwrap(), component, &path).is_err());
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| name.ends_with(&std::process::id().to_string())).count(), 0);
    }
}
