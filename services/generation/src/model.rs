//! The model that engines serve, if its folder can be read from here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::ModelInfo;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::safetensors::{Shapes, read_shapes};

/// A served model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    /// What other servers must agree on. Without an architecture if its folder cannot be read.
    pub(crate) info: ModelInfo,
    /// Its tensors. Empty if they cannot be read.
    pub(crate) shapes: Shapes,
}

impl Model {
    /// Reads the folder that an engine reports. Engines on other machines report a path or a name that means nothing here.
    pub(crate) fn read(name: &str, root: &Path) -> Self {
        match read_config(root) {
            Some((architecture, vocabulary_size)) => {
                let shapes = read_shapes(root).unwrap_or_default();
                let info = ModelInfo {
                    architecture,
                    parameters: shapes.values().map(|shape| shape.iter().product::<u64>()).sum(),
                    vocabulary_size,
                    context_tokens: 0,
                    tokenizer_digest: digest(&root.join("tokenizer.json")).unwrap_or_default(),
                };
                Self { info, shapes }
            }
            None => {
                tracing::warn!(model = name, root = %root.display(), "the model's folder cannot be read here: token ids are not checked against its vocabulary");
                Self { info: ModelInfo::default(), shapes: BTreeMap::new() }
            }
        }
    }

    /// Whether its folder was read.
    pub(crate) fn is_known(&self) -> bool {
        !self.info.architecture.is_empty()
    }

    /// Refuses an engine that serves another model. Models whose folders cannot be read pass.
    pub(crate) fn check_same(&self, other: &Self) -> Result<(), FieldError> {
        if !self.is_known() || !other.is_known() {
            return Ok(());
        }
        let (mine, theirs) = (&self.info, &other.info);
        let same = |field: &str, other: String, first: String| {
            let allowed = format!("{first}, as the first engine has");
            if first == other { Ok(()) } else { Err(FieldError::new(field, other, allowed)) }
        };
        same("architecture", theirs.architecture.clone(), mine.architecture.clone())?;
        same("vocab_size", theirs.vocabulary_size.to_string(), mine.vocabulary_size.to_string())?;
        same("tokenizer.json", theirs.tokenizer_digest.clone(), mine.tokenizer_digest.clone())
    }
}

/// Architecture and vocabulary size of a folder. `None` without a readable config.json.
pub(crate) fn read_config(folder: &Path) -> Option<(String, u32)> {
    let config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).ok()?).ok()?;
    let architecture = config.get("architectures")?.get(0)?.as_str()?.to_owned();
    let text = config.get("text_config").unwrap_or(&config);
    let vocabulary = text.get("vocab_size")?.as_u64()?.try_into().ok()?;
    Some((architecture, vocabulary))
}

fn digest(path: &Path) -> Option<String> {
    let (mut file, mut hasher) = (File::open(path).ok()?, Sha256::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    let hex = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Some(format!("sha256:{hex}"))
}
