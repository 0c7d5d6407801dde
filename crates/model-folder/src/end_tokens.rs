//! The tokens that end a response.

use evenkeel_errors::FieldError;
use serde_json::Value;

use crate::config::ConfigFile;
use crate::error::FolderError;
use crate::folder::{Folder, name};
use crate::tokenizer::Tokenizer;

/// The tokens that end a response, from the places that name them.
///
/// vLLM treats them differently: the tokenizer's ends a response without a stop reason, each of the model's is a stop
/// reason. It does not look at the template: the end of a turn that neither of the others names has to be asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EosTokens {
    /// The `eos_token` of `tokenizer_config.json`.
    pub tokenizer: Option<u32>,
    /// `eos_token_id` of `generation_config.json`, or else of `config.json`, in the order of the file.
    pub model: Vec<u32>,
    /// The end of a turn in the chat template. [`read`](Self::read) leaves it out: finding it takes rendering.
    pub template: Option<u32>,
}

impl EosTokens {
    /// Reads those that files name. Without a tokenizer, `tokenizer_config.json` is not read.
    ///
    /// # Errors
    /// An `eos_token` that the tokenizer does not have; an `eos_token_id` that is not an id below `vocab_size`.
    pub fn read(folder: &Folder, config: &ConfigFile, tokenizer: Option<&Tokenizer>) -> Result<Self, FolderError> {
        let tokenizer = match tokenizer {
            Some(tokenizer) => of_tokenizer(folder, tokenizer)?,
            None => None,
        };
        let generation = folder.json(name::GENERATION_CONFIG)?;
        let listed = match &generation {
            Some(json) => of_model(folder, name::GENERATION_CONFIG, json, config)?,
            None => None,
        };
        let listed = match listed {
            None => of_model(folder, name::CONFIG, config.json(), config)?,
            listed => listed,
        };
        Ok(Self { tokenizer, model: listed.unwrap_or_default(), template: None })
    }

    /// The token with which a finished response is written: the tokenizer's, or else the model's first, or else the
    /// template's.
    pub fn first(&self) -> Option<u32> {
        self.tokenizer.or_else(|| self.model.first().copied()).or(self.template)
    }

    /// The model's and the template's without the tokenizer's.
    pub fn others(&self) -> Vec<u32> {
        let model = self.model.iter().copied().filter(|&id| Some(id) != self.tokenizer);
        model.chain(self.template_alone()).collect()
    }

    /// The template's, where neither tokenizer nor model name it: an engine that reads the same files does not stop
    /// there by itself.
    pub fn template_alone(&self) -> Option<u32> {
        self.template.filter(|&id| Some(id) != self.tokenizer && !self.model.contains(&id))
    }
}

/// The value of `eos_token_id`: one id, a list of them, or nothing (`None`).
///
/// # Errors
/// Anything else.
pub fn eos_token_ids(json: &Value) -> Result<Option<Vec<u32>>, FieldError> {
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| FieldError::new("eos_token_id", value, "a token id, a list of them, or null"))
    };
    match json.get("eos_token_id") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(ids)) => ids.iter().map(id).collect::<Result<_, _>>().map(Some),
        Some(one) => Ok(Some(vec![id(one)?])),
    }
}

fn of_tokenizer(folder: &Folder, tokenizer: &Tokenizer) -> Result<Option<u32>, FolderError> {
    let Some(json) = folder.json(name::TOKENIZER_CONFIG)? else { return Ok(None) };
    // A string, or an object with its content.
    let token = json.get("eos_token").and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
    let Some(token) = token else { return Ok(None) };
    let missing = || FieldError::new("eos_token", format_args!("{token:?}"), "a token of tokenizer.json");
    let refused = || FolderError::of(folder.path().join(name::TOKENIZER_CONFIG), missing());
    tokenizer.id(token).ok_or_else(refused).map(Some)
}

