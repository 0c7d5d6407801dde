//! `evenkeel model`: the model that a recipe begins with, in a folder that services can be given before any run starts.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_hf::name;
use evenkeel_model::fresh::write_fresh_model;
use evenkeel_proto::FieldError;

use crate::arguments::ModelOptions;
use crate::recipe;

/// Creates a fresh one unless it exists, or links the folder of `model.path`. In a cluster the learner and the engine open the folder before
/// any run starts; whatever the recipe, they find the model under the same name.
pub(crate) fn write(options: &ModelOptions) -> Result<ExitCode> {
    let recipe = recipe::load(&options.recipe, &options.set)?.settings;
    match &recipe.model.path {
        Some(path) => link(path, &options.out)?,
        None => write_fresh_model(&options.out, &recipe.fresh_model())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes `out` a link to a model's folder. A link to another one is replaced; anything else stays.
fn link(model: &Path, out: &Path) -> Result<()> {
    let folder = fs::canonicalize(model).with_context(|| format!("model.path is {}", model.display()))?;
    if !folder.join(name::CONFIG).is_file() {
        let (field, found) = (format!("model.path {}", model.display()), format!("without {}", name::CONFIG));
        return Err(FieldError::new(field, found, "the folder of a Hugging Face model").into());
    }
    let cannot = || format!("cannot link {} to {}", out.display(), folder.display());
    match fs::read_link(out) {
        Ok(target) if target == folder => return Ok(()),
        Ok(_) => fs::remove_file(out).with_context(cannot)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(_) if fs::canonicalize(out).is_ok_and(|out| out == folder) => return Ok(()),
        Err(_) => bail!("{}: it exists and is not a link, perhaps the fresh model of another recipe", cannot()),
    }
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).with_context(cannot)?;
    }
    symlink(&folder, out).with_context(cannot)
}

#[cfg(unix)]
fn symlink(folder: &Path, out: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(folder, out)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

    use super::*;

    #[test]
    fn the_folder_becomes_a_link_to_the_model_that_the_recipe_begins_with() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other, out] = ["one", "other", "cluster/model"].map(|name| dir.path().join(name));
        for model in [&one, &other] {
            fs::create_dir(model).unwrap();
            assert!(link(model, &out).unwrap_err().to_string().contains("is without config.json"));
            fs::write(model.join("config.json"), "{}").unwrap();
        }
        for model in [&one, &one, &other] {
            link(model, &out).unwrap();
            assert_eq!(fs::canonicalize(&out).unwrap(), fs::canonicalize(model).unwrap());
        }
        link(&one, &one).unwrap();
        let missing = dir.path().join("missing");
        assert!(link(&missing, &out).unwrap_err().to_string().contains("model.path is"));
        assert!(link(&one, &other).unwrap_err().to_string().contains("it exists and is not a link"));
    }
}
