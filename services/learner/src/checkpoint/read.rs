//! Reading a checkpoint: first the digests, then the content.

use std::collections::BTreeSet;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_host::{FileDigest, read};
use evenkeel_model::folder::{StoredTensors, StoredTrained};
use evenkeel_model::kernels::Moment;
use evenkeel_model::{Config, ParameterSpec};
use evenkeel_model_folder::name;

use super::{
    ADAPTER_FILES, CLIENT_STATE, CheckpointState, FILES, FORMAT, MAX_CLIENT_STATE_BYTES, MAX_STATE_BYTES, MODEL_FILES,
    MOMENTS, STATE_FILE, TERM_STATES, name_of,
};
use crate::error::{LearnerError, Result};
use crate::optimizer::UpdateCounts;
use crate::terms::TermStates;
use crate::trainer::{StoredCounters, StoredState, Trainer};

/// Restores a checkpoint: weights, moments, version and seed. Returns the caller's state.
///
/// # Errors
/// A file that is missing, truncated or altered, another layout or another architecture. The error names it, and the
/// trainer is unchanged. If a file or the device fails after all was checked, the trainer refuses to work until a
/// checkpoint is restored.
#[tracing::instrument(skip_all, fields(path = %folder.display()))]
pub(crate) fn restore(trainer: &mut Trainer, folder: &Path) -> Result<Vec<u8>> {
    let state = read_state(folder)?;
    state.files.iter().try_for_each(|(name, expected)| verify(folder, name, expected))?;
    let (config, _) = Config::load(folder)?;
    if config != *trainer.config() {
        return Err(LearnerError::checkpoint(folder.join(name::CONFIG), "is of another architecture"));
    }
    let trained = if trainer.parameters().lora().is_some() { "adapters" } else { "all weights" };
    let found = if state.is_of_adapters() { "adapters" } else { "all weights" };
    if found != trained {
        let reason = format!("is a checkpoint of {found}, allowed: {trained}, as learner.lora is now");
        return Err(LearnerError::checkpoint(folder, reason));
    }
    let stored = Stored::open(folder, &config, trainer)?;
    let client_state = read_client_state(folder)?;
    let optimizer = UpdateCounts { updates: state.updates, steps: state.phase_steps, phase: state.phase };
    let terms = read_term_states(folder, &state)?;
    trainer.restore_all(&stored, StoredCounters { optimizer, version: state.steps, seed: state.seed, terms })?;
    Ok(client_state)
}

/// Weights and moments, all of which are known to be there.
struct Stored<'a> {
    folder: &'a Path,
    weights: StoredTrained,
    moments: StoredTensors,
    specs: Vec<ParameterSpec>,
}

impl<'a> Stored<'a> {
    fn open(folder: &'a Path, config: &Config, trainer: &Trainer) -> Result<Self> {
        let path = folder.join(MOMENTS);
        let moments = StoredTensors::open(&path)
            .map_err(|e| LearnerError::checkpoint(&path, format!("is not a complete safetensors file: {e}")))?;
        let weights = StoredTrained::open(folder, config, trainer.parameters(), trainer.base())?;
        let specs = trainer.parameters().trained_specs().to_vec();
        for (spec, moment) in specs.iter().flat_map(|spec| Moment::ALL.map(|moment| (spec, moment))) {
            let name = name_of(moment, spec);
            match moments.find(&name) {
                Some((DType::F32 | DType::BF16, shape)) if shape == spec.shape => {}
                Some((dtype, shape)) => {
                    let found = format!("`{name}` is {dtype:?} of shape {shape:?}");
                    let reason = format!("{found}, allowed: F32 or BF16 of {:?}", spec.shape);
                    return Err(LearnerError::checkpoint(path, reason));
                }
                None => return Err(LearnerError::checkpoint(path, format!("`{name}` is missing"))),
            }
        }
        Ok(Self { folder, weights, moments, specs })
    }
}

impl StoredState for Stored<'_> {
    fn folder(&self) -> &Path {
        self.folder
    }

    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor> {
        Ok(self.weights.read(parameter, device)?)
    }

    fn moment(&self, moment: Moment, parameter: usize, device: &Device) -> Result<Tensor> {
        Ok(self.moments.read(&name_of(moment, &self.specs[parameter]), device)?)
    }
}

/// Whether a folder holds a checkpoint.
pub(crate) fn is_checkpoint(folder: &Path) -> bool {
    folder.join(STATE_FILE).exists()
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

/// The file in which the training of one checkpoint differs from that of another, whose callers' states do not count.
///
/// # Errors
/// A state that cannot be read.
pub(crate) fn differing_file(one: &Path, other: &Path) -> Result<Option<String>> {
    let [one, other] = [read_state(one)?, read_state(other)?];
    let is_of_training = |name: &&String| ![CLIENT_STATE, name::CONFIG, name::ADAPTER_CONFIG].contains(&name.as_str());
    let names: BTreeSet<&String> = one.files.keys().chain(other.files.keys()).filter(is_of_training).collect();
    if let Some(name) = names.into_iter().find(|name| one.files.get(*name) != other.files.get(*name)) {
        return Ok(Some(name.clone()));
    }
    let numbers = |state: &CheckpointState| {
        let CheckpointState { steps, phase, updates, phase_steps, seed, .. } = *state;
        (steps, phase, updates, phase_steps, seed)
    };
    Ok((numbers(&one) != numbers(&other)).then(|| STATE_FILE.to_owned()))
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
    read(&path, MAX_CLIENT_STATE_BYTES).map_err(|error| LearnerError::file(&path)(error.into()))
}

/// The states of the loss's terms; none where the checkpoint has none.
fn read_term_states(folder: &Path, state: &CheckpointState) -> Result<TermStates> {
    if !state.files.contains_key(TERM_STATES) {
        return Ok(TermStates::new());
    }
    let path = folder.join(TERM_STATES);
    let text = read(&path, MAX_STATE_BYTES).map_err(|error| LearnerError::file(&path)(error.into()))?;
    serde_json::from_slice(&text).map_err(|e| LearnerError::checkpoint(&path, format!("is not states by name: {e}")))
}

fn read_state(folder: &Path) -> Result<CheckpointState> {
    let path = folder.join(STATE_FILE);
    let text = read(&path, MAX_STATE_BYTES).map_err(|error| LearnerError::file(&path)(error.into()))?;
    let state: CheckpointState = serde_json::from_slice(&text)
        .map_err(|e| LearnerError::checkpoint(&path, format!("is not a state of this program: {e}")))?;
    if state.format != FORMAT {
        let reason = format!("`format` is {}, allowed: {FORMAT}", state.format);
        return Err(LearnerError::checkpoint(&path, reason));
    }
    let found = state.own_digest();
    let written = &state.digest;
    if *written != found {
        let reason = format!("was changed after it was written: it has digest {found}, written was {written}");
        return Err(LearnerError::checkpoint(&path, reason));
    }
    let weights = if state.is_of_adapters() { &ADAPTER_FILES[..] } else { &MODEL_FILES };
    for &name in FILES.iter().chain(weights) {
        if !state.files.contains_key(name) {
            return Err(LearnerError::checkpoint(&path, format!("`files` lacks {name}")));
        }
    }
    match state.files.keys().find(|name| Path::new(name).components().count() != 1 || name.contains("..")) {
        Some(name) => Err(LearnerError::checkpoint(&path, format!("`files` names {name}, outside the folder"))),
        None => Ok(state),
    }
}
