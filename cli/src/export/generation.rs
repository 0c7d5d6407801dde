//! `generation_config.json`: where a response ends, and how the model was sampled.

use anyhow::Result;
use evenkeel_chat::end_tokens;
use evenkeel_model_folder::{ConfigFile, Folder, Tokenizer, name};
use evenkeel_orchestrator::PolicySamplingSettings;
use serde_json::{Map, Value, json};

/// That of the model with every token that ended a response in training; without one, with the sampling of the training
/// as well.
pub(super) fn config(model: &Folder, config: &ConfigFile, sampling: &PolicySamplingSettings) -> Result<Value> {
    let tokenizer = Tokenizer::read(model)?;
    let ends = end_tokens(model, config, tokenizer.as_ref())?;
    let mut ids = ends.model.clone();
    for id in ends.tokenizer.into_iter().chain(ends.template).chain(sampling.stop_token_ids.iter().copied()) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mut json = match model.json(name::GENERATION_CONFIG)? {
        Some(Value::Object(theirs)) => theirs,
        _ => trained(config.json(), sampling),
    };
    match ids.as_slice() {
        [] => {}
        [id] => drop(json.insert("eos_token_id".to_owned(), json!(id))),
        ids => drop(json.insert("eos_token_id".to_owned(), json!(ids))),
    }
    Ok(Value::Object(json))
}

/// As the model was sampled in training.
fn trained(config: &Value, sampling: &PolicySamplingSettings) -> Map<String, Value> {
    let mut json = Map::new();
    for key in ["bos_token_id", "pad_token_id"] {
        if let Some(id) = config.get(key).filter(|id| !id.is_null()) {
            json.insert(key.to_owned(), id.clone());
        }
    }
    json.insert("do_sample".to_owned(), json!(true));
    json.insert("temperature".to_owned(), decimal(sampling.temperature));
    json.insert("top_p".to_owned(), decimal(sampling.top_p));
    // 0 is no limit in both; without it transformers takes the 50 most probable.
    json.insert("top_k".to_owned(), json!(sampling.top_k));
    json
}

/// The shortest decimal that is the same f32.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |value| json!(value))
}
