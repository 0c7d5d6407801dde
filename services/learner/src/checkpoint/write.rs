//! Writing a checkpoint.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::DType;
use evenkeel_host::FileDigest;
use evenkeel_model::folder::{NamedShape, SaveOptions, SavedFile, TensorsFile, save_trained};
use evenkeel_model_folder::name;
use evenkeel_proto::v1::RankOrder;

use super::{CLIENT_STATE, CheckpointState, FORMAT, MOMENTS, STATE_FILE, TERM_STATES, moments_in_order, name_of};
use crate::error::{LearnerError, Result};
use crate::files::{validate_free_space, write_file, write_folder};
use crate::memory::checkpoint_bytes;
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
    trainer.check_whole()?;
    let parameters = trainer.parameters();
    validate_free_space(target, checkpoint_bytes(parameters.trained_count() as u64, dtype))?;
    write_folder(target, |folder| {
        write_file(&folder.join(CLIENT_STATE), client_state)?;
        source.write_config(folder, dtype, false)?;
        // A single file of any size: only this crate reads checkpoints.
        let options = SaveOptions { max_shard_bytes: usize::MAX, dtype, ..SaveOptions::default() };
        let base = trainer.base();
        // Each takes one processor for its digest.
        let (weights, moments) = std::thread::scope(|scope| {
            let weights = scope.spawn(|| save_trained(folder, parameters, base, options));
            let moments = save_moments(&folder.join(MOMENTS), trainer, dtype);
            (weights.join(), moments)
        });
        let weights = weights.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let moments = moments?;
        let mut files = BTreeMap::from([
            (MOMENTS.to_owned(), moments),
            (CLIENT_STATE.to_owned(), FileDigest::of_bytes(client_state)),
        ]);
        let weights = weights.map_err(|error| LearnerError::of_weights(error, trainer.version()))?;
        files.extend(weights.into_iter().map(|SavedFile { name, digest }| (name, digest)));
        let config = folder.join(name::CONFIG);
        files.insert(name::CONFIG.to_owned(), FileDigest::of(&config).map_err(LearnerError::file(&config))?);
        let terms = trainer.terms().states();
        if !terms.is_empty() {
            let text = serde_json::to_vec_pretty(&terms).expect("values serialise");
            write_file(&folder.join(TERM_STATES), &text)?;
            files.insert(TERM_STATES.to_owned(), FileDigest::of_bytes(&text));
        }
        let optimizer = trainer.optimizer().counts();
        let mut state = CheckpointState {
            format: FORMAT,
            steps: trainer.version(),
            phase: optimizer.phase,
            updates: optimizer.updates,
            phase_steps: optimizer.steps,
            seed: trainer.settings().seed,
            files,
            digest: String::new(),
        };
        state.digest = state.own_digest();
        let text = serde_json::to_string_pretty(&state).expect("numbers and strings serialise");
        write_file(&folder.join(STATE_FILE), text.as_bytes())
    })
}

/// Writes the moments of all ranks, as they come.
fn save_moments(path: &Path, trainer: &Trainer, dtype: DType) -> Result<FileDigest> {
    let specs = trainer.parameters().trained_specs();
    let order = moments_in_order(specs);
    let named =
        order.iter().map(|&(moment, id)| NamedShape { name: name_of(moment, &specs[id]), shape: &specs[id].shape });
    let mut file = TensorsFile::create(path, named.collect(), dtype, None)?;
    // Only now: whoever is told waits until it has given all of its own.
    trainer.tell(RankOrder::Save)?;
    trainer.gather_moments(&order, |moment, id, values| Ok(file.add(&name_of(moment, &specs[id]), values)?))?;
    Ok(file.finish()?)
}

/// Gives the moments of this rank to rank 0, which saves a checkpoint.
///
/// # Errors
/// A rank that is lost.
pub(crate) fn give_moments(trainer: &Trainer) -> Result<()> {
    trainer.gather_moments(&moments_in_order(trainer.parameters().trained_specs()), |_, _, _| Ok(()))
}
