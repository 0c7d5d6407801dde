//! The API key, which appears in no file, log or error.

use evenkeel_host::Secret;
use evenkeel_proto::FieldError;

use crate::settings::JudgeSettings;

/// What stands in messages where a key was.
const HIDDEN: &str = "[key]";

/// The key of the settings; none where they name none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Key(Option<Secret>);

impl Key {
    /// # Errors
    /// A variable that is not set or a file that cannot be read; a key of fewer than 16 characters. The error does not
    /// contain it.
    pub(crate) fn of(settings: &JudgeSettings) -> Result<Self, FieldError> {
        if let Some(path) = &settings.key_file {
            let read = Secret::read_all(path);
            let keys =
                read.map_err(|error| FieldError::new("key_file", path.display(), format!("a key: it {error}")))?;
            return Ok(Self(keys.into_iter().next()));
        }
        let name = &settings.key_variable;
        if name.is_empty() {
            return Ok(Self::default());
        }
        let allowed = "a variable of the environment that has the key";
        let value = std::env::var(name)
            .map_err(|_| FieldError::new("key_variable", name, format!("{allowed}: it is not set")))?;
        let key = Secret::parse(&value)
            .map_err(|error| FieldError::new("key_variable", name, format!("{allowed}: it {error}")))?;
        Ok(Self(Some(key)))
    }

    /// The key itself, for sending.
    pub(crate) fn expose(&self) -> Option<&str> {
        self.0.as_ref().map(Secret::expose)
    }

    /// A text of the endpoint without the key, which some repeat in their errors.
    pub(crate) fn without(&self, text: &str) -> String {
        match self.expose() {
            Some(key) => text.replace(key, HIDDEN),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_file_and_no_error_has_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let settings = JudgeSettings { key_file: Some(file.path().to_owned()), ..JudgeSettings::default() };
        std::fs::write(file.path(), "sk-planted-0123456789\n").unwrap();
        let key = Key::of(&settings).unwrap();
        assert_eq!(key.expose(), Some("sk-planted-0123456789"));
        assert_eq!(key.without("bad key sk-planted-0123456789!"), "bad key [key]!");
        assert!(!format!("{key:?}").contains("planted"));
        std::fs::write(file.path(), "planted").unwrap();
        let error = Key::of(&settings).unwrap_err().to_string();
        assert!(error.starts_with("key_file is ") && !error.contains("planted"), "{error}");
        let unset = JudgeSettings { key_variable: "EVENKEEL_TEST_NO_SUCH_KEY".to_owned(), ..JudgeSettings::default() };
        assert!(Key::of(&unset).unwrap_err().to_string().ends_with("it is not set"));
        assert!(Key::of(&JudgeSettings::default()).unwrap().expose().is_none());
    }
}
