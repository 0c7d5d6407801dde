//! Files that a client's recipe names: below the roots of the server's settings, or refused before anything is read.

use std::path::{Path, PathBuf};

use evenkeel_data::read::expand;
use evenkeel_proto::FieldError;
use evenkeel_rpc::exposure::is_loopback;
use evenkeel_rpc::roots::{Roots, validate_file, validate_folder};

use super::OrchestratorSettings;
use crate::recipe::ResolvedRecipe;
use crate::settings::LoopSettings;

/// Refuses a recipe that names a file or folder elsewhere. Links are resolved.
///
/// # Errors
/// The recipe's setting.
pub(super) fn confine(recipe: &ResolvedRecipe, settings: &OrchestratorSettings) -> Result<(), FieldError> {
    let folders = &settings.limits.roots;
    if folders.is_empty() && is_loopback(&settings.server.listen) {
        return Ok(());
    }
    let roots = Roots::Below { setting: "limits.roots", folders };
    if let Some(folder) = recipe.model.named() {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        validate_folder("model.path", &absolute.to_string_lossy(), roots, true)?;
    }
    for (field, path) in files_of(&recipe.settings) {
        validate_file(&field, &path, roots)?;
        // What a pattern matches may be links. One that matches nothing is reported by its reader.
        for file in expand(&path, &|| false).unwrap_or_default() {
            validate_file(&field, &file, roots)?;
        }
    }
    Ok(())
}

/// Every file that the settings name, or the pattern of several, with its field.
fn files_of(settings: &LoopSettings) -> Vec<(String, PathBuf)> {
    let data = &settings.data;
    let client = &settings.services.client;
    let mut files = Vec::new();
    let mut all = |field: &str, named: &[PathBuf]| {
        let indexed = named.iter().enumerate().map(|(index, path)| (format!("{field}[{index}]"), path.clone()));
        files.extend(indexed);
    };
    all("data.files", &data.files);
    all("data.held_out_files", &data.held_out_files);
    for (index, source) in data.sources.iter().enumerate() {
        all(&format!("data.sources[{index}].files"), &source.files);
    }
    for (index, benchmark) in settings.evaluation.benchmarks.iter().enumerate() {
        all(&format!("evaluation.benchmarks[{index}].files"), &benchmark.files);
    }
    let mut one = |field: &str, path: Option<&Path>| {
        files.extend(path.map(|path| (format!("services.client.{field}"), path.to_owned())));
    };
    one("token_file", client.token_file.as_deref());
    if let Some(tls) = &client.tls {
        one("tls.ca_file", Some(&tls.ca_file));
        one("tls.certificate_file", tls.certificate_file.as_deref());
        one("tls.key_file", tls.key_file.as_deref());
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::BenchmarkSettings;

    fn refused(roots: &[&Path], listen: &str, model: &Path, change: impl FnOnce(&mut LoopSettings)) -> Option<String> {
        let mut settings = LoopSettings::default();
        change(&mut settings);
        let recipe = ResolvedRecipe::new(settings, model.to_owned()).unwrap();
        let mut server = OrchestratorSettings::default();
        server.limits.roots = roots.iter().map(|root| (*root).to_owned()).collect();
        server.server.listen = listen.to_owned();
        confine(&recipe, &server).err().map(|error| error.to_string())
    }

    #[test]
    fn files_and_models_of_a_client_are_below_the_roots() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let root = dir.join("data");
        let other = dir.join("other");
        for folder in [&root, &other] {
            std::fs::create_dir_all(folder.join("model")).unwrap();
            std::fs::write(folder.join("a.jsonl"), "").unwrap();
        }
        std::os::unix::fs::symlink(other.join("a.jsonl"), root.join("b.jsonl")).unwrap();
        let model = root.join("model");
        let listen = "127.0.0.1:1";
        let inside = |settings: &mut LoopSettings| settings.data.files = vec![root.join("a.jsonl")];
        assert_eq!(refused(&[&root], listen, &model, inside), None);
        let error = refused(&[&root], listen, &other.join("model"), |_| ()).unwrap();
        assert!(error.starts_with("model.path is a folder elsewhere"), "{error}");
        type Change<'a> = Box<dyn FnOnce(&mut LoopSettings) + 'a>;
        let outside: [(&str, Change<'_>); 5] = [
            ("data.files[0]", Box::new(|settings| settings.data.files = vec![other.join("a.jsonl")])),
            ("data.files[0]", Box::new(|settings| settings.data.files = vec![root.join("*.jsonl")])),
            ("data.held_out_files[0]", Box::new(|settings| settings.data.held_out_files = vec!["/etc/passwd".into()])),
            (
                "evaluation.benchmarks[0].files[0]",
                Box::new(|settings| {
                    let files = vec![root.join("../other/a.jsonl")];
                    settings.evaluation.benchmarks = vec![BenchmarkSettings { files, ..BenchmarkSettings::default() }];
                }),
            ),
            (
                "services.client.token_file",
                Box::new(|settings| settings.services.client.token_file = Some("/etc/hostname".into())),
            ),
        ];
        for (field, change) in outside {
            let error = refused(&[&root], listen, &model, change).unwrap();
            assert!(error.starts_with(field) && error.contains("limits.roots"), "{error}");
        }
    }

    #[test]
    fn without_roots_only_this_machine_may_name_files() {
        let file = |settings: &mut LoopSettings| settings.data.files = vec!["/data/train.jsonl".into()];
        assert_eq!(refused(&[], "127.0.0.1:1", Path::new("/model"), file), None);
        let error = refused(&[], "0.0.0.0:1", Path::new("/model"), file).unwrap();
        assert!(error.starts_with("model.path is") && error.contains("none is set"), "{error}");
    }
}
