//! `run.json`: which run a directory holds.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::RunFilesError;
use crate::layout::RUN_FILE;
use crate::program::PROGRAM;
use crate::receipt::Heads;
use crate::whole_file::{optional_json, replace_json};

/// The step of another run from which a run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// Name of the other run.
    pub run_id: String,
    /// GRPO steps that it had done.
    pub step: u64,
    /// Directory of the other run.
    pub directory: PathBuf,
    /// Settings that differ from its own, as `section.key: theirs → ours`.
    #[serde(default)]
    pub changed: Vec<String>,
    /// Files that differ from those that it read, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_inputs: Vec<String>,
    /// Heads of the other run's receipt after that step; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Heads>,
}

/// The identity of a run. It contains no time: two runs of one recipe have the same manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunManifest {
    /// Layout of the directory.
    pub format: u32,
    /// Name of the run.
    pub run_id: String,
    /// Digest of everything that affects what the run computes.
    pub identity: String,
    /// Version and bits of the program that started it: [`PROGRAM`], or the version alone of one that had no number.
    pub program_version: String,
    /// Origin of a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    /// The rule by which token terms are summed, where the recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<String>,
}

/// In format 1 the steps of lines counted from 0.
const FORMAT: u32 = 2;

impl RunManifest {
    /// The manifest of a run that this program starts.
    pub fn new(run_id: &str, identity: &str, forked_from: Option<ForkOrigin>, aggregation: Option<String>) -> Self {
        Self {
            format: FORMAT,
            run_id: run_id.to_owned(),
            identity: identity.to_owned(),
            program_version: PROGRAM.to_owned(),
            forked_from,
            aggregation,
        }
    }

    /// Reads that of a directory; `None` where the directory holds no run.
    ///
    /// # Errors
    /// A file that cannot be read or was not written by this program.
    pub fn read(directory: &Path) -> Result<Option<Self>, RunFilesError> {
        let Some(json) = optional_json(&directory.join(RUN_FILE))? else { return Ok(None) };
        let broken = |message: String| RunFilesError::directory(directory, format!("{RUN_FILE} {message}"));
        let manifest: Self = serde_json::from_value(json)
            .map_err(|error| broken(format!("was not written by this program: {error}")))?;
        if manifest.format != FORMAT {
            return Err(broken(format!("has format {}, allowed: {FORMAT}", manifest.format)));
        }
        Ok(Some(manifest))
    }

    /// Writes it: from then on the directory holds a run.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), RunFilesError> {
        replace_json(&directory.join(RUN_FILE), self)
    }
}