fn of_model(folder: &Folder, file: &str, json: &Value, config: &ConfigFile) -> Result<Option<Vec<u32>>, FolderError> {
    let refused = |error: FieldError| FolderError::of(folder.path().join(file), error);
    let Some(ids) = eos_token_ids(json).map_err(refused)? else { return Ok(None) };
    let vocab_size = config.vocab_size()?;
    match ids.iter().find(|&&id| id >= vocab_size) {
        Some(id) => {
            let allowed = format!("0 to vocab_size - 1 = {} (config.json)", vocab_size - 1);
            Err(refused(FieldError::new("eos_token_id", id, allowed)))
        }
        None => Ok(Some(ids)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::tests::words;

    /// Reads the ends of a folder with these files; an empty text stands for no file.
    fn ends(config: &str, generation: &str, tokenizer_config: &str) -> Result<EosTokens, FolderError> {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("config.json", config),
            ("generation_config.json", generation),
            ("tokenizer_config.json", tokenizer_config),
            ("tokenizer.json", &words().to_string()),
        ];
        for (name, text) in files.into_iter().filter(|(_, text)| !text.is_empty()) {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let folder = Folder::new(dir.path());
        let tokenizer = Tokenizer::read(&folder)?;
        EosTokens::read(&folder, &ConfigFile::read(&folder)?, tokenizer.as_ref())
    }

    const CONFIG: &str = r#"{"vocab_size": 3, "eos_token_id": [1, 2]}"#;

    #[test]
    fn the_generation_config_goes_before_the_config() {
        let found = ends(CONFIG, r#"{"eos_token_id": 2}"#, "").unwrap();
        assert_eq!(found, EosTokens { model: vec![2], ..EosTokens::default() });
        let found = ends(CONFIG, r#"{"eos_token_id": null}"#, "").unwrap();
        assert_eq!((found.first(), found.others()), (Some(1), vec![1, 2]));
        assert_eq!(ends(r#"{"vocab_size": 3}"#, "", "").unwrap(), EosTokens::default());
    }

    #[test]
    fn the_tokenizers_own_end_is_the_first() {
        for token in [r#""<eos>""#, r#"{"content": "<eos>"}"#] {
            let found = ends(CONFIG, r#"{"eos_token_id": [2, 0]}"#, &format!(r#"{{"eos_token": {token}}}"#)).unwrap();
            assert_eq!((found.first(), found.others()), (Some(0), vec![2]));
        }
        let found = ends(CONFIG, "", r#"{"eos_token": null}"#).unwrap();
        assert_eq!(found.first(), Some(1));
    }

    #[test]
    fn the_templates_end_of_turn_counts_once() {
        let ends = EosTokens { tokenizer: Some(0), model: vec![0, 2], template: Some(1) };
        assert_eq!((ends.first(), ends.others(), ends.template_alone()), (Some(0), vec![2, 1], Some(1)));
        for id in [0, 2] {
            let ends = EosTokens { template: Some(id), ..ends.clone() };
            assert_eq!((ends.others(), ends.template_alone()), (vec![2], None));
        }
        let alone = EosTokens { template: Some(1), ..EosTokens::default() };
        assert_eq!((alone.first(), alone.others()), (Some(1), vec![1]));
    }

    #[test]
    fn ends_that_the_model_does_not_have_are_named() {
        let refused = [
            (
                CONFIG,
                r#"{"eos_token_id": 3}"#,
                "",
                "generation_config.json: eos_token_id is 3, allowed: 0 to vocab_size - 1 = 2",
            ),
            (CONFIG, r#"{"eos_token_id": "2"}"#, "", "generation_config.json: eos_token_id is \"2\", allowed: a token"),
            (r#"{"vocab_size": 3, "eos_token_id": -1}"#, "", "", "config.json: eos_token_id is -1"),
            (CONFIG, "", r#"{"eos_token": "<x>"}"#, "tokenizer_config.json: eos_token is \"<x>\", allowed: a token"),
        ];
        for (config, generation, tokenizer, words) in refused {
            let error = ends(config, generation, tokenizer).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
