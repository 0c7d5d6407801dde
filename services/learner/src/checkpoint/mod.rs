//! Checkpoints: everything that training needs to continue bit-identically, as if it had not stopped.
//!
//! With bf16 files training continues from the rounded values.
//!
//! A checkpoint is a folder: `model.safetensors` (fp32 master weights) or, of adapters, `adapter_model.safetensors` and
//! `adapter_config.json`, which name their base by its digest; `moments.safetensors`, `client_state.bin` (the caller's
//! own state), `terms.json` where a term of the loss has a state, and `state.json` with the number of steps, the seed
//! (every draw is derived from it and the step), the length and digest of the other files, and a digest of all that it
//! says itself. It is written under another name, synced and renamed, so that a folder with the final name is complete.
//! All digests are checked before any file is used.

mod read;
mod write;

use std::collections::BTreeMap;

use evenkeel_host::{FileDigest, sha256};
use evenkeel_model::ParameterSpec;
use evenkeel_model::kernels::Moment;
use evenkeel_model_folder::name;
use serde::{Deserialize, Serialize};

pub(crate) use read::{differing_file, is_checkpoint, read_client_state, restore, verify_weights};
pub(crate) use write::{give_moments, save};

use crate::optimizer::TrainingPhase;

/// The file with the numbers of a checkpoint and the digests of its other files.
pub(crate) const STATE_FILE: &str = "state.json";
const MOMENTS: &str = "moments.safetensors";
const CLIENT_STATE: &str = "client_state.bin";
const TERM_STATES: &str = "terms.json";

/// The files of every checkpoint other than its state and its weights.
const FILES: [&str; 3] = [name::CONFIG, MOMENTS, CLIENT_STATE];
/// The file with the weights of a model; adapters have `ADAPTER_FILES` instead.
const MODEL_FILES: [&str; 1] = [name::WEIGHTS];
const ADAPTER_FILES: [&str; 2] = [name::ADAPTER_WEIGHTS, name::ADAPTER_CONFIG];

/// The layout of a checkpoint.
const FORMAT: u32 = 3;

/// Largest state, in bytes.
const MAX_STATE_BYTES: u64 = 1 << 20;

/// Largest state of a caller, in bytes.
const MAX_CLIENT_STATE_BYTES: u64 = 256 << 20;

/// The name of a moment in its file.
fn name_of(moment: Moment, spec: &ParameterSpec) -> String {
    let kind = match moment {
        Moment::First => "first",
        Moment::Second => "second",
    };
    format!("{kind}.{}", spec.name)
}

/// The moments of all parameters that are trained, these by their numbers, in the order of their file: that of their
/// names.
fn moments_in_order(specs: &[ParameterSpec]) -> Vec<(Moment, usize)> {
    let mut order: Vec<_> = (0..specs.len()).flat_map(|id| Moment::ALL.map(|moment| (moment, id))).collect();
    order.sort_by_cached_key(|&(moment, id)| name_of(moment, &specs[id]));
    order
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointState {
    format: u32,
    steps: u64,
    phase: TrainingPhase,
    /// Updates of the phase.
    updates: u64,
    /// Steps of the phase.
    phase_steps: u64,
    seed: u64,
    files: BTreeMap<String, FileDigest>,
    /// Digest of everything above, so that a changed number is noticed.
    digest: String,
}

impl CheckpointState {
    /// Whether its weights are those of adapters alone.
    fn is_of_adapters(&self) -> bool {
        self.files.contains_key(name::ADAPTER_WEIGHTS)
    }

    /// The digest of everything but itself.
    fn own_digest(&self) -> String {
        let Self { format, steps, phase, updates, phase_steps, seed, files, digest: _ } = self;
        let said = (format, steps, phase, updates, phase_steps, seed, files);
        sha256(serde_json::to_vec(&said).expect("numbers and texts serialise"))
    }
}
