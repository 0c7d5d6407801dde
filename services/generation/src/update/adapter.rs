//! LoRA adapters as weights: a folder in PEFT's layout, which an engine computes beside the model that it was started with.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_files::arriving;
use evenkeel_hf::{AdapterConfig, Folder, TensorShapes, WeightFiles};
use evenkeel_proto::FieldError;

use super::refusal::refused;
use crate::engine::{EngineClientError, EngineInfo};
use crate::model::Model;

/// What the names of an adapter's tensors begin with.
const PREFIX: &str = "base_model.model.";

/// Refuses to load an adapter into an engine that is not known to compute it: vLLM would take it for weights of the model, or go on without.
pub(super) fn check_taken(path: &str, info: Option<&EngineInfo>) -> Result<(), EngineClientError> {
    let is_adapter = arriving::read_in_place(Path::new(path), AdapterConfig::is_in);
    if !is_adapter || info.is_none_or(|info| info.takes_adapters) {
        return Ok(());
    }
    let allowed = "absent: engines of vLLM with learner.lora are not yet served (the embedded engine is)";
    Err(EngineClientError::Incompatible(FieldError::new("adapter_config.json", path, allowed)))
}

/// Refuses an adapter that is none of the served model: a tensor that belongs to no linear layer, of another shape, or without its other
/// half; layers of a target that have none. An engine that takes what it knows and leaves the rest answers as the base.
pub(super) fn check(path: &str, folder: &Folder, files: &WeightFiles, model: Option<&Model>) -> Result<(), FieldError> {
    let config = AdapterConfig::read(folder).map_err(|error| refused(path, &error, "an adapter of plain LoRA"))?;
    let shapes = files.shapes().map_err(|error| refused(path, &error, "complete safetensors files"))?;
    let Some(base) = model.map(|model| &model.shapes).filter(|shapes| !shapes.is_empty()) else { return Ok(()) };
    compare(&shapes, base, config.rank as u64)
        .map_err(|(name, allowed)| refused(path, &format_args!("whose {name} is {:?}", shapes.get(&name)), &allowed))
}

/// The first tensor that is not as it must be, with what is allowed.
fn compare(shapes: &TensorShapes, base: &TensorShapes, rank: u64) -> Result<(), (String, String)> {
    let mut targets = BTreeSet::new();
    for name in shapes.keys() {
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
    match targets.is_empty() {
        true => Err((PREFIX.to_owned(), "at least one adapter".to_owned())),
        false => Ok(()),
    }
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
        let (a0, b0) = (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
        );
        let (a1, b1) = (
            "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
            "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight",
        );
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
}
