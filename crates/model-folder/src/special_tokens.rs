//! The special tokens that have a name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::FolderError;
use crate::folder::{Folder, name};

/// The names that every tokenizer of transformers knows.
const STANDARD: &[&str] = &["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// What transformers takes for Qwen's tokenizers where the folder says nothing; null is something.
const QWEN2: &[&str] = &["unk_token", "eos_token", "pad_token"];

/// Texts of special tokens by their names (`eos_token`), as chat templates see them and as `special_tokens_map` of
/// transformers has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens(BTreeMap<String, String>);

impl SpecialTokens {
    /// Reads them from `tokenizer_config.json`, and from `special_tokens_map.json` of folders from before version 5 of
    /// transformers.
    ///
    /// # Errors
    /// A file that cannot be read or is not JSON.
    pub fn read(folder: &Folder) -> Result<Self, FolderError> {
        let object = |json: Option<Value>| match json {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        };
        let mut config = object(folder.json(name::TOKENIZER_CONFIG)?);
        if !config.contains_key("added_tokens_decoder") {
            config.extend(object(folder.json(name::SPECIAL_TOKENS_MAP)?));
        }
        let class = config.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
        if matches!(class, "Qwen2Tokenizer" | "Qwen2TokenizerFast") {
            for token in QWEN2.iter().filter(|token| !config.contains_key(**token)).collect::<Vec<_>>() {
                config.insert((*token).to_owned(), Value::from("<|endoftext|>"));
            }
        }
        let mut tokens = BTreeMap::new();
        for (key, value) in &config {
            // Tokens that only this model has, such as `image_token`, are texts; the standard ones may be objects.
            let is_standard = STANDARD.contains(&key.as_str());
            let token = value.as_str().or_else(|| value.get("content")?.as_str().filter(|_| is_standard));
            if let Some(token) = token.filter(|_| is_standard || key.ends_with("_token")) {
                tokens.insert(key.clone(), token.to_owned());
            }
        }
        if let Some(Value::Object(extra)) = config.get("extra_special_tokens") {
            let named = extra.iter().filter_map(|(key, token)| Some((key.clone(), token.as_str()?.to_owned())));
            tokens.extend(named);
        }
        Ok(Self(tokens))
    }
}

impl FromIterator<(String, String)> for SpecialTokens {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(tokens: I) -> Self {
        Self(tokens.into_iter().collect())
    }
}

impl IntoIterator for SpecialTokens {
    type Item = (String, String);
    type IntoIter = std::collections::btree_map::IntoIter<String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        SpecialTokens::read(&Folder::new(dir.path())).unwrap().into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, token)| ((*name).to_owned(), (*token).to_owned())).collect()
    }

    #[test]
    fn tokens_have_their_names_and_null_is_none() {
        let config = r#"{"bos_token": null, "eos_token": {"content": "<e>"}, "image_token": "<i>", "add_bos_token": false,
            "model_max_length": 3, "extra_special_tokens": {"audio": "<a>"}}"#;
        let expected = pairs(&[("audio", "<a>"), ("eos_token", "<e>"), ("image_token", "<i>")]);
        assert_eq!(tokens(&[("tokenizer_config.json", config)]), expected);
        assert_eq!(tokens(&[]), []);
    }

    #[test]
    fn the_map_of_older_folders_goes_before_the_configuration() {
        let map = ("special_tokens_map.json", r#"{"eos_token": "<m>"}"#);
        let old = ("tokenizer_config.json", r#"{"eos_token": "<c>"}"#);
        assert_eq!(tokens(&[old, map]), pairs(&[("eos_token", "<m>")]));
        let new = ("tokenizer_config.json", r#"{"eos_token": "<c>", "added_tokens_decoder": {}}"#);
        assert_eq!(tokens(&[new, map]), pairs(&[("eos_token", "<c>")]));
    }

    #[test]
    fn qwens_tokenizers_have_defaults() {
        let config = r#"{"tokenizer_class": "Qwen2Tokenizer", "unk_token": null, "eos_token": "<e>"}"#;
        let expected = pairs(&[("eos_token", "<e>"), ("pad_token", "<|endoftext|>")]);
        assert_eq!(tokens(&[("tokenizer_config.json", config)]), expected);
    }
}
