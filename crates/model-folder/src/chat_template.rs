//! Chat templates as text.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_errors::FieldError;
use serde_json::Value;

use crate::error::FolderError;
use crate::folder::{Folder, name};

/// The Jinja templates of a folder that turn messages into a prompt, as transformers finds them.
///
/// `chat_template.jinja` and the files of `additional_chat_templates` go before `chat_template` of
/// `tokenizer_config.json` (a text, or a list of named texts), and that before `chat_template.json`. Each place is all
/// or nothing: templates of two places are not mixed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatTemplates {
    /// The one that is used where nobody names another.
    pub default: Option<String>,
    /// The others by their names, such as `tool_use`.
    pub named: BTreeMap<String, String>,
}

impl ChatTemplates {
    /// Reads them. A folder without any has the default value: a base model.
    ///
    /// # Errors
    /// A file that cannot be read, or a template that is not text.
    pub fn read(folder: &Folder) -> Result<Self, FolderError> {
        let files = Self { default: folder.text(name::CHAT_TEMPLATE)?, named: additional(folder)? };
        if files != Self::default() {
            return Ok(files);
        }
        for file in [name::TOKENIZER_CONFIG, name::CHAT_TEMPLATE_JSON] {
            if let Some(value) = folder.json(file)?.as_ref().and_then(|json| json.get("chat_template")) {
                let found = Self::of(value).map_err(|error| FolderError::of(folder.path().join(file), error))?;
                if found != Self::default() {
                    return Ok(found);
                }
            }
        }
        Ok(Self::default())
    }

    fn of(value: &Value) -> Result<Self, FieldError> {
        let refused = |field: &str, value: &Value| {
            FieldError::new(field, value, "a text, or a list of objects with the texts `name` and `template`")
        };
        let list = match value {
            Value::Null => return Ok(Self::default()),
            Value::String(text) => return Ok(Self { default: Some(text.clone()), named: BTreeMap::new() }),
            Value::Array(list) => list,
            other => return Err(refused("chat_template", other)),
        };
        let mut named = BTreeMap::new();
        for (index, entry) in list.iter().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            let (Some(name), Some(template)) = (text("name"), text("template")) else {
                return Err(refused(&format!("chat_template[{index}]"), entry));
            };
            named.insert(name, template);
        }
        Ok(Self { default: named.remove("default"), named })
    }
}

/// The templates of `additional_chat_templates` by the names of their files.
fn additional(folder: &Folder) -> Result<BTreeMap<String, String>, FolderError> {
    let directory = folder.path().join(name::CHAT_TEMPLATES);
    let unreadable = |error: std::io::Error| FolderError::of(&directory, error);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut named = BTreeMap::new();
    for entry in entries {
        let file = entry.map_err(unreadable)?.file_name();
        let file = Path::new(&file);
        let (Some(stem), Some("jinja")) = (file.file_stem(), file.extension().and_then(|end| end.to_str())) else {
            continue;
        };
        let relative = Path::new(name::CHAT_TEMPLATES).join(file);
        if let (Some(relative), Some(stem)) = (relative.to_str(), stem.to_str())
            && let Some(text) = folder.text(relative)?
        {
            named.insert(stem.to_owned(), text);
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(files: &[(&str, &str)]) -> Result<ChatTemplates, FolderError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("additional_chat_templates")).unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        ChatTemplates::read(&Folder::new(dir.path()))
    }

    fn found(default: Option<&str>, named: &[(&str, &str)]) -> ChatTemplates {
        let named = named.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        ChatTemplates { default: default.map(str::to_owned), named }
    }

    #[test]
    fn files_of_their_own_go_before_the_configuration() {
        let config = ("tokenizer_config.json", r#"{"chat_template": "config"}"#);
        let processor = ("chat_template.json", r#"{"chat_template": "processor"}"#);
        let tools = ("additional_chat_templates/tool_use.jinja", "tools");
        assert_eq!(templates(&[]).unwrap(), ChatTemplates::default());
        assert_eq!(templates(&[processor]).unwrap(), found(Some("processor"), &[]));
        assert_eq!(templates(&[processor, config]).unwrap(), found(Some("config"), &[]));
        let jinja = ("chat_template.jinja", "jinja");
        assert_eq!(templates(&[config, jinja, tools]).unwrap(), found(Some("jinja"), &[("tool_use", "tools")]));
    }

    #[test]
    fn a_configuration_may_have_several_by_name() {
        let list = r#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "rag", "template": "b"}]}"#;
        assert_eq!(templates(&[("tokenizer_config.json", list)]).unwrap(), found(Some("a"), &[("rag", "b")]));
        let null = ("tokenizer_config.json", r#"{"chat_template": null}"#);
        assert_eq!(templates(&[null]).unwrap(), ChatTemplates::default());
    }

    #[test]
    fn a_template_that_is_no_text_is_named() {
        for (value, field) in [("3", "chat_template is 3"), (r#"[{"name": "x"}]"#, "chat_template[0] is")] {
            let text = format!(r#"{{"chat_template": {value}}}"#);
            let error = templates(&[("tokenizer_config.json", &text)]).unwrap_err().to_string();
            assert!(error.contains("tokenizer_config.json") && error.contains(field), "{error}");
        }
    }
}
