//! The model that the built-in task begins with: tiny, fresh, and a folder like any other.

mod characters;
mod fresh;

use std::path::{Path, PathBuf};

use crate::error::RunError;
use crate::recipe::Recipe;

pub use characters::character_tokenizer;
pub use fresh::{FreshModel, write_fresh_model};

pub(crate) use characters::CHARACTER_TOKENS;

/// The folder of the model that a recipe begins with: `model.path`, or a fresh model in `model` of the run directory, which is
/// written where it is not there yet. Every service that needs the model may call this; they get the same folder.
///
/// # Errors
/// A folder without config.json or tokenizer.json; a fresh model that cannot be written, or of another seed or shape.
pub fn prepare_model<L, E, G, R>(recipe: &Recipe<L, E, G, R>, run_directory: &Path) -> Result<PathBuf, RunError> {
    let folder = match &recipe.model.path {
        Some(path) => path.clone(),
        None => {
            let folder = run_directory.join("model");
            write_fresh_model(&folder, &FreshModel { shape: recipe.model.fresh.clone(), seed: recipe.run.seed })?;
            folder
        }
    };
    for name in ["config.json", "tokenizer.json"] {
        if !folder.join(name).exists() {
            return Err(RunError::model(
                &folder,
                format!("has no {name}, allowed: the folder of a Hugging Face model"),
            ));
        }
    }
    Ok(folder)
}
