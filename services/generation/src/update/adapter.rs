//! LoRA adapters as weights: a folder in PEFT's layout, which an engine computes beside the model that it was started
//! with.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_model_folder::{AdapterConfig, Folder, TensorShapes, WeightFiles, tensors_metadata};
use evenkeel_proto::FieldError;

use super::refusal::refused;
use crate::engine::{AdapterLimits, AdapterSupport, EngineClientError, EngineInfo};
use crate::model::Model;
use crate::pool::WeightsVersion;

/// What the names of an adapter's tensors begin with.
const PREFIX: &str = "base_model.model.";

/// The path of the head in every supported architecture.
const HEAD: &str = "lm_head";

/// How the name of the base's head ends, which PEFT writes out beside the head's adapter.
const BASE_LAYER: &str = ".base_layer.weight";

/// The key of the base's digest in the metadata of an adapter's tensors, where the learner of this project wrote it.
const BASE: &str = "base";

/// Whether a folder holds an adapter. `limits`: those of engines that take adapters by name.
///
/// # Errors
/// One that such an engine would not take, or would not miss: of a larger rank than it was started for, of the head, or
/// for another base.
pub(super) fn is_in(path: &str, limits: Option<AdapterLimits>, model: Option<&Model>) -> Result<bool, FieldError> {
    if !AdapterConfig::is_in(Path::new(path)) {
        return Ok(false);
    }
    let Some(AdapterLimits { rank: most, rank_advice, scores_head, .. }) = limits else { return Ok(true) };
    let folder = Folder::new(path);
    let config = AdapterConfig::read(&folder).map_err(|error| refused(path, &error, "an adapter of plain LoRA"))?;
    let allowed = format!("at most {most}, for which an engine was started ({rank_advice})");
    FieldError::ensure(config.rank <= most, "the adapter's rank", config.rank, allowed)?;
    let files = WeightFiles::read(&folder).map_err(|error| refused(path, &error, "a readable folder"))?;
    if !scores_head {
        check_head(path, &files)?;
    }
    match model.filter(|model| !model.shapes.is_empty()) {
        Some(model) => check_base(path, &files, model).map(|()| true),
        None => Ok(true),
    }
}

/// Refuses to load an adapter into an engine that is not known to compute it: it might take it for weights of the
/// model, or go on without.
pub(super) fn check_taken(weights: &WeightsVersion, info: Option<&EngineInfo>) -> Result<(), EngineClientError> {
    match info.map(|info| info.adapters) {
        Some(AdapterSupport::Missing(what)) if weights.is_adapter => {
            Err(EngineClientError::Incompatible(FieldError::missing("what an adapter needs", what)))
        }
        _ => Ok(()),
    }
}

/// Refuses an adapter that is none of the served model: a tensor that belongs to no linear layer, of another shape, or
/// without its other half; layers of a target that have none. An engine that takes what it knows and leaves the rest
/// answers as the base.
pub(super) fn check(path: &str, folder: &Folder, files: &WeightFiles, model: Option<&Model>) -> Result<(), FieldError> {
    let config = AdapterConfig::read(folder).map_err(|error| refused(path, &error, "an adapter of plain LoRA"))?;
    let shapes = files.shapes().map_err(|error| refused(path, &error, "complete safetensors files"))?;
    let Some(model) = model.filter(|model| !model.shapes.is_empty()) else { return Ok(()) };
    compare(&shapes, &model.shapes, config.rank as u64)
        .map_err(|(name, allowed)| refused(path, &format_args!("whose {name} is {:?}", shapes.get(&name)), &allowed))
}

/// Refuses an adapter of the head, for engines whose scores do not include it: nothing could tell whether they have it.
fn check_head(path: &str, files: &WeightFiles) -> Result<(), FieldError> {
    let shapes = files.shapes().map_err(|error| refused(path, &error, "complete safetensors files"))?;
    let head = format!("{PREFIX}{HEAD}.");
    match shapes.into_keys().find(|name| name.starts_with(&head)) {
        Some(name) => {
            let allowed = "no adapter of the head: the engines leave it out of the log-probabilities of prompts, by \
                which their weights are verified";
            Err(FieldError::new("the adapter's tensors", name, allowed))
        }
        None => Ok(()),
    }
}

