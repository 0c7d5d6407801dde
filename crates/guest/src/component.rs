//! Builds the component: runs componentize-py, pinned by its hash, on the Python sources of the sandbox, and then the
//! linker.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use evenkeel_sandbox::guest::{self, GuestError};

use crate::{BuildError, link};

/// Bytes of a failed command's output that an error includes.
const OUTPUT_BYTES: usize = 2000;

/// Builds the component in a folder. The caller holds its lock.
pub(crate) fn build(folder: &Path, path: &Path, progress: &dyn Fn(&str)) -> Result<(), BuildError> {
    clear(folder);
    let work = folder.join(format!("build-{}", std::process::id()));
    let built = component(&work, progress).and_then(|component| Ok(guest::finish(&component, path)?));
    // Failing to remove a failed build is not worth another error.
    let _ = fs::remove_dir_all(&work);
    built
}

/// Removes the remains of aborted builds. No other build is running while the lock is held. In a container the next
/// process may have the same id, and pip would mistake half a package for a complete one.
fn clear(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("build-")) {
        // A failure shows in a build that needs the name.
        let _ = fs::remove_dir_all(entry.path());
    }
}

fn component(work: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf, BuildError> {
    let source = work.join("guest");
    let wit = work.join("wit");
    for folder in [&source, &wit] {
        fs::create_dir_all(folder).map_err(GuestError::io(folder))?;
    }
    for (name, text) in guest::MODULES {
        write(&source.join(name), text)?;
    }
    write(&wit.join(guest::WIT.0), guest::WIT.1)?;

    let python = python_with_pip(work)?;
    progress(&format!("installing {}", guest::COMPONENTIZER));
    let packages = install(&python, work)?;
    progress("building the component");
    let component = work.join("guest.wasm");
    let arguments: [OsString; 4] =
        [source.join("build.py").into(), wit.into(), source.into(), component.clone().into()];
    let output = Command::new(&python)
        .env_remove("VIRTUAL_ENV")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", packages)
        .args(arguments)
        .output()
        .map_err(GuestError::io(&python))?;
    if !output.status.success() || !component.is_file() {
        return Err(BuildError::Componentize(output_tail(&output)));
    }
    let linked = work.join("linked.wasm");
    let read = fs::read(&component).map_err(GuestError::io(&component))?;
    let bytes = link::link(&read).map_err(|error| BuildError::Link(error.to_string()))?;
    fs::write(&linked, bytes).map_err(GuestError::io(&linked))?;
    Ok(linked)
}

/// A Python with pip: that of the machine or of a virtual environment.
fn python_with_pip(work: &Path) -> Result<PathBuf, BuildError> {
    let python = std::env::var("EVENKEEL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let no_python = |problem: String| BuildError::NoPython { command: python.clone(), problem };
    let run = |arguments: &[String], more: &[&str]| {
        let output = Command::new(&python).args(arguments).args(more).output();
        output.map_err(|error| no_python(format!("cannot be run ({error})")))
    };
    let version = run(&[], &["-c", "import sys; print(sys.version_info >= (3, 9))"])?;
    if !version.status.success() || String::from_utf8_lossy(&version.stdout).trim() != "True" {
        return Err(no_python("is older".to_owned()));
    }
    if run(&guest::python_module("pip"), &["--version"])?.status.success() {
        return Ok(python.into());
    }
    // Python includes a pip for new environments, which some distributions package separately.
    let folder = work.join("venv");
    let made = run(&guest::python_module("venv"), &["--clear", &folder.to_string_lossy()])?;
    if !made.status.success() {
        return Err(BuildError::NoPip(output_tail(&made)));
    }
    Ok(folder.join("bin").join("python"))
}

/// Installs componentize-py. Returns the folder to import it from.
fn install(python: &Path, work: &Path) -> Result<PathBuf, BuildError> {
    let packages = work.join("packages");
    let hashes: String = guest::WHEELS.iter().map(|wheel| format!(" --hash=sha256:{wheel}")).collect();
    let requirements = work.join("requirements.txt");
    write(&requirements, &format!("{}{hashes}\n", guest::COMPONENTIZER))?;
    let output = Command::new(python)
        .args(guest::python_module("pip"))
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ])
        .args([OsString::from("--target"), packages.clone().into(), "-r".into(), requirements.into()])
        .output()
        .map_err(GuestError::io(python))?;
    if output.status.success() {
        return Ok(packages);
    }
    Err(BuildError::NoComponentizer { wheel: guest::COMPONENTIZER.to_owned(), problem: output_tail(&output) })
}

fn write(path: &Path, text: &str) -> Result<(), GuestError> {
    fs::write(path, text).map_err(GuestError::io(path))
}

/// The status and the end of the output of a command.
fn output_tail(output: &Output) -> String {
    let text = [&*String::from_utf8_lossy(&output.stdout), &*String::from_utf8_lossy(&output.stderr)].concat();
    let text = text.trim();
    let start =
        (text.len().saturating_sub(OUTPUT_BYTES)..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}: {}", output.status, &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_remains_of_aborted_builds_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("build-1").join("packages");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("half"), "x").unwrap();
        fs::write(folder.path().join("guest-0.wasm"), "x").unwrap();
        clear(folder.path());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["guest-0.wasm"]);
    }
}
