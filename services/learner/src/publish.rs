//! Publishing weights: each version is a folder for engines and transformers, whose marker is written last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::DType;
use evenkeel_model::folder::{AdapterBase, SaveOptions, save_trained};
use evenkeel_model_folder::{Folder, VersionMarker, folder_files_digest, weight_digests, weights_digest_of};

use crate::error::{LearnerError, Result};
use crate::files::{StagedFolder, validate_free_space};
use crate::source::ModelSource;
use crate::step_folder;
use crate::trainer::Trainer;

/// Weights of one version that were written for engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Steps done when it was written.
    pub version: u64,
    /// `sha256:` and the SHA-256 over the digests of its weight files, in the order of their names.
    pub digest: String,
    /// Digest of all its files, as [`files_digest`](evenkeel_model_folder::files_digest) computes it.
    pub files_digest: String,
    /// Folder with the files.
    pub path: PathBuf,
}

/// How weights are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishOptions {
    /// The type in the files: F32, BF16 or F16.
    pub dtype: DType,
    /// Maximum size of a file in bytes.
    pub max_shard_bytes: usize,
    /// Whether the head of a tied model is written out, for engines that reload only what a file has.
    pub write_out_head: bool,
}

impl PublishOptions {
    /// As a run publishes them: files of a quarter of a GiB, which are digested and written at the same time.
    pub fn for_engines(dtype: impl Into<DType>) -> Self {
        Self::new(dtype, Some(256 << 20))
    }

    /// Weights of a type, in files of at most that many bytes (as transformers' by default).
    pub fn new(dtype: impl Into<DType>, max_shard_bytes: Option<usize>) -> Self {
        let max_shard_bytes = max_shard_bytes.unwrap_or(SaveOptions::default().max_shard_bytes);
        Self { dtype: dtype.into(), max_shard_bytes, write_out_head: false }
    }
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self::new(DType::F32, None)
    }
}

/// Values of the head that published weights have in addition where it is written out; 0 without a tied head, and for
/// adapters.
pub(crate) fn tied_head(trainer: &Trainer) -> usize {
    let parameters = trainer.parameters();
    let is_tied = trainer.config().tie_word_embeddings && parameters.lora().is_none();
    if is_tied { parameters.get(parameters.ids().head.weight).elem_count() } else { 0 }
}

/// Writes what is trained for `folder/step-VERSION`, adapters for `folder/VERSION-DIGEST`, which they become when the
/// staged folder is finished.
///
/// # Errors
/// An unsupported type of weights, or a file that cannot be written. The error names it.
#[tracing::instrument(skip_all, fields(version = trainer.version()))]
pub(crate) fn publish(
    trainer: &Trainer,
    source: &ModelSource,
    folder: &Path,
    options: PublishOptions,
) -> Result<(Published, StagedFolder)> {
    if !matches!(options.dtype, DType::F32 | DType::BF16 | DType::F16) {
        return Err(LearnerError::setting("dtype", format!("{:?}", options.dtype), "F32, BF16 or F16"));
    }
    trainer.check_whole()?;
    let version = trainer.version();
    let path = step_folder::of_version(folder, version);
    let mut digest = String::new();
    let mut files_digest = String::new();
    let is_model = trainer.parameters().lora().is_none();
    let head = if options.write_out_head { tied_head(trainer) } else { 0 };
    let write_out_head = head > 0;
    let values = trainer.parameters().trained_count() + head;
    validate_free_space(&path, (values * options.dtype.size_in_bytes()) as u64)?;
    let staged = StagedFolder::write(&path, |staging| {
        let PublishOptions { dtype, max_shard_bytes, .. } = options;
        let save = SaveOptions { dtype, max_shard_bytes, write_out_head, synced: false };
        // The same adapter is the same version wherever its base lies: the digest of that names it.
        let base = AdapterBase { name: String::new(), ..trainer.base().clone() };
        let files = save_trained(staging, trainer.parameters(), &base, save)
            .map_err(|error| LearnerError::of_weights(error, version))?;
        // An adapter is a folder of its own; everything else is the base's.
        if is_model {
            source.write_config(staging, options.dtype, write_out_head)?;
            source.copy_companions(staging)?;
        }
        let known: BTreeMap<_, _> = files.into_iter().map(|file| (file.name, file.digest)).collect();
        digest = weights_digest_of(known.clone());
        let marker = VersionMarker { version, digest: digest.clone() };
        marker.write(staging).map_err(LearnerError::file(staging.join(VersionMarker::NAME)))?;
        files_digest = folder_files_digest(&Folder::new(staging), &known)?;
        Ok(())
    })?;
    if is_model {
        return Ok((Published { version, digest, files_digest, path }, staged));
    }
    let path = step_folder::of_adapter(folder, version, &digest);
    let staged = staged.renamed(&path)?;
    Ok((Published { version, digest, files_digest, path }, staged))
}

/// Reads the marker of a published folder and compares the weights with it.
///
/// # Errors
/// A missing marker (the folder is incomplete), or weights other than those written.
pub fn verify_published(path: &Path) -> Result<Published> {
    let folder = Folder::new(path);
    let VersionMarker { version, digest } = VersionMarker::read(&folder)?;
    let known = weight_digests(&folder)?;
    let files_digest = folder_files_digest(&folder, &known)?;
    let found = weights_digest_of(known);
    if found != digest {
        let reason = format!("weights are damaged: their digest is {found}, the marker has {digest}");
        return Err(LearnerError::checkpoint(path, reason));
    }
    Ok(Published { version, digest, files_digest, path: path.to_owned() })
}
