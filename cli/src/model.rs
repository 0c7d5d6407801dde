//! `evenkeel model`: the model that a recipe begins with, in a folder that services can be given before any run starts;
//! copies of models for vLLM, models of llama.cpp, and the worker extension with which vLLM proves what it has loaded.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_host::Size;
use evenkeel_model::fresh::write_fresh_model;
use evenkeel_model::gguf::import_gguf;
use evenkeel_model_folder::{ConfigFile, Folder, HeadForm, UntiedCopy, name, write_untied};
use evenkeel_proto::FieldError;

use crate::arguments::{
    ImportOptions, ModelArguments, ModelCommand, ModelOptions, UntieOptions, WorkerExtensionOptions,
};
use crate::terminal::note;

/// Runs the command, or writes the model of a recipe.
pub(crate) fn run(arguments: &ModelArguments) -> Result<ExitCode> {
    match (&arguments.command, &arguments.options) {
        (Some(ModelCommand::Untie(options)), _) => untie(options),
        (Some(ModelCommand::Import(options)), _) => import(options),
        (Some(ModelCommand::WorkerExtension(options)), _) => write_extension(options),
        (None, Some(options)) => write(options),
        (None, None) => {
            Err(FieldError::missing("--out", "the folder of the model, or a command: --help lists them").into())
        }
    }
}

/// Copies a tied model with its head written out, and links any other.
fn untie(options: &UntieOptions) -> Result<ExitCode> {
    let UntieOptions { model, to } = options;
    let model = &crate::hub::folder("MODEL", model)?;
    let source = Folder::new(model);
    match HeadForm::of(ConfigFile::read(&source)?.json()) {
        HeadForm::Tied => {
            let UntiedCopy { head_bytes, written } = write_untied(&source, to)?;
            let to = to.display();
            let size = Size(head_bytes);
            let done = if written { "written" } else { "complete already" };
            print_out!(
                "{to}: {done}; the untied head takes {size} more than in {}, on disk and in vLLM's memory",
                model.display()
            );
        }
        HeadForm::Own | HeadForm::WrittenOut => {
            link(model, to)?;
            print_out!(
                "{}: a link to {}, which needs no copy, because its output head is not tied",
                to.display(),
                model.display()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A file of llama.cpp as a folder.
fn import(options: &ImportOptions) -> Result<ExitCode> {
    let ImportOptions { file, to } = options;
    let imported = import_gguf(file, to)?;
    let class = imported.config.architecture.class();
    let parameters = imported.parameters;
    let template = if imported.has_chat_template { "with" } else { "without" };
    print_out!("{}: a {class} of {parameters} parameters in f32, {template} a chat template", to.display());
    Ok(ExitCode::SUCCESS)
}

fn write_extension(options: &WorkerExtensionOptions) -> Result<ExitCode> {
    let file = &options.file;
    let module = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".py"));
    let identifier = |name: &&str| {
        let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let Some(module) = module.filter(identifier) else {
        return Err(FieldError::new(
            "FILE.py",
            file.display(),
            "the name of a Python module, such as evenkeel_worker.py",
        )
        .into());
    };
    fs::write(file, evenkeel_generation::WORKER_EXTENSION)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).with_context(|| format!("cannot find {}", folder.display()))?;
    print_out!("PYTHONPATH={} vllm serve … --worker-extension-cls {module}.WeightDigests", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Creates a fresh one unless it exists, or links the folder of `model.path`. In a cluster the learner and the engine
/// open the folder before any run starts; whatever the recipe, they find the model under the same name.
fn write(options: &ModelOptions) -> Result<ExitCode> {
    let recipe = evenkeel_recipe::load(&options.recipe, &options.set)?.settings;
    match recipe.model.folder(note)? {
        Some(path) => link(&path, &options.out)?,
        None => write_fresh_model(&options.out, &recipe.fresh_model())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes `out` a link to a model's folder. A link to another one is replaced; anything else stays.
fn link(model: &Path, out: &Path) -> Result<()> {
    let folder = fs::canonicalize(model).with_context(|| format!("model.path is {}", model.display()))?;
    if !folder.join(name::CONFIG).is_file() {
        let field = format!("model.path {}", model.display());
        let found = format!("without {}", name::CONFIG);
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
