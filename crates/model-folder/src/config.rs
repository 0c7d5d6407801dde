//! Reads `config.json` of a model folder.

use std::path::PathBuf;

use evenkeel_errors::FieldError;
use serde_json::Value;

use crate::error::{FileProblem, FolderError};
use crate::folder::{Folder, name};

/// A parsed `config.json`, with what every service asks of it. The whole architecture is the model crate's to read.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFile {
    path: PathBuf,
    json: Value,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A folder without one, or one that is not JSON.
    pub fn read(folder: &Folder) -> Result<Self, FolderError> {
        let path = folder.path().join(name::CONFIG);
        match folder.json(name::CONFIG)? {
            Some(json) => Ok(Self { path, json }),
            None => Err(FolderError::of(path, FileProblem::Missing("the folder of a Hugging Face model"))),
        }
    }

    pub fn json(&self) -> &Value {
        &self.json
    }

    pub fn into_json(self) -> Value {
        self.json
    }

    /// The class that transformers loads the model with: `Qwen3ForCausalLM`.
    ///
    /// # Errors
    /// A file without it.
    pub fn architecture(&self) -> Result<&str, FolderError> {
        let found = self.json.get("architectures");
        let name = found.and_then(|names| names.get(0)).and_then(Value::as_str);
        name.ok_or_else(|| self.refuse("architectures", found, "a list with the name of a class"))
    }

    /// Rows of the embedding: token ids are below it.
    ///
    /// # Errors
    /// A file without it.
    pub fn vocab_size(&self) -> Result<u32, FolderError> {
        self.count("vocab_size")
    }

    /// Longest sequence, in tokens.
    ///
    /// # Errors
    /// A file without it.
    pub fn max_position_embeddings(&self) -> Result<u32, FolderError> {
        self.count("max_position_embeddings")
    }

    /// A model of text and images has its language model's numbers in `text_config`.
    fn text(&self) -> &Value {
        self.json.get("text_config").unwrap_or(&self.json)
    }

    fn count(&self, field: &str) -> Result<u32, FolderError> {
        let found = self.text().get(field);
        let number = found.and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        let allowed = "a whole number from 1 to 4294967295";
        number.filter(|&number| number > 0).ok_or_else(|| self.refuse(field, found, allowed))
    }

    fn refuse(&self, field: &str, found: Option<&Value>, allowed: &str) -> FolderError {
        let error = match found {
            Some(value) => FieldError::new(field, value, allowed),
            None => FieldError::missing(field, allowed),
        };
        FolderError::of(&self.path, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<ConfigFile, FolderError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), text).unwrap();
        ConfigFile::read(&Folder::new(dir.path()))
    }

    #[test]
    fn a_config_says_architecture_vocabulary_and_context() {
        let text = r#"{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 9, "max_position_embeddings": 64}"#;
        let found = config(text).unwrap();
        assert_eq!(found.architecture().unwrap(), "Qwen3ForCausalLM");
        assert_eq!((found.vocab_size().unwrap(), found.max_position_embeddings().unwrap()), (9, 64));
        let nested = config(r#"{"text_config": {"vocab_size": 7}}"#).unwrap();
        assert_eq!(nested.vocab_size().unwrap(), 7);
    }

    #[test]
    fn what_is_missing_or_no_number_is_named() {
        let found = config(r#"{"vocab_size": "9", "max_position_embeddings": 0}"#).unwrap();
        let error = found.vocab_size().unwrap_err().to_string();
        assert!(
            error.ends_with("config.json: vocab_size is \"9\", allowed: a whole number from 1 to 4294967295"),
            "{error}"
        );
        assert!(found.max_position_embeddings().is_err());
        let error = found.architecture().unwrap_err().to_string();
        assert!(error.contains("architectures is absent"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let error = ConfigFile::read(&Folder::new(dir.path())).unwrap_err().to_string();
        assert!(error.contains("config.json: is missing"), "{error}");
    }
}
