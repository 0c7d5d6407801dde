//! Publishing weights: each version is a folder for engines and transformers, whose marker is written last.

use std::path::{Path, PathBuf};

use candle_core::DType;
use evenkeel_hf::{Folder, weights_digest, weights_digest_of};
use evenkeel_model::folder::{SaveOptions, save_parameters};
use serde::{Deserialize, Serialize};

use crate::error::{LearnerError, Result};
use crate::files::{validate_room, write_file, write_folder};
use crate::source::ModelSource;
use crate::trainer::Trainer;

/// The file that marks a published folder as complete.
pub const MARKER: &str = "evenkeel-version.json";

/// A published version, and the content of its marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Steps done when it was written.
    pub version: u64,
    /// `sha256:` and the SHA-256 over the digests of its weight files, in the order of their names.
    pub digest: String,
    /// The folder.
    #[serde(skip)]
    pub path: PathBuf,
}

/// How weights are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishOptions {
    /// The type in the files: F32, BF16 or F16.
    pub dtype: DType,
    /// Maximum size of a file in bytes.
    pub max_shard_bytes: usize,
}

impl PublishOptions {
    /// As a run publishes them: files of a quarter of a GiB, which are digested and written at the same time.
    pub fn for_engines(dtype: impl Into<DType>) -> Self {
        Self::new(dtype, Some(256 << 20))
    }

    /// Weights of a type, in files of at most that many bytes (as transformers' by default).
    pub fn new(dtype: impl Into<DType>, max_shard_bytes: Option<usize>) -> Self {
        let max_shard_bytes = max_shard_bytes.unwrap_or(SaveOptions::default().max_shard_bytes);
        Self { dtype: dtype.into(), max_shard_bytes }
    }
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self { dtype: DType::F32, max_shard_bytes: SaveOptions::default().max_shard_bytes }
    }
}

/// Writes the current weights to `folder/step-VERSION`, completely or not at all.
///
/// # Errors
/// An unsupported type of weights, or a file that cannot be written. The error names it.
#[tracing::instrument(skip_all, fields(version = trainer.version()))]
pub(crate) fn publish(
    trainer: &Trainer,
    source: &ModelSource,
    folder: &Path,
    options: PublishOptions,
) -> Result<Published> {
    if !matches!(options.dtype, DType::F32 | DType::BF16 | DType::F16) {
        return Err(LearnerError::setting("dtype", format!("{:?}", options.dtype), "F32, BF16 or F16"));
    }
    trainer.check_whole()?;
    let version = trainer.version();
    let path = folder.join(format!("step-{version}"));
    let mut published = Published { version, digest: String::new(), path: path.clone() };
    validate_room(&path, (trainer.parameters().count() * options.dtype.size_in_bytes()) as u64)?;
    write_folder(&path, |aside| {
        let save = SaveOptions { dtype: options.dtype, max_shard_bytes: options.max_shard_bytes };
        let files = save_parameters(aside, trainer.parameters(), save)?;
        source.write_config(aside, options.dtype)?;
        source.copy_companions(aside)?;
        published.digest = weights_digest_of(files.into_iter().map(|file| (file.name, file.digest)));
        let marker = serde_json::to_string_pretty(&published).expect("a number and a string serialise");
        write_file(&aside.join(MARKER), marker.as_bytes())
    })?;
    Ok(published)
}

/// Reads the marker of a published folder and compares the weights with it.
///
/// # Errors
/// A missing marker (the folder is incomplete), or weights other than those written.
pub fn verify_published(path: &Path) -> Result<Published> {
    let marker = path.join(MARKER);
    let text = std::fs::read_to_string(&marker).map_err(LearnerError::file(&marker))?;
    let mut published: Published = serde_json::from_str(&text)
        .map_err(|e| LearnerError::checkpoint(&marker, format!("is not a marker of this program: {e}")))?;
    let found = weights_digest(&Folder::new(path))?;
    if found != published.digest {
        let reason = format!("weights are damaged: their digest is {found}, the marker has {}", published.digest);
        return Err(LearnerError::checkpoint(path, reason));
    }
    published.path = path.to_owned();
    Ok(published)
}
