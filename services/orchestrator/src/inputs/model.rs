//! The folder of a model or a teacher, by its tensors, its configuration and the files of its tokenizer: wherever it is, and however
//! its weights are split.

use std::path::{Path, PathBuf};

use evenkeel_host::{FileDigest, sha256};
use evenkeel_model_folder::{COMPANION_FILES, Folder, WeightFiles, name, tensors_digest};
use evenkeel_run::{Input, InputKind};
use serde_json::Value;

use super::file::{Known, input};
use crate::error::RunError;

/// What the weights are called; they may be several files.
const WEIGHTS: &str = "weights";

/// Keys of `config.json` that say where a model comes from, not what it is.
const PROVENANCE: [&str; 3] = ["_name_or_path", "_commit_hash", "transformers_version"];

/// Most further chat templates that are looked at.
const MAX_TEMPLATES: usize = 1000;

/// What a model's folder holds: the digest of `config.json` without the order and the spelling of its keys, of the
/// tensors, and of each file that an engine or a tokenizer reads besides.
///
/// # Errors
/// A file that cannot be read, or is none of a model.
pub(crate) fn of_model(folder: &Folder, known: Known<'_>) -> Result<Vec<Input>, RunError> {
    of_folder(InputKind::Model, folder, known)
}

/// What a teacher's folder holds, as [`of_model`] says it of a model's.
///
/// # Errors
/// As [`of_model`].
pub(crate) fn of_teacher(folder: &Folder, known: Known<'_>) -> Result<Vec<Input>, RunError> {
    of_folder(InputKind::Teacher, folder, known)
}

fn of_folder(kind: InputKind, folder: &Folder, known: Known<'_>) -> Result<Vec<Input>, RunError> {
    let path = std::path::absolute(folder.path()).map_err(RunError::file(folder.path()))?;
    let mut inputs = Vec::new();
    let file = path.join(name::CONFIG);
    let config = || Ok(canonical(folder.json(name::CONFIG)?.unwrap_or_default()));
    inputs.push(input(kind, name::CONFIG, &path, &[file], known, config)?);

    let weights = WeightFiles::read(folder)?;
    let files: Vec<PathBuf> = weights.paths().collect();
    // The services that need weights miss those that are missing.
    if !files.is_empty() && weights.missing().is_empty() {
        let read = || Ok(tensors_digest(&weights.tensor_digests(|| !(known.cancel)())?));
        inputs.push(input(kind, WEIGHTS, &path, &files, known, read)?);
    }
    let companions = COMPANION_FILES.iter().map(|&name| name.to_owned()).chain(templates(&path)?);
    for name in companions {
        let file = path.join(&name);
        if !file.exists() {
            continue;
        }
        let read = || FileDigest::of(&file).map(|digest| digest.to_string()).map_err(RunError::file(&file));
        inputs.push(input(kind, &name, &path, std::slice::from_ref(&file), known, read)?);
    }
    Ok(inputs)
}

/// The names of further chat templates, in order.
fn templates(path: &Path) -> Result<Vec<String>, RunError> {
    let folder = path.join(name::CHAT_TEMPLATES);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RunError::file(&folder)(error)),
    };
    let names = entries.flatten().take(MAX_TEMPLATES).map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.map(|file| format!("{}/{file}", name::CHAT_TEMPLATES)).collect();
    names.sort();
    Ok(names)
}

/// The digest of a configuration: the same for the same keys and values, however they are written.
fn canonical(mut config: Value) -> String {
    if let Some(keys) = config.as_object_mut() {
        keys.retain(|key, _| !PROVENANCE.contains(&key.as_str()));
    }
    config.sort_all_objects();
    sha256(config.to_string())
}

#[cfg(test)]
mod tests {
    use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};

    use super::*;

    fn digests(folder: &Path) -> Vec<(String, String)> {
        let cancel = || false;
        let known = Known { inputs: &[], read_again: false, cancel: &cancel };
        let inputs = of_model(&Folder::new(folder), known).unwrap();
        inputs.into_iter().map(|input| (input.name, input.digest)).collect()
    }

    fn model(folder: &Path) -> PathBuf {
        let shape = FreshShape { hidden_size: 32, intermediate_size: 32, layers: 1, heads: 1, ..FreshShape::default() };
        write_fresh_model(folder, &FreshModel { shape, seed: 0 }).unwrap();
        folder.to_owned()
    }

    #[test]
    fn a_model_is_the_same_wherever_it_is_and_however_its_configuration_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["a", "b"].map(|name| model(&dir.path().join(name)));
        let path = two.join("config.json");
        let config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut keys: Vec<_> = config.as_object().unwrap().clone().into_iter().rev().collect();
        keys.push(("_name_or_path".to_owned(), "elsewhere".into()));
        std::fs::write(&path, serde_json::to_string_pretty(&Value::Object(keys.into_iter().collect())).unwrap())
            .unwrap();
        assert_eq!(digests(&one), digests(&two));
        assert!(digests(&one).iter().any(|(name, _)| name == WEIGHTS));
    }

    #[test]
    fn each_part_of_a_model_that_changes_has_another_digest_and_no_other_part_has() {
        let dir = tempfile::tempdir().unwrap();
        let model = model(&dir.path().join("model"));
        let before = digests(&model);
        let flip = |file: &str| {
            let mut bytes = std::fs::read(model.join(file)).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(model.join(file), &bytes).unwrap();
        };
        let changed = || {
            let after = digests(&model);
            let new = after.into_iter().filter(|part| !before.contains(part)).map(|(name, _)| name);
            new.collect::<Vec<_>>()
        };
        for (name, file) in [(WEIGHTS, "model.safetensors"), ("tokenizer.json", "tokenizer.json")] {
            flip(file);
            assert_eq!(changed(), [name]);
            flip(file);
        }
        let config = model.join("config.json");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replacen("\"rms_norm_eps\"", "\"rms_norm_epz\"", 1)).unwrap();
        assert_eq!(changed(), ["config.json"]);
        std::fs::write(&config, text).unwrap();
        std::fs::write(model.join("chat_template.jinja"), "{{ messages }}").unwrap();
        assert_eq!(changed(), ["chat_template.jinja"]);
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let model = model(&dir.path().join("model"));
        for file in ["tokenizer.json", "model.safetensors", "config.json"] {
            let path = model.join(file);
            std::fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            let cancel = || false;
            let known = Known { inputs: &[], read_again: false, cancel: &cancel };
            let error = of_model(&Folder::new(&model), known).unwrap_err().to_string();
            assert!(error.contains("a regular file") && error.contains(file), "{file}: {error}");
        }
    }
}