/// Refuses an adapter that names another base than the engines' model by its digest. Shapes cannot tell bases apart.
fn check_base(path: &str, files: &WeightFiles, model: &Model) -> Result<(), FieldError> {
    for file in files.paths() {
        let said = tensors_metadata(&file).map_err(|error| refused(path, &error, "complete safetensors files"))?;
        let (Some(base), Some(known)) = (said.get(BASE), model.digests()) else { continue };
        let all = known.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
        let allowed = format!("{all}, the model that the engines serve");
        FieldError::ensure(known.contains(base), "the adapter's base", base, allowed)?;
    }
    Ok(())
}

/// The first tensor that is not as it must be, with what is allowed.
fn compare(shapes: &TensorShapes, base: &TensorShapes, rank: u64) -> Result<(), (String, String)> {
    let mut targets = BTreeSet::new();
    let head = format!("{PREFIX}{HEAD}{BASE_LAYER}");
    for (name, shape) in shapes {
        if *name == head && base.get(&format!("{HEAD}.weight")) == Some(shape) {
            continue;
        }
        let layer = [".lora_A.weight", ".lora_B.weight"].into_iter().find_map(|end| name.strip_suffix(end));
        let layer = layer.and_then(|layer| layer.strip_prefix(PREFIX));
        let weight = layer.map(|layer| format!("{layer}.weight")).filter(|weight| base.contains_key(weight));
        let Some(weight) = weight else {
            return Err((name.clone(), format!("A or B of a linear layer of the model, {PREFIX}LAYER.lora_A.weight")));
        };
        targets.insert(weight.trim_end_matches(".weight").rsplit('.').next().unwrap_or_default().to_owned());
    }
    // Whole, in each layer of the model.
    for (weight, shape) in base {
        let Some(layer) = weight.strip_suffix(".weight") else { continue };
        let [out, input] = shape[..] else { continue };
        if !targets.contains(layer.rsplit('.').next().unwrap_or_default()) {
            continue;
        }
        for (end, wanted) in [("lora_A", [rank, input]), ("lora_B", [out, rank])] {
            let name = format!("{PREFIX}{layer}.{end}.weight");
            if shapes.get(&name).is_none_or(|found| found[..] != wanted) {
                return Err((name, format!("{wanted:?}")));
            }
        }
    }
    if targets.is_empty() { Err((PREFIX.to_owned(), "at least one adapter".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(tensors: &[(&str, [u64; 2])]) -> TensorShapes {
        tensors.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect()
    }

    #[test]
    fn an_adapter_is_one_of_the_model_whole_and_by_its_names() {
        let base = shapes(&[
            ("model.layers.0.self_attn.q_proj.weight", [6, 4]),
            ("model.layers.1.self_attn.q_proj.weight", [6, 4]),
            ("model.embed_tokens.weight", [9, 4]),
        ]);
        let a0 = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
        let b0 = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
        let a1 = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
        let b1 = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";
        let whole = [(a0, [2, 4]), (b0, [6, 2]), (a1, [2, 4]), (b1, [6, 2])];
        assert_eq!(compare(&shapes(&whole), &base, 2), Ok(()));
        let refused = |tensors: &[(&str, [u64; 2])], rank| compare(&shapes(tensors), &base, rank).unwrap_err();
        assert_eq!(refused(&whole, 3), (a0.to_owned(), "[3, 4]".to_owned()), "wrong rank");
        assert_eq!(refused(&whole[..3], 2), (b1.to_owned(), "[6, 2]".to_owned()), "half of a pair");
        assert_eq!(refused(&whole[..2], 2).0, a1, "a layer without");
        let prefixed = "base_model.model.language_model.model.layers.0.self_attn.q_proj.lora_A.weight";
        assert_eq!(refused(&[(prefixed, [2, 4])], 2).0, prefixed, "of another class of models");
        assert!(compare(&TensorShapes::new(), &base, 2).is_err());
    }

    #[test]
    fn the_bases_head_may_lie_beside_its_adapter_as_peft_writes_it() {
        let base = shapes(&[("lm_head.weight", [9, 4]), ("model.embed_tokens.weight", [9, 4])]);
        let a = ("base_model.model.lm_head.lora_A.weight", [2, 4]);
        let b = ("base_model.model.lm_head.lora_B.weight", [9, 2]);
        let head = "base_model.model.lm_head.base_layer.weight";
        assert_eq!(compare(&shapes(&[a, b]), &base, 2), Ok(()));
        assert_eq!(compare(&shapes(&[a, b, (head, [9, 4])]), &base, 2), Ok(()));
        assert_eq!(compare(&shapes(&[a, b, (head, [8, 4])]), &base, 2).unwrap_err().0, head);
    }

    #[test]
    fn an_adapter_of_the_head_is_refused_where_scores_would_not_include_it() {
        let adapter = tempfile::tempdir().unwrap();
        std::fs::write(adapter.path().join("adapter_config.json"), r#"{"r": 2, "lora_alpha": 4}"#).unwrap();
        let name = "base_model.model.lm_head.lora_A.weight";
        let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}}}"#);
        std::fs::write(adapter.path().join("adapter_model.safetensors"), safetensors(&header, 16)).unwrap();
        let path = adapter.path().to_str().unwrap();
        let limits = AdapterLimits { live: 1, rank: 8, rank_advice: "", scores_head: false };
        let error = is_in(path, Some(limits), None).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the adapter's tensors is {name}"))
                && error.contains("the engines leave it out"),
            "{error}"
        );
        assert_eq!(is_in(path, Some(AdapterLimits { scores_head: true, ..limits }), None), Ok(true));
        assert_eq!(is_in(path, None, None), Ok(true), "an embedded engine computes it");
    }

    fn safetensors(header: &str, bytes: usize) -> Vec<u8> {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.resize(file.len() + bytes, 7);
        file
    }

    /// A model whose head is its embedding, with a tensor for it or without one.
    fn tied(written_out: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let config = serde_json::json!({"architectures": ["Qwen3ForCausalLM"], "vocab_size": 2, "tie_word_embeddings": !written_out,
            "tied_head_written_out": written_out});
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let head = r#","lm_head.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]}"#;
        let head = if written_out { head } else { "" };
        let header =
            format!(r#"{{"model.embed_tokens.weight":{{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}{head}}}"#);
        let file = safetensors(&header, if written_out { 32 } else { 16 });
        std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
        folder
    }

    #[test]
    fn an_adapter_for_another_base_is_refused_by_its_digest_whichever_form_the_head_has() {
        let model = tied(false);
        let copy = tied(true);
        let [one, other] = [&model, &copy].map(|folder| Model::read("m", folder.path()));
        assert_eq!(one.digests().unwrap(), other.digests().unwrap());
        let adapter = tempfile::tempdir().unwrap();
        std::fs::write(adapter.path().join("adapter_config.json"), r#"{"r": 4, "lora_alpha": 4}"#).unwrap();
        let path = adapter.path().to_str().unwrap();
        let limits = Some(AdapterLimits { live: 1, rank: 8, rank_advice: "", scores_head: false });
        let said = |base: &str| {
            let file = safetensors(&format!(r#"{{"__metadata__":{{"base":"{base}"}}}}"#), 0);
            std::fs::write(adapter.path().join("adapter_model.safetensors"), file).unwrap();
            is_in(path, limits, Some(&other)).map_err(|error| error.to_string())
        };
        for base in one.digests().unwrap() {
            assert_eq!(said(base), Ok(true));
        }
        let error = said("sha256:00").unwrap_err();
        assert!(
            error.starts_with("the adapter's base is sha256:00") && error.contains("that the engines serve"),
            "{error}"
        );
        assert_eq!(is_in(path, None, None), Ok(true));
        assert_eq!(is_in(model.path().to_str().unwrap(), limits, Some(&one)), Ok(false));
    }
}
