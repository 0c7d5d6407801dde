//! `adapter_config.json` of a LoRA adapter, as PEFT writes and reads it.

use std::path::Path;

use evenkeel_errors::FieldError;
use serde_json::{Value, json};

use crate::error::FolderError;
use crate::folder::{Folder, name};

/// What the file says of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// Rows of A and columns of B.
    pub rank: usize,
    /// The scale of B A times the rank. For an adapter with rank-stabilised scaling, this is the value that gives the
    /// same scale without it.
    pub alpha: f64,
    /// The last parts of the names of the linear layers that have an adapter; empty where the file has an expression
    /// instead.
    pub targets: Vec<String>,
    /// The folder or name of the model that it belongs to; empty if the file has none, which is written as `null`.
    pub base: String,
    /// The revision of the model on the hub; empty if the file has none.
    pub revision: String,
    /// Whether the file asks for rank-stabilised scaling.
    pub is_stabilised: bool,
}

impl AdapterConfig {
    /// Whether a folder holds an adapter, and no model of its own.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(name::ADAPTER_CONFIG).exists() && !folder.join(name::WEIGHTS).exists()
    }

    /// Reads the file of a folder.
    ///
    /// # Errors
    /// A folder without it; another kind of adapter than plain LoRA, by the field that says so.
    pub fn read(folder: &Folder) -> Result<Self, FolderError> {
        let path = folder.path().join(name::ADAPTER_CONFIG);
        let Some(json) = folder.json(name::ADAPTER_CONFIG)? else {
            return Err(FolderError::file(path, "is missing: the folder holds no adapter"));
        };
        Self::from_json(&json).map_err(|error| FolderError::of(path, error))
    }

    fn from_json(json: &Value) -> Result<Self, FieldError> {
        refuse_other_kinds(json)?;
        let rank = json.get("r").and_then(Value::as_u64).filter(|&rank| rank > 0);
        let rank = rank.ok_or_else(|| FieldError::new("r", shown(json, "r"), "a whole number, 1 or more"))?;
        let alpha = json.get("lora_alpha").and_then(Value::as_f64).filter(|alpha| alpha.is_finite() && *alpha > 0.0);
        let alpha =
            alpha.ok_or_else(|| FieldError::new("lora_alpha", shown(json, "lora_alpha"), "a finite number above 0"))?;
        let is_stabilised = json.get("use_rslora") == Some(&Value::Bool(true));
        let alpha = if is_stabilised { alpha * (rank as f64).sqrt() } else { alpha };
        let targets = match json.get("target_modules") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let text = |field: &str| json.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self {
            rank: usize::try_from(rank).unwrap_or(usize::MAX),
            alpha,
            targets,
            base: text("base_model_name_or_path"),
            revision: text("revision"),
            is_stabilised,
        })
    }

    /// The text of the file for PEFT and engines.
    pub fn to_text(&self) -> String {
        // PEFT's own files have whole numbers without a point.
        let alpha =
            if self.alpha.fract() == 0.0 && self.alpha < 1e15 { json!(self.alpha as u64) } else { json!(self.alpha) };
        let mut json = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": Some(&self.base).filter(|base| !base.is_empty()),
            "r": self.rank,
            "lora_alpha": alpha,
            "target_modules": self.targets,
            "lora_dropout": 0.0,
            "use_rslora": false,
            "use_dora": false,
            "bias": "none",
            "lora_bias": false,
            "fan_in_fan_out": false,
            "init_lora_weights": true,
            "modules_to_save": null,
            "rank_pattern": {},
            "alpha_pattern": {},
            "inference_mode": true,
        });
        if !self.revision.is_empty() {
            json["revision"] = self.revision.as_str().into();
        }
        let mut text = serde_json::to_string_pretty(&json).expect("names and numbers serialise");
        text.push('\n');
        text
    }
}

