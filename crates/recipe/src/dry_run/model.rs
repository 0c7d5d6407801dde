//! The model's folder: configuration, tokenizer, chat template, and whether the weights are all there.

use std::path::Path;

use evenkeel_learner::TrainingSettings;
use evenkeel_model::folder::check_values;
use evenkeel_model::{Config, Parameters, parameter_specs};
use evenkeel_model_folder::{Folder, TensorShapes, Tokenizer, WeightFiles};
use evenkeel_orchestrator::{Descriptions, Encoder};
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::with_causes;
use serde::Serialize;

use super::findings::Findings;
use super::published;
use crate::named_model::{Say, named_hint};
use crate::recipe::Recipe;

/// How many missing tensors or files are named.
const NAMED: usize = 3;

/// What is known about the model.
#[derive(Debug, Serialize)]
pub(super) struct ModelFacts {
    /// The folder; absent for a fresh model.
    pub(super) folder: Option<String>,
    pub(super) parameters: Option<u64>,
    /// Longest sequence, in tokens.
    pub(super) context_tokens: Option<usize>,
    /// Whether conversations go through a template of the folder.
    pub(super) chat_template: bool,
    #[serde(skip)]
    pub(super) config: Option<Config>,
    /// What encodes prompts; absent for a fresh model, and where the folder has no tokenizer that can be read.
    #[serde(skip)]
    pub(super) encoder: Option<Encoder>,
}

impl ModelFacts {
    fn of(config: Option<Config>) -> Self {
        Self {
            folder: None,
            parameters: config.as_ref().map(parameters),
            context_tokens: config.as_ref().map(|config| config.max_position_embeddings),
            chat_template: false,
            config,
            encoder: None,
        }
    }

    /// Facts about a model that the hub does not deliver.
    pub(super) fn unavailable(recipe: &Recipe) -> Self {
        let named = recipe.model.path.as_ref().map(|path| path.display().to_string());
        Self { folder: named, ..Self::of(None) }
    }
}

/// The values that are trained: all, or those of adapters.
pub(super) fn trained(learner: &TrainingSettings, config: &Config) -> u64 {
    match learner.lora_shape() {
        None => parameters(config),
        // Adapters that this model cannot have are refused elsewhere.
        Some(lora) => Parameters::described_with(config, Some(&lora)).map_or(0, |all| all.trained_count() as u64),
    }
}

/// All values of all tensors.
pub(super) fn parameters(config: &Config) -> u64 {
    let size = |shape: &[usize]| shape.iter().map(|&length| length as u64).product::<u64>();
    parameter_specs(config).0.iter().map(|spec| size(&spec.shape)).sum()
}

/// Looks at the folder, or at the shape of the fresh model. Prompts have the tools of the environments that are
/// described.
pub(super) fn look(recipe: &Recipe, described: &Descriptions, say: Say, findings: &mut Findings) -> ModelFacts {
    let path = &match recipe.model.folder(say) {
        Ok(Some(path)) => path,
        Ok(None) => return ModelFacts::of(Some(recipe.fresh_model().config())),
        Err(error) => {
            findings.problem(with_causes(error.as_ref()));
            return ModelFacts::unavailable(recipe);
        }
    };
    let folder = Some(path.display().to_string());
    if !path.is_dir() {
        let hint = published::hint(path);
        let named = named_hint(path).map_or_else(String::new, |named| format!(" ({named})"));
        findings.problem(format!("model.path: {} is not a folder{named}{hint}", path.display()));
        return ModelFacts { folder, ..ModelFacts::of(None) };
    }
    let config = match Config::load(path) {
        Ok((config, _)) => Some(config),
        Err(error) => {
            findings.problem(format!("model.path: {error}"));
            None
        }
    };
    let hf = Folder::new(path);
    if let Some(config) = &config {
        check_weights(&hf, config, findings);
        check_stop_tokens(recipe, config, findings);
    }
    let tokenizer = Tokenizer::require(&hf).and_then(|tokenizer| match &config {
        Some(config) => tokenizer.validate_vocabulary(u32::try_from(config.vocab_size).unwrap_or(u32::MAX)),
        None => Ok(()),
    });
    let encoder = match tokenizer {
        Err(error) => {
            findings.problem(format!("model.path: {error}"));
            None
        }
        Ok(()) => recipe.loop_settings().prompt_encoder(&hf, described).map_err(|error| findings.problem(error)).ok(),
    };
    let chat_template = matches!(evenkeel_chat::ChatTemplate::read(&hf), Ok(Some(_)));
    if encoder.is_some() && !chat_template && !recipe.data.raw {
        findings.note(format!("{} has no chat template: plain-text prompts are used as they are", path.display()));
    }
    ModelFacts { folder, chat_template, encoder, ..ModelFacts::of(config) }
}

