//! `evenkeel export`: the model of a run as a Hugging Face folder that transformers and every engine can open.

mod base;
mod card;
mod generation;
mod prompting;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_config::ByteSize;
use evenkeel_learner::{Export, PublishOptions, PublishType};
use evenkeel_model_folder::{ConfigFile, Folder};
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use evenkeel_run::{RECEIPT_FILE, RunRecord, read_receipt, receipt_text, receipt_up_to};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde_json::Value;

use crate::arguments::{ExportOptions, WeightsOption};
use crate::runs::require_run;
use crate::terminal::note;
use base::Base;
use card::ModelCard;
use source::StoredWeights;

pub(crate) fn export(options: &ExportOptions) -> Result<ExitCode> {
    require_run(&options.run)?;
    let run = RunRecord::read(&options.run)?;
    let recipe = evenkeel_recipe::finish(run.settings()?, &[])?.settings;
    let source = StoredWeights::find(&run, &recipe, options.step)?;
    let folder = model_folder(&run, &recipe)?;
    let model = Folder::new(&folder);
    let config = ConfigFile::read(&model).context("the model that the run began with")?;

    let weights = options.weights.map_or_else(|| type_of(config.json()), PublishType::from);
    let max_file = options.max_file.as_deref().map(bytes).transpose()?;
    let generation = generation::config(&model, &config, &recipe.sampling)?;
    let base = Base::of(&recipe)?;
    let lora = recipe.learner.lora.as_ref().filter(|_| !options.merged);
    let receipt = read_receipt(&run.path)?;
    let receipt = receipt_up_to(&receipt, source.step);
    let heads = receipt.last().map(|line| &line.heads);
    let card = ModelCard { run: &run, recipe: &recipe, source: &source, base: &base, lora, weights, heads };
    let mut files = vec![
        ("generation_config.json".to_owned(), serde_json::to_vec_pretty(&generation)?),
        ("README.md".to_owned(), card.text()?.into_bytes()),
    ];
    if !receipt.is_empty() {
        files.push((RECEIPT_FILE.to_owned(), receipt_text(receipt).into_bytes()));
    }
    let export = Export {
        weights: &source.folder,
        model: &folder,
        base: base.on_hub(),
        options: PublishOptions::new(weights, max_file),
        merged: options.merged,
        files: &files,
    };
    evenkeel_learner::export(&export, &options.to)?;
    print_out!("wrote the weights of {} after step {} to {}", run.run_id, source.step, options.to.display());
    Ok(ExitCode::SUCCESS)
}

/// The folder of the model that the run began with.
fn model_folder(run: &RunRecord, recipe: &Recipe) -> Result<PathBuf> {
    Ok(recipe.model.folder(note)?.unwrap_or_else(|| run.path.join("model")))
}

/// The type of a model's weights as its configuration names it.
fn type_of(config: &Value) -> PublishType {
    let named = config.get("dtype").or_else(|| config.get("torch_dtype")).and_then(Value::as_str);
    match named {
        Some("bfloat16") => PublishType::Bf16,
        Some("float16") => PublishType::F16,
        _ => PublishType::F32,
    }
}

fn bytes(text: &str) -> Result<usize> {
    let allowed = "a size with its unit, such as 500MiB or 2GiB";
    let read = ByteSize::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(text));
    let size = read.map_err(|_| FieldError::quoted("--max-file", text, allowed))?;
    match size.bytes_usize() {
        0 => Err(FieldError::new("--max-file", 0, allowed).into()),
        bytes => Ok(bytes),
    }
}

impl From<WeightsOption> for PublishType {
    fn from(option: WeightsOption) -> Self {
        match option {
            WeightsOption::F32 => Self::F32,
            WeightsOption::Bf16 => Self::Bf16,
            WeightsOption::F16 => Self::F16,
        }
    }
}

/// The last part of a path, for people.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