/// Initialisations of PEFT that leave the base as it is: all others subtract from it what they begin with.
const PLAIN: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// Refuses whatever is not W + scale B A with one rank and one scale.
fn refuse_other_kinds(json: &Value) -> Result<(), FieldError> {
    let refused = |field: &str, allowed: &str| Err(FieldError::new(field, shown(json, field), allowed));
    if json.get("peft_type").is_some_and(|kind| kind != "LORA") {
        return refused("peft_type", "LORA");
    }
    if json.get("alora_invocation_tokens").is_some_and(|tokens| !tokens.is_null()) {
        return refused(
            "alora_invocation_tokens",
            "absent: an activated LoRA computes with its adapter only after these",
        );
    }
    for field in ["use_dora", "lora_bias", "fan_in_fan_out", "use_qalora"] {
        if json.get(field).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false))) {
            return refused(field, "false");
        }
    }
    if json.get("bias").is_some_and(|bias| !bias.is_null() && bias != "none") {
        return refused("bias", "none");
    }
    for field in [
        "modules_to_save",
        "rank_pattern",
        "alpha_pattern",
        "target_parameters",
        "layer_replication",
        "trainable_token_indices",
    ] {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(values) => values.is_empty(),
            Value::Object(values) => values.is_empty(),
            _ => false,
        };
        if !json.get(field).is_none_or(is_empty) {
            return refused(field, "empty: one rank and one scale for linear layers alone");
        }
    }
    match json.get("init_lora_weights").and_then(Value::as_str) {
        Some(kind) if !PLAIN.contains(&kind) => {
            refused("init_lora_weights", "an initialisation that leaves the base as it is")
        }
        _ => Ok(()),
    }
}

fn shown(json: &Value, field: &str) -> String {
    json.get(field).map_or_else(|| "absent".to_owned(), Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: Value) -> Result<AdapterConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name::ADAPTER_CONFIG), json.to_string()).unwrap();
        AdapterConfig::read(&Folder::new(dir.path())).map_err(|error| error.to_string())
    }

    fn plain() -> Value {
        json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "base_model_name_or_path": "m"})
    }

    #[test]
    fn what_is_written_is_read_and_a_stabilised_scale_is_that_of_another_alpha() {
        let config = AdapterConfig {
            rank: 4,
            alpha: 8.0,
            targets: vec!["q_proj".into()],
            base: "m".into(),
            revision: String::new(),
            is_stabilised: false,
        };
        assert_eq!(read(plain()).unwrap(), config);
        let pinned = AdapterConfig { revision: "0".repeat(40), ..config.clone() };
        assert_eq!(read(serde_json::from_str(&pinned.to_text()).unwrap()).unwrap(), pinned);
        assert_eq!(read(serde_json::from_str(&config.to_text()).unwrap()).unwrap(), config);
        let without_base = AdapterConfig { base: String::new(), ..config.clone() };
        let written: Value = serde_json::from_str(&without_base.to_text()).unwrap();
        assert!(written["base_model_name_or_path"].is_null(), "{written}");
        assert_eq!(read(written).unwrap(), without_base);
        assert!(config.to_text().contains("\"lora_alpha\": 8,"), "{}", config.to_text());
        let mut stabilised = plain();
        stabilised["use_rslora"] = json!(true);
        let stabilised = read(stabilised).unwrap();
        assert_eq!((stabilised.alpha, stabilised.is_stabilised), (16.0, true));
    }

    #[test]
    fn other_kinds_of_adapters_are_refused_by_the_field_that_says_so() {
        for (field, value) in [
            ("peft_type", json!("IA3")),
            ("r", json!(0)),
            ("lora_alpha", json!("big")),
            ("use_dora", json!(true)),
            ("alora_invocation_tokens", json!([5, 6, 7])),
            ("bias", json!("all")),
            ("modules_to_save", json!(["lm_head"])),
            ("rank_pattern", json!({"q_proj": 8})),
            ("init_lora_weights", json!("pissa")),
        ] {
            let mut json = plain();
            json[field] = value;
            let error = read(json).unwrap_err();
            assert!(error.contains("adapter_config.json") && error.contains(&format!("{field} is ")), "{error}");
        }
    }
}
