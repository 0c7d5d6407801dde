//! Writing a checkpoint.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Tensor};
use evenkeel_files::FileDigest;
use evenkeel_hf::name;
use evenkeel_model::ParameterSpec;
use evenkeel_model::folder::{NamedValues, SaveOptions, SavedFile, Values, save_trained, write_tensors};
use evenkeel_model::kernels::Moment;
use evenkeel_proto::v1::RankOrder;

use super::{CLIENT_STATE, FORMAT, MOMENTS, STATE_FILE, State, name_of};
use crate::error::{LearnerError, Result};
use crate::files::{validate_free_space, write_file, write_folder};
use crate::memory::checkpoint_bytes;
use crate::optimizer::{Optimizer, PerMoment};
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
    let optimizer = trainer.optimizer();
    // Before anything is written: a rank may be lost.
    trainer.tell(RankOrder::Save)?;
    let gathered = trainer.gather_moments()?;
    write_folder(target, |folder| {
        write_file(&folder.join(CLIENT_STATE), client_state)?;
        source.write_config(folder, dtype, false)?;
        // Each takes one processor for its digest.
        let (weights, moments) = std::thread::scope(|scope| {
            let moments = scope.spawn(|| {
                save_moments(&folder.join(MOMENTS), parameters.trained_specs(), optimizer, gathered.as_ref(), dtype)
            });
            // A single file of any size: only this crate reads checkpoints.
            let options = SaveOptions { max_shard_bytes: usize::MAX, dtype, ..SaveOptions::default() };
            (save_trained(folder, parameters, trainer.base(), options), moments.join())
        });
        let moments = moments.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let mut files = BTreeMap::from([
            (MOMENTS.to_owned(), moments),
            (CLIENT_STATE.to_owned(), FileDigest::of_bytes(client_state)),
        ]);
        let weights = weights.map_err(|error| LearnerError::of_weights(error, trainer.version()))?;
        files.extend(weights.into_iter().map(|SavedFile { name, digest }| (name, digest)));
        let config = folder.join(name::CONFIG);
        files.insert(name::CONFIG.to_owned(), FileDigest::of(&config).map_err(LearnerError::file(&config))?);
        let optimizer = optimizer.counts();
        let mut state = State {
            format: FORMAT,
            steps: trainer.version(),
            phase: optimizer.phase,
            updates: optimizer.updates,
            phase_steps: Some(optimizer.steps),
            seed: trainer.settings().seed,
            files,
            digest: None,
        };
        state.digest = Some(state.own_digest());
        let text = serde_json::to_string_pretty(&state).expect("numbers and strings serialise");
        write_file(&folder.join(STATE_FILE), text.as_bytes())
    })
}

/// Those of the optimizer, or those gathered from all ranks.
fn save_moments(
    path: &Path,
    specs: &[ParameterSpec],
    optimizer: &Optimizer,
    gathered: Option<&PerMoment<Vec<Tensor>>>,
    dtype: DType,
) -> Result<FileDigest> {
    let tensors = specs.iter().enumerate().flat_map(|(id, spec)| {
        Moment::ALL.map(|moment| NamedValues {
            name: name_of(moment, spec),
            shape: &spec.shape,
            values: match gathered {
                Some(all) => Values::Tensor(&all.of(moment)[id]),
                None => optimizer.moments().values(moment, id),
            },
        })
    });
    Ok(write_tensors(path, tensors.collect(), dtype, None)?)
}
