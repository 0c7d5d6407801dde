//! Limits on what a recipe points at, and giving up once nobody waits for it. A recipe may come over the network.

use std::path::Path;

use evenkeel_files::{open, read_optional};
use evenkeel_hf::Folder;
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientConfig;
use evenkeel_tasks::read::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::RunError;

pub use evenkeel_tasks::Cancel;

/// Largest JSON file of a run directory or model folder, in bytes.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Largest token or certificate file, in bytes.
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// What a run may cost to load. A server sets it, since its recipes are its clients'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadLimits {
    /// Largest file of problems (`data.files` and the like), in bytes.
    pub max_data_bytes: u64,
    /// Longest row in it, in bytes.
    pub max_row_bytes: u64,
    /// Most rows in it.
    pub max_rows: usize,
    /// Most problems of a data set, duplicates not counted.
    pub max_problems: usize,
    /// Largest `tokenizer.json`, in bytes.
    pub max_tokenizer_bytes: u64,
    /// Most parameters of a fresh model (`model.fresh`), which are drawn and written before the run.
    pub max_fresh_parameters: u64,
    /// Most samples of a step (prompts times group), most examples of a warm-start step.
    pub max_step_samples: u64,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            max_data_bytes: 1 << 30,
            max_row_bytes: 16 << 20,
            max_rows: 10_000_000,
            max_problems: 1_000_000,
            max_tokenizer_bytes: 128 << 20,
            max_fresh_parameters: 100_000_000,
            max_step_samples: 1_000_000,
        }
    }
}

impl LoadLimits {
    /// No bounds but those of the recipe itself: for runs whose recipe is their user's own.
    pub fn unbounded() -> Self {
        Self {
            max_data_bytes: u64::MAX,
            max_row_bytes: u64::MAX,
            max_rows: usize::MAX,
            max_problems: usize::MAX,
            max_tokenizer_bytes: u64::MAX,
            max_fresh_parameters: u64::MAX,
            max_step_samples: u64::MAX,
        }
    }

    /// Those of data files.
    pub(crate) fn data(&self) -> Limits {
        Limits {
            max_bytes: self.max_data_bytes,
            max_row_bytes: usize::try_from(self.max_row_bytes).unwrap_or(usize::MAX),
            max_rows: self.max_rows,
            max_problems: self.max_problems,
        }
    }

    /// Refuses limits with which nothing could be loaded.
    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        let all = [
            ("max_data_bytes", self.max_data_bytes),
            ("max_row_bytes", self.max_row_bytes),
            ("max_rows", self.max_rows as u64),
            ("max_problems", self.max_problems as u64),
            ("max_tokenizer_bytes", self.max_tokenizer_bytes),
            ("max_fresh_parameters", self.max_fresh_parameters),
            ("max_step_samples", self.max_step_samples),
        ];
        match all.into_iter().find(|(_, value)| *value == 0) {
            Some((field, _)) => Err(FieldError::new(field, 0, "at least 1")),
            None => Ok(()),
        }
    }
}

/// The limits of one start, and whether it is still wanted.
#[derive(Debug, Clone)]
pub(crate) struct Loading {
    pub(crate) limits: LoadLimits,
    pub(crate) cancel: Cancel,
}

impl Default for Loading {
    fn default() -> Self {
        Self { limits: LoadLimits::unbounded(), cancel: Cancel::default() }
    }
}

impl Loading {
    /// A model folder that is read within the limits, and while the run is wanted.
    pub(crate) fn model_folder(&self, path: &Path) -> Folder {
        let cancel = self.cancel.clone();
        Folder::new(path)
            .with_max_tokenizer_bytes(self.limits.max_tokenizer_bytes)
            .read_while(move || cancel.check().is_ok())
    }
}

/// A small JSON file; `None` where nothing has that name.
pub(crate) fn optional_json(path: &Path) -> Result<Option<Value>, RunError> {
    let Some(bytes) = read_optional(path, MAX_JSON_BYTES).map_err(|error| RunError::model(path, error))? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| RunError::model(path, format!("is not JSON: {error}")))
}

/// Refuses files of a client's settings that are no regular files, or too large to be secrets.
pub(crate) fn check_secrets(client: &ClientConfig) -> Result<(), FieldError> {
    let tls = client.tls.iter().flat_map(|tls| {
        let own = [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)];
        let own = own.into_iter().filter_map(|(field, path)| Some((field, path.as_ref()?)));
        std::iter::once(("tls.ca_file", &tls.ca_file)).chain(own)
    });
    for (field, path) in tls.chain(client.token_file.iter().map(|path| ("token_file", path))) {
        open(path, MAX_SECRET_BYTES).map_err(|error| {
            let allowed = format!("a regular file of at most {MAX_SECRET_BYTES} bytes");
            FieldError::new(field, format_args!("{}, which {error}", path.display()), allowed)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(most: u64) -> Loading {
        let limits = LoadLimits { max_tokenizer_bytes: most, ..LoadLimits::default() };
        Loading { limits, cancel: Cancel::default() }
    }

    #[test]
    fn a_tokenizer_is_read_within_the_limits_and_while_the_run_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), "{\"version\": 1}").unwrap();
        let read =
            |loading: &Loading| evenkeel_hf::Tokenizer::read(&loading.model_folder(dir.path())).map_err(RunError::from);
        let error = read(&limited(3)).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 3"), "{error}");
        let loading = limited(100);
        loading.cancel.cancel();
        assert!(matches!(read(&loading), Err(RunError::Cancelled)));
    }
}
