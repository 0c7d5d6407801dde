//! Single settings from the environment and from `--set`: a path and a text whose type is that of the setting.

use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};

use crate::depth::{check_parts, check_toml};
use crate::{ConfigError, ENVIRONMENT_PREFIX};

/// How the text of an override is interpreted: first as TOML, then, if the setting is a text or a list, as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// A TOML value if the text is one (`5`, `true`, `["a", "b"]`), otherwise a text.
    Toml,
    Text,
    /// Texts separated by commas.
    List,
}

/// A setting from the environment or the command line.
#[derive(Debug, Clone)]
pub(super) struct Override {
    pub(super) origin: String,
    pub(super) path: Vec<String>,
    pub(super) text: String,
    pub(super) reading: Reading,
}

impl Override {
    /// Reads an argument `section.key=value` of `--set`.
    pub(super) fn from_argument(argument: &str) -> Result<Self, ConfigError> {
        let origin = format!("--set {argument}");
        let (key, text) = match argument.split_once('=') {
            Some((key, text)) if key.split('.').all(|part| !part.trim().is_empty()) => (key, text),
            _ => return Err(ConfigError::Malformed { origin, allowed: "section.key=value" }),
        };
        check_parts(&origin, key.split('.').count())?;
        check_value(&origin, text)?;
        let path = key.split('.').map(|part| part.trim().to_owned()).collect();
        // `key = value` is meant to be read as TOML is; otherwise all white space belongs to the text.
        let text = if key.ends_with(char::is_whitespace) { text.trim() } else { text };
        Ok(Self { origin, path, text: text.to_owned(), reading: Reading::Toml })
    }

    /// `EVENKEEL__SECTION__KEY`. `None` for variables without the prefix.
    pub(super) fn from_variable(name: &str, text: &str) -> Option<Result<Self, ConfigError>> {
        let key = name.strip_prefix(ENVIRONMENT_PREFIX)?;
        let origin = format!("environment variable {name}");
        let path: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
        if path.iter().any(String::is_empty) {
            return Some(Err(ConfigError::Malformed { origin, allowed: "EVENKEEL__SECTION__KEY" }));
        }
        if let Err(error) = check_parts(&origin, path.len()).and_then(|()| check_value(&origin, text)) {
            return Some(Err(error));
        }
        Some(Ok(Self { origin, path, text: text.to_owned(), reading: Reading::Toml }))
    }

    /// Whether this override wrote the value at `path`.
    pub(super) fn wrote(&self, path: &[String]) -> bool {
        path.starts_with(&self.path)
    }

    fn value(&self) -> Value {
        let text = || Value::from(self.text.as_str());
        match self.reading {
            Reading::Text => text(),
            Reading::List => {
                self.text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().into()
            }
            Reading::Toml => toml_value(&self.text).and_then(|value| Value::serialize(value).ok()).unwrap_or_else(text),
        }
    }
}

/// Refuses a value whose own keys have too many parts. Dots of a plain text are no key.
fn check_value(origin: &str, text: &str) -> Result<(), ConfigError> {
    if text.contains('=') { check_toml(origin, text) } else { Ok(()) }
}

/// The text as one TOML value.
fn toml_value(text: &str) -> Option<toml::Value> {
    let text = text.trim();
    // With a line break the text could contain other settings.
    let mut table = if text.contains('\n') { None } else { format!("value = {text}").parse::<toml::Table>().ok() }?;
    table.remove("value").filter(|_| table.is_empty())
}

impl Provider for Override {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let mut value = self.value();
        for part in self.path.iter().rev() {
            value = Value::from(Dict::from([(part.clone(), value)]));
        }
        // The path has at least one part, so that the value is a dictionary.
        Ok(Map::from([(Profile::Default, value.into_dict().unwrap_or_default())]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_path_and_a_text() {
        let set = Override::from_argument("server.listen = 0.0.0.0:1=2").unwrap();
        assert_eq!(set.path, ["server", "listen"]);
        assert_eq!(set.text, "0.0.0.0:1=2");
    }

    #[test]
    fn white_space_around_a_text_is_part_of_it_and_around_a_number_it_is_not() {
        let value = |argument: &str| Override::from_argument(argument).unwrap().value();
        assert_eq!(value("data.suffix= think\n"), Value::from(" think\n"));
        assert_eq!(value("data.suffix=\t"), Value::from("\t"));
        assert_eq!(value("run.steps = 5 "), Value::from(5_i64));
        assert_eq!(value("data.suffix = \" think\""), Value::from(" think"));
    }

    #[test]
    fn keys_of_too_many_parts_are_refused_before_anything_is_made_of_them() {
        let deep = "a".to_owned() + &".a".repeat(10_000);
        for argument in [format!("{deep}=1"), format!("a={{ {deep} = 1 }}"), format!("a=[{{ {deep} = 1 }}]")] {
            let error = Override::from_argument(&argument).unwrap_err().to_string();
            assert!(error.len() < 300 && error.contains("allowed: a key of at most 16 parts"), "{error}");
        }
        let variable = format!("EVENKEEL__{}", deep.replace('.', "__"));
        assert!(Override::from_variable(&variable, "1").unwrap().is_err());
        assert!(Override::from_variable("EVENKEEL__A", &format!("{{ {deep} = 1 }}")).unwrap().is_err());
        for text in [format!("{deep} = 1"), format!("[{deep}]"), format!("[[{deep}]]"), format!("x = {{ {deep} = 1 }}")]
        {
            assert!(crate::parse("test", &text).is_err());
        }
        assert!(Override::from_argument(&format!("data.suffix={}", ".".repeat(50))).is_ok(), "a text may have dots");
    }

    #[test]
    fn an_argument_without_key_or_value_is_refused() {
        for argument in ["server.listen", "=5", "server.=5", ".x=5"] {
            let error = Override::from_argument(argument).unwrap_err();
            assert_eq!(error.to_string(), format!("--set {argument} is not a setting, allowed: section.key=value"));
        }
    }

    #[test]
    fn variables_without_the_prefix_are_ignored() {
        assert!(Override::from_variable("PATH", "/bin").is_none());
        assert!(Override::from_variable("EVENKEEL_LOG", "info").is_none());
        assert!(Override::from_variable("EVENKEEL__SERVER____X", "1").unwrap().is_err());
    }

    #[test]
    fn texts_are_toml_where_they_are_toml() {
        assert_eq!(toml_value("5"), Some(toml::Value::Integer(5)));
        assert_eq!(toml_value("\"5\""), Some(toml::Value::String("5".into())));
        assert_eq!(toml_value("0.0.0.0:50051"), None);
        assert_eq!(toml_value("1\nother = 2"), None);
    }
}
