//! Publishing weights: for each version a folder that engines and transformers can open; its marker is written last.

use std::path::{Path, PathBuf};

use candle_core::DType;
use evenkeel_model::folder::{SaveOptions, save_parameters};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::{digest, hex};
use crate::error::{LearnerError, Result};
use crate::files::{write_file, write_folder};
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
    /// A file is closed before it exceeds this.
    pub max_shard_bytes: usize,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self { dtype: DType::F32, max_shard_bytes: SaveOptions::default().max_shard_bytes }
    }
}

/// Writes the current weights to `folder/step-VERSION`, whole or not at all.
///
/// # Errors
/// A type that is no weight type, or a file that cannot be written: by name.
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
    let version = trainer.version();
    let path = folder.join(format!("step-{version}"));
    let mut published = Published { version, digest: String::new(), path: path.clone() };
    write_folder(&path, |aside| {
        let save = SaveOptions { dtype: options.dtype, max_shard_bytes: options.max_shard_bytes };
        save_parameters(aside, trainer.parameters(), save)?;
        source.write_config(aside, options.dtype)?;
        source.copy_companions(aside)?;
        published.digest = digest_weights(aside)?;
        let marker = serde_json::to_string_pretty(&published).expect("a number and a string serialise");
        write_file(&aside.join(MARKER), marker.as_bytes())
    })?;
    Ok(published)
}

/// Reads the marker of a published folder and checks its weights against it.
///
/// # Errors
/// No marker (the folder is not whole), or weights that are not those that were written.
pub fn verify_published(path: &Path) -> Result<Published> {
    let marker = path.join(MARKER);
    let text = std::fs::read_to_string(&marker).map_err(LearnerError::file(&marker))?;
    let mut published: Published = serde_json::from_str(&text)
        .map_err(|e| LearnerError::checkpoint(&marker, format!("is not a marker of this program: {e}")))?;
    let found = digest_weights(path)?;
    if found != published.digest {
        let reason = format!("weights are damaged: their digest is {found}, the marker has {}", published.digest);
        return Err(LearnerError::checkpoint(path, reason));
    }
    published.path = path.to_owned();
    Ok(published)
}

fn digest_weights(folder: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(LearnerError::file(folder))? {
        let name = entry.map_err(LearnerError::file(folder))?.file_name();
        if Path::new(&name).extension().is_some_and(|extension| extension == "safetensors") {
            names.push(name);
        }
    }
    names.sort();
    let mut hasher = Sha256::new();
    for name in names {
        hasher.update(digest(&folder.join(name))?.sha256.as_bytes());
    }
    Ok(format!("sha256:{}", hex(hasher)))
}
