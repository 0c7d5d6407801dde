//! `run.json`: which run a directory holds.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// What makes a directory that of a run: its name and its identity.
pub const RUN_FILE: &str = "run.json";

/// The step of another run from which a run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// Name of the other run.
    pub run_id: String,
    /// GRPO steps that it had done.
    pub step: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// Settings that differ from its own, as `section.key: theirs → ours`.
    #[serde(default)]
    pub changed: Vec<String>,
    /// Files that differ from those that it read, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_inputs: Vec<String>,
}

/// The identity of a run. It contains no time: two runs of one recipe have the same manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunManifest {
    /// Layout of the directory.
    pub(crate) format: u32,
    /// Name of the run.
    pub(crate) run_id: String,
    /// [`ResolvedRecipe::identity`](crate::ResolvedRecipe::identity).
    pub(crate) identity: String,
    /// Version of the program that started it.
    pub(crate) program_version: String,
    /// Where it began, if not at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from: Option<ForkOrigin>,
    /// The rule by which token terms are summed, where the recipe names one. Runs of earlier versions of the program have it in their
    /// summaries only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) aggregation: Option<String>,
}

const FORMAT: u32 = 1;

impl RunManifest {
    pub(crate) fn new(
        run_id: &str,
        identity: &str,
        forked_from: Option<ForkOrigin>,
        aggregation: Option<String>,
    ) -> Self {
        Self {
            format: FORMAT,
            run_id: run_id.to_owned(),
            identity: identity.to_owned(),
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            forked_from,
            aggregation,
        }
    }

    /// `None` where the directory holds no run.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, RunError> {
        let Some(json) = super::files::optional_json(&directory.join(RUN_FILE))? else { return Ok(None) };
        let broken = |message: String| RunError::directory(directory, format!("{RUN_FILE} {message}"));
        let manifest: Self = serde_json::from_value(json)
            .map_err(|error| broken(format!("was not written by this program: {error}")))?;
        if manifest.format != FORMAT {
            return Err(broken(format!("has format {}, allowed: {FORMAT}", manifest.format)));
        }
        Ok(Some(manifest))
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(self).map_err(|error| RunError::Defect(error.to_string()))?;
        super::files::replace(&directory.join(RUN_FILE), &format!("{text}\n"))
    }
}