fn check_stop_tokens(recipe: &Recipe, config: &Config, findings: &mut Findings) {
    for id in recipe.sampling.stop_token_ids.iter().filter(|&&id| id as usize >= config.vocab_size) {
        let size = config.vocab_size;
        let allowed = format!("ids below vocab_size of config.json, which is {size}");
        findings.problem(FieldError::new("sampling.stop_token_ids", id, allowed));
    }
}

/// Compares the tensors of the folder with those of the architecture, and reads their values: one that is not finite
/// would end the run.
fn check_weights(folder: &Folder, config: &Config, findings: &mut Findings) {
    let path = folder.path();
    let files = match WeightFiles::read(folder) {
        Ok(files) => files,
        Err(error) => return findings.problem(error),
    };
    if files.is_empty() {
        return findings.problem(format!("model.path: {}{}", files.absence(), published::hint(path)));
    }
    let missing = named(&files.missing());
    if !missing.is_empty() {
        let hint = published::hint(path);
        return findings.problem(format!("{}: weights are missing: {missing}{hint}", path.display()));
    }
    match files.shapes() {
        Ok(shapes) if check_tensors(path, &shapes, config, findings) => {
            if let Err(error) = check_values(path, config) {
                findings.problem(format!("model.path: {error}"));
            }
        }
        Ok(_) => {}
        Err(error) => findings.problem(error),
    }
}

/// Whether they are those of the architecture.
fn check_tensors(path: &Path, shapes: &TensorShapes, config: &Config, findings: &mut Findings) -> bool {
    let (specs, _) = parameter_specs(config);
    let before = findings.problems.len();
    let missing: Vec<String> =
        specs.iter().filter(|spec| !shapes.contains_key(&spec.name)).map(|spec| spec.name.clone()).collect();
    if !missing.is_empty() {
        findings.problem(format!("{}: tensors are missing: {}", path.display(), named(&missing)));
    }
    for spec in &specs {
        let wanted: Vec<u64> = spec.shape.iter().map(|&length| length as u64).collect();
        if let Some(found) = shapes.get(&spec.name).filter(|found| **found != wanted) {
            let path = path.display();
            let name = &spec.name;
            findings.problem(format!("{path}: {name} has shape {found:?}, config.json requires {wanted:?}"));
        }
    }
    findings.problems.len() == before
}

/// The first few of a list.
fn named(all: &[String]) -> String {
    let first = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};
    use evenkeel_model_folder::name::WEIGHTS_INDEX;

    use super::*;

    fn written() -> (tempfile::TempDir, Config) {
        let dir = tempfile::tempdir().unwrap();
        let model = FreshModel { shape: FreshShape::default(), seed: 0 };
        write_fresh_model(&dir.path().join("model"), &model).unwrap();
        (dir, model.config())
    }

    fn found(path: &Path, config: &Config) -> Vec<String> {
        let mut findings = Findings::default();
        check_weights(&Folder::new(path), config, &mut findings);
        findings.problems
    }

    #[test]
    fn whole_weights_are_no_problem_and_missing_ones_are_named() {
        let (dir, config) = written();
        let path = dir.path().join("model");
        assert_eq!(found(&path, &config), Vec::<String>::new());
        assert_eq!(parameters(&config), FreshShape::default().parameters());

        let larger = Config { num_layers: 4, intermediate_size: 300, ..config.clone() };
        let problems = found(&path, &larger);
        let (missing, shapes) = problems.split_first().unwrap();
        assert!(missing.contains("tensors are missing: model.layers.3.input_layernorm.weight, "), "{missing}");
        assert!(missing.ends_with("and 8 more"), "{missing}");
        let words = "model.layers.0.mlp.gate_proj.weight has shape [256, 96], config.json requires [300, 96]";
        assert!(shapes.len() == 9 && shapes[0].ends_with(words), "{shapes:?}");

        std::fs::remove_file(path.join("model.safetensors")).unwrap();
        assert!(found(&path, &config)[0].contains("is absent, required: model.safetensors, or shards"));
        let index = r#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
        std::fs::write(path.join(WEIGHTS_INDEX), index).unwrap();
        let problems = found(&path, &config);
        assert!(problems[0].ends_with("weights are missing: model-1.safetensors, model-2.safetensors"), "{problems:?}");
    }
}
