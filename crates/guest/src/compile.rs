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
    // SAFETY: the flag is a set of CPU features. Wasmtime refuses to load the code on a processor that lacks any of them.
    unsafe {
        config.cranelift_flag_enable(level);
    }
}

/// Compiles a component into a file.
pub(crate) fn write(engine: &Engine, component: &Path, path: &Path) -> Result<(), BuildError> {
    let wasm = fs::read(component).map_err(GuestError::io(component))?;
    let code = engine.precompile_component(&wasm).map_err(|error| BuildError::Compile(format!("{error:#}")))?;
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
    fn a_failed_compilation_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("empty.wasm");
        fs::write(&component, b"\0asm\x0d\0\x01\0").unwrap();
        // A folder has the name of the file.
        let path = folder.path().join("guest.cwasm");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(write(&engine(Form::Timed).unwrap(), &component, &path).is_err());
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| name.ends_with(&std::process::id().to_string())).count(), 0);
    }
}
