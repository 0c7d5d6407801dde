//! Settings as TOML: read, and written.

use std::fmt::Display;
use std::path::Path;

use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};
use serde::Serialize;

use crate::ConfigError;
use crate::depth::check_toml;

/// Settings as a table. By way of figment's value, into which the layer of defaults goes too: each type is compiled for
/// one serializer.
///
/// # Errors
/// A number that TOML cannot hold.
pub fn to_table(settings: &impl Serialize) -> Result<toml::Table, ConfigError> {
    let value = Value::serialize(settings).map_err(write)?;
    toml::Table::try_from(value).map_err(write)
}

/// Settings as the text of a TOML document.
///
/// # Errors
/// As for [`to_table`].
pub fn to_toml(settings: &impl Serialize) -> Result<String, ConfigError> {
    toml::to_string_pretty(&to_table(settings)?).map_err(write)
}

fn write(error: impl Display) -> ConfigError {
    ConfigError::Write(error.to_string())
}

/// Reads TOML; `origin` names it in messages.
///
/// # Errors
/// A text that is not TOML, with line and column; a key of too many parts.
pub fn parse(origin: &str, text: &str) -> Result<toml::Table, ConfigError> {
    check_toml(origin, text)?;
    text.parse().map_err(|error: toml::de::Error| syntax(origin, error.to_string().trim_end().to_owned()))
}

/// Reads a TOML file.
///
/// # Errors
/// A file that cannot be read, or is not TOML.
pub fn parse_file(path: &Path) -> Result<toml::Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse(&path.display().to_string(), &text)
}

fn syntax(origin: &str, message: String) -> ConfigError {
    ConfigError::Syntax { origin: origin.to_owned(), message }
}

/// A TOML file as a figment provider.
#[derive(Debug, Clone)]
pub(crate) struct TomlLayer {
    origin: String,
    dict: Dict,
}

impl TomlLayer {
    /// `origin` names it in messages.
    pub(crate) fn new(origin: &str, table: toml::Table) -> Result<Self, ConfigError> {
        let value = Value::serialize(table).map_err(|error| syntax(origin, error.to_string()))?;
        let dict = value.into_dict().unwrap_or_default();
        Ok(Self { origin: origin.to_owned(), dict })
    }
}

impl Provider for TomlLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}
