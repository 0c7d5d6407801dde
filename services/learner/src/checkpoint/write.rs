//! Writing a checkpoint.

use std::path::Path;

use candle_core::{Device, Tensor};
use evenkeel_files::FileDigest;
use evenkeel_model::folder::{SaveOptions, save_config, save_parameters};

use super::{CLIENT_STATE, FILES, FORMAT, MOMENTS, STATE, State};
use crate::error::{LearnerError, Result};
use crate::files::{write_file, write_folder};
use crate::learner::Learner;

impl Learner {
    /// Writes a checkpoint as the folder `target`, whole or not at all, with the caller's own state inside.
    ///
    /// # Errors
    /// A file that cannot be written (a full disk): by name. What was there before is still there then.
    pub fn save_checkpoint(&self, target: &Path, client_state: &[u8]) -> Result<()> {
        write_folder(target, |folder| {
            write_file(&folder.join(CLIENT_STATE), client_state)?;
            // One file whatever its size: a checkpoint is read by this crate alone.
            let options = SaveOptions { max_shard_bytes: usize::MAX, ..SaveOptions::default() };
            save_parameters(folder, self.parameters(), options)?;
            save_config(folder, &self.config_json, options.dtype)?;
            self.save_moments(&folder.join(MOMENTS))?;
            let mut files = std::collections::BTreeMap::new();
            for name in FILES {
                let path = folder.join(name);
                files.insert(name.to_owned(), FileDigest::of(&path).map_err(LearnerError::file(&path))?);
            }
            let state = State {
                format: FORMAT,
                steps: self.steps,
                phase: self.phase,
                updates: self.moments.updates,
                seed: self.settings.seed,
                files,
            };
            let text = serde_json::to_string_pretty(&state).expect("numbers and strings serialise");
            write_file(&folder.join(STATE), text.as_bytes())
        })
    }

    fn save_moments(&self, path: &Path) -> Result<()> {
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        for (id, spec) in self.parameters().specs().iter().enumerate() {
            for (kind, moments) in [("first", &self.moments.first), ("second", &self.moments.second)] {
                tensors.push((format!("{kind}.{}", spec.name), moments[id].to_device(&Device::Cpu)?));
            }
        }
        safetensors::serialize_to_file(tensors, None, path)
            .map_err(|e| LearnerError::checkpoint(path, format!("not written: {e}")))?;
        std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(LearnerError::file(path))
    }
}
