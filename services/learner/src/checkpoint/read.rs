//! Reading a checkpoint: first whether it is whole, then what it holds.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Tensor};
use evenkeel_files::FileDigest;
use evenkeel_model::Config;
use evenkeel_model::folder::load_parameters;

use super::{CLIENT_STATE, FILES, FORMAT, MOMENTS, STATE, State};
use crate::error::{LearnerError, Result};
use crate::learner::Learner;
use crate::optimizer::Moments;

impl Learner {
    /// Goes on from a checkpoint: weights, moments, steps and random state become those that were saved. Returns the
    /// state that its caller put inside.
    ///
    /// # Errors
    /// A file that is missing, truncated or altered, another layout or another architecture: by name; the learner is as
    /// it was then.
    pub fn restore_checkpoint(&mut self, folder: &Path) -> Result<Vec<u8>> {
        let state = read_state(folder)?;
        for (name, wanted) in &state.files {
            let path = folder.join(name);
            let found = FileDigest::of(&path).map_err(LearnerError::file(&path))?;
            if found != *wanted {
                let reason = format!(
                    "is damaged: {} bytes with digest {}, written were {} with {}",
                    found.bytes, found.sha256, wanted.bytes, wanted.sha256
                );
                return Err(LearnerError::checkpoint(path, reason));
            }
        }
        let (config, _) = Config::load(folder)?;
        if config != *self.config() {
            return Err(LearnerError::checkpoint(folder.join("config.json"), "is of another architecture"));
        }
        let device = self.parameters().get(0).device().clone();
        let parameters = load_parameters(folder, &config, &device)?;
        let client_state = self.read_client_state(folder)?;
        let moments = self.read_moments(&folder.join(MOMENTS), state.updates)?;
        self.replace(parameters.values().to_vec())?;
        self.moments = moments;
        self.phase = state.phase;
        self.steps = state.steps;
        self.set_seed(state.seed);
        Ok(client_state)
    }

    /// What its caller put into a checkpoint; nothing else is looked at.
    pub(crate) fn read_client_state(&self, folder: &Path) -> Result<Vec<u8>> {
        let path = folder.join(CLIENT_STATE);
        std::fs::read(&path).map_err(LearnerError::file(&path))
    }

    fn read_moments(&self, path: &Path, updates: u64) -> Result<Moments> {
        let device = self.parameters().get(0).device();
        let mut tensors: HashMap<String, Tensor> = candle_core::safetensors::load(path, device)
            .map_err(|e| LearnerError::checkpoint(path, format!("is no whole safetensors file: {e}")))?;
        let mut take = |kind: &str| {
            let all = self.parameters().specs().iter().map(|spec| {
                let name = format!("{kind}.{}", spec.name);
                match tensors.remove(&name) {
                    Some(tensor) if tensor.dims() == spec.shape && tensor.dtype() == DType::F32 => Ok(tensor),
                    Some(tensor) => {
                        let found = format!("`{name}` is {:?} of shape {:?}", tensor.dtype(), tensor.dims());
                        Err(LearnerError::checkpoint(path, format!("{found}, allowed is F32 of {:?}", spec.shape)))
                    }
                    None => Err(LearnerError::checkpoint(path, format!("`{name}` is missing"))),
                }
            });
            all.collect::<Result<Vec<_>>>()
        };
        Ok(Moments { first: take("first")?, second: take("second")?, updates })
    }
}

fn read_state(folder: &Path) -> Result<State> {
    let path = folder.join(STATE);
    let text = std::fs::read_to_string(&path).map_err(LearnerError::file(&path))?;
    let state: State = serde_json::from_str(&text)
        .map_err(|e| LearnerError::checkpoint(&path, format!("is no state of this program: {e}")))?;
    if state.format != FORMAT {
        return Err(LearnerError::checkpoint(&path, format!("`format` is {}, allowed is {FORMAT}", state.format)));
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
