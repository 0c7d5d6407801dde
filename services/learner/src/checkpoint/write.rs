//! Writing a checkpoint.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_files::FileDigest;
use evenkeel_model::folder::{SaveOptions, save_parameters};

use super::{CLIENT_STATE, FILES, FORMAT, MOMENTS, STATE, State};
use crate::error::{LearnerError, Result};
use crate::files::{write_file, write_folder};
use crate::source::ModelSource;
use crate::trainer::Trainer;

/// Writes a checkpoint with the caller's state as the folder `target`, completely or not at all.
///
/// # Errors
/// A file that cannot be written, such as on a full disk. The error names it, and the previous content is untouched.
#[tracing::instrument(skip_all, fields(path = %target.display(), version = trainer.version()))]
pub(crate) fn save(
    trainer: &Trainer,
    source: &ModelSource,
    target: &Path,
    client_state: &[u8],
    dtype: DType,
) -> Result<()> {
    if !matches!(dtype, DType::F32 | DType::BF16) {
        return Err(LearnerError::setting("dtype", format!("{dtype:?}"), "F32 or BF16"));
    }
    let optimizer = trainer.optimizer().state(false)?;
    write_folder(target, |folder| {
        write_file(&folder.join(CLIENT_STATE), client_state)?;
        // A single file of any size: only this crate reads checkpoints.
        let options = SaveOptions { max_shard_bytes: usize::MAX, dtype };
        save_parameters(folder, trainer.parameters(), options)?;
        source.write_config(folder, options.dtype)?;
        let names = trainer.parameters().specs().iter().map(|spec| spec.name.as_str());
        save_moments(&folder.join(MOMENTS), names, [&optimizer.first, &optimizer.second], dtype)?;
        let mut files = std::collections::BTreeMap::new();
        for name in FILES {
            let path = folder.join(name);
            files.insert(name.to_owned(), FileDigest::of(&path).map_err(LearnerError::file(&path))?);
        }
        let state = State {
            format: FORMAT,
            steps: trainer.version(),
            phase: optimizer.phase,
            updates: optimizer.updates,
            phase_steps: Some(optimizer.steps),
            seed: trainer.settings().seed,
            files,
        };
        let text = serde_json::to_string_pretty(&state).expect("numbers and strings serialise");
        write_file(&folder.join(STATE), text.as_bytes())
    })
}

fn save_moments<'a>(
    path: &Path,
    names: impl Iterator<Item = &'a str>,
    [first, second]: [&[Tensor]; 2],
    dtype: DType,
) -> Result<()> {
    let mut tensors: Vec<(String, Tensor)> = Vec::new();
    for (id, name) in names.enumerate() {
        for (kind, moments) in [("first", first), ("second", second)] {
            tensors.push((format!("{kind}.{name}"), moments[id].to_dtype(dtype)?.to_device(&Device::Cpu)?));
        }
    }
    safetensors::serialize_to_file(tensors, None, path)
        .map_err(|e| LearnerError::checkpoint(path, format!("not written: {e}")))?;
    std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(LearnerError::file(path))
}
