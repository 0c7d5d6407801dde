//! Files that a client's recipe names: below the roots of the server's settings, or refused before anything is read.
//! Verifiers that a run would start are refused wherever they are: the server starts none.

use std::path::{Path, PathBuf};

use evenkeel_data::read::expand;
use evenkeel_proto::FieldError;
use evenkeel_rpc::exposure::is_loopback;
use evenkeel_rpc::roots::{Roots, validate_file, validate_folder};

use super::OrchestratorSettings;
use crate::recipe::ResolvedRecipe;
use crate::settings::LoopSettings;

/// Refuses a recipe that names a file or folder elsewhere, or programs. Links are resolved.
///
/// # Errors
/// The recipe's setting.
pub(super) fn confine(recipe: &ResolvedRecipe, settings: &OrchestratorSettings) -> Result<(), FieldError> {
    refuse_programs(&recipe.settings)?;
    let folders = &settings.limits.roots;
    if folders.is_empty() && is_loopback(&settings.server.listen) {
        return Ok(());
    }
    let roots = Roots::Below { setting: "limits.roots", folders };
    let teacher = recipe.teacher.as_deref();
    for (field, folder) in [("model.path", recipe.model.named()), ("learner.distillation.teacher", teacher)] {
        if let Some(folder) = folder {
            let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            validate_folder(field, &absolute.to_string_lossy(), roots, true)?;
        }
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

/// Refuses verifiers that a run starts by itself. Their files are nobody's to read here, not even for a digest.
fn refuse_programs(settings: &LoopSettings) -> Result<(), FieldError> {
    let Some((name, verifier)) = settings.data.verifiers.iter().find(|(_, verifier)| verifier.is_started()) else {
        return Ok(());
    };
    let value = match &verifier.path {
        Some(path) => path.display().to_string(),
        None if verifier.judge => "true".to_owned(),
        None => verifier.command.join(" "),
    };
    let allowed = format!(
        "absent in a recipe for a server: its endpoints.verifiers.{name} says where the verifier is (a Python file is \
         functions.{name} of a reward worker, a judge its `judge`)"
    );
    Err(FieldError::quoted(format!("data.verifiers.{name}.{}", verifier.place()), &value, allowed))
}

/// Every file that the settings name, or the pattern of several, with its field.
fn files_of(settings: &LoopSettings) -> Vec<(String, PathBuf)> {
    let data = &settings.data;
    let client = &settings.services.client;
    let mut files = Vec::new();
    let mut add_all = |field: &str, named: &[PathBuf]| {
        let indexed = named.iter().enumerate().map(|(index, path)| (format!("{field}[{index}]"), path.clone()));
        files.extend(indexed);
    };
    add_all("data.files", &data.files);
    add_all("data.held_out_files", &data.held_out_files);
    for (index, source) in data.sources.iter().enumerate() {
        add_all(&format!("data.sources[{index}].files"), &source.files);
    }
    for (index, benchmark) in settings.evaluation.benchmarks.iter().enumerate() {
        add_all(&format!("evaluation.benchmarks[{index}].files"), &benchmark.files);
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
    use crate::settings::{BenchmarkSettings, VerifierSettings};

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
        let recipe = ResolvedRecipe::new(LoopSettings::default(), model.clone()).unwrap();
        let mut server = OrchestratorSettings::default();
        server.limits.roots = vec![root.clone()];
        let taught = |teacher: &Path| ResolvedRecipe { teacher: Some(teacher.to_owned()), ..recipe.clone() };
        assert!(confine(&taught(&model), &server).is_ok());
        let error = confine(&taught(&other.join("model")), &server).unwrap_err().to_string();
        assert!(error.starts_with("learner.distillation.teacher is a folder elsewhere"), "{error}");
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
    fn no_verifier_of_a_client_is_a_program_or_a_file_wherever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join("reward.py");
        std::fs::write(&path, "").unwrap();
        let by_path = VerifierSettings { path: Some(path), ..VerifierSettings::default() };
        let by_command = VerifierSettings { command: vec!["sh".into(), "-c".into()], ..VerifierSettings::default() };
        for (field, verifier) in [("path", by_path), ("command", by_command)] {
            for roots in [&[&*root][..], &[]] {
                let change = |settings: &mut LoopSettings| {
                    settings.data.verifiers.insert("words".to_owned(), verifier.clone());
                };
                let error = refused(roots, "127.0.0.1:1", &root, change).unwrap();
                assert!(error.starts_with(&format!("data.verifiers.words.{field} is \"")), "{error}");
                assert!(error.contains("endpoints.verifiers.words"), "{error}");
            }
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
