//! Problems as a run uses them: encoded once, in an order that follows from the seed.

mod order;
mod prompts;

use evenkeel_tasks::read::Limits;
use evenkeel_tasks::{Cancel, Dataset, FileSource, arithmetic};

use crate::error::RunError;
use crate::settings::{DataKind, DataSettings};

pub(crate) use order::Order;
pub(crate) use prompts::{Demonstrations, Prompt, Prompts};

/// The data set of a recipe: the same settings, seed and number of held-out problems give the same problems in the same order.
///
/// # Errors
/// A file that cannot be read, a row that is no problem (by file and line), nothing left to train on.
pub(crate) fn dataset(
    settings: &DataSettings,
    seed: u64,
    held_out: u32,
    limits: &Limits,
    cancel: &Cancel,
) -> Result<Dataset, RunError> {
    let mut dataset = match settings.kind {
        DataKind::Arithmetic => arithmetic::dataset(seed, held_out, &settings.rules()),
        DataKind::Jsonl => {
            let source = FileSource {
                path: settings.path.clone().unwrap_or_default(),
                held_out_path: settings.held_out_path.clone(),
                fields: settings.fields(),
                rules: settings.rules(),
            };
            Dataset::read(&source, seed, held_out, limits, cancel)?
        }
    };
    if dataset.train.is_empty() {
        let allowed = "at least one problem to train on besides those that are held out";
        return Err(evenkeel_proto::FieldError::new("data", "0 problems", allowed).into());
    }
    if !settings.source.is_empty() {
        dataset.name.clone_from(&settings.source);
    }
    Ok(dataset)
}
