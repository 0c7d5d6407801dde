//! Reading a checkpoint: first the digests, then the content.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Tensor};
use evenkeel_files::FileDigest;
use evenkeel_model::folder::load_parameters;
use evenkeel_model::{Config, Parameters};

use super::{CLIENT_STATE, FILES, FORMAT, MOMENTS, OLDEST_FORMAT, STATE, State};
use crate::error::{LearnerError, Result};
use crate::optimizer::OptimizerState;
use crate::trainer::{Trainer, TrainerState};

/// Restores a checkpoint: weights, moments, version and seed. Returns the caller's state.
///
/// # Errors
/// A file that is missing, truncated or altered, another layout or another architecture. The error names it, and the
/// trainer is unchanged.
#[tracing::instrument(skip_all, fields(path = %folder.display()))]
pub(crate) fn restore(trainer: &mut Trainer, folder: &Path) -> Result<Vec<u8>> {
    let state = read_state(folder)?;
    state.files.iter().try_for_each(|(name, expected)| verify(folder, name, expected))?;
    let (config, _) = Config::load(folder)?;
    if config != *trainer.config() {
        return Err(LearnerError::checkpoint(folder.join("config.json"), "is of another architecture"));
    }
    let device = trainer.parameters().get(0).device().clone();
    let parameters = load_parameters(folder, &config, &device)?;
    let client_state = read_client_state(folder)?;
    let [first, second] = read_moments(trainer.parameters(), &folder.join(MOMENTS))?;
    // Format 1 is older than schedules in steps, and mostly had one update in each.
    let steps = state.phase_steps.unwrap_or(state.updates);
    trainer.restore(TrainerState {
        weights: parameters.values().to_vec(),
        optimizer: OptimizerState { first, second, updates: state.updates, steps, phase: state.phase },
        version: state.steps,
        seed: state.seed,
    })?;
    Ok(client_state)
}

/// Whether a folder holds a checkpoint.
pub(crate) fn is_checkpoint(folder: &Path) -> bool {
    folder.join(STATE).exists()
}

/// Compares the weights of a checkpoint with their digest; moments are not read.
///
/// # Errors
/// As [`restore`].
pub(crate) fn verify_weights(folder: &Path) -> Result<()> {
    let state = read_state(folder)?;
    let weights = state.files.iter().filter(|(name, _)| *name != MOMENTS && *name != CLIENT_STATE);
    weights.into_iter().try_for_each(|(name, expected)| verify(folder, name, expected))
}

fn verify(folder: &Path, name: &str, expected: &FileDigest) -> Result<()> {
    let path = folder.join(name);
    let found = FileDigest::of(&path).map_err(LearnerError::file(&path))?;
    if found == *expected {
        return Ok(());
    }
    let reason = format!(
        "is damaged: {} bytes with digest {}, written were {} with {}",
        found.bytes, found.sha256, expected.bytes, expected.sha256
    );
    Err(LearnerError::checkpoint(path, reason))
}

/// The caller's state in a checkpoint; nothing else is read.
pub(crate) fn read_client_state(folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join(CLIENT_STATE);
    std::fs::read(&path).map_err(LearnerError::file(&path))
}

fn read_moments(parameters: &Parameters, path: &Path) -> Result<[Vec<Tensor>; 2]> {
    let device = parameters.get(0).device();
    let mut tensors: HashMap<String, Tensor> = candle_core::safetensors::load(path, device)
        .map_err(|e| LearnerError::checkpoint(path, format!("is not a complete safetensors file: {e}")))?;
    let mut take = |kind: &str| {
        let all = parameters.specs().iter().map(|spec| {
            let name = format!("{kind}.{}", spec.name);
            match tensors.remove(&name) {
                Some(tensor) if tensor.dims() == spec.shape && matches!(tensor.dtype(), DType::F32 | DType::BF16) => {
                    Ok(tensor.to_dtype(DType::F32)?)
                }
                Some(tensor) => {
                    let found = format!("`{name}` is {:?} of shape {:?}", tensor.dtype(), tensor.dims());
                    Err(LearnerError::checkpoint(path, format!("{found}, allowed: F32 or BF16 of {:?}", spec.shape)))
                }
                None => Err(LearnerError::checkpoint(path, format!("`{name}` is missing"))),
            }
        });
        all.collect::<Result<Vec<_>>>()
    };
    Ok([take("first")?, take("second")?])
}

fn read_state(folder: &Path) -> Result<State> {
    let path = folder.join(STATE);
    let text = std::fs::read_to_string(&path).map_err(LearnerError::file(&path))?;
    let state: State = serde_json::from_str(&text)
        .map_err(|e| LearnerError::checkpoint(&path, format!("is not a state of this program: {e}")))?;
    if !(OLDEST_FORMAT..=FORMAT).contains(&state.format) {
        let reason = format!("`format` is {}, allowed: {OLDEST_FORMAT} to {FORMAT}", state.format);
        return Err(LearnerError::checkpoint(&path, reason));
    }
    if state.format == FORMAT && state.phase_steps.is_none() {
        return Err(LearnerError::checkpoint(&path, "lacks `phase_steps`"));
    }
    for name in FILES {
        if !state.files.contains_key(name) {
            return Err(LearnerError::checkpoint(&path, format!("`files` lacks {name}")));
        }
    }
    match state.files.keys().find(|name| Path::new(name).components().count() != 1 || name.contains("..")) {
        Some(name) => Err(LearnerError::checkpoint(&path, format!("`files` names {name}, outside the folder"))),
        None => Ok(state),
    }
}
