//! Settings as TOML: read, and written.

use std::fmt::Display;
use std::path::Path;

use figment::value::{Dict, Map, Num, Value};
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
    let mut value = Value::serialize(settings).map_err(write)?;
    shorten(&mut value);
    toml::Table::try_from(value).map_err(write)
}

/// Writes numbers of 32 bits as people do: 1.1, and not the 1.100000023841858 that they are in 64 bits.
fn shorten(value: &mut Value) {
    match value {
        Value::Num(_, number) => {
            if let Num::F32(narrow) = *number {
                let short = narrow.to_string().parse().ok().filter(|short: &f64| *short as f32 == narrow);
                *number = Num::F64(short.unwrap_or_else(|| narrow.into()));
            }
        }
        Value::Dict(_, values) => values.values_mut().for_each(shorten),
        Value::Array(_, values) => values.iter_mut().for_each(shorten),
        Value::String(..) | Value::Char(..) | Value::Bool(..) | Value::Empty(..) => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_32_bits_is_written_as_it_was_given_and_read_with_its_bits() {
        #[derive(Serialize)]
        struct Numbers {
            narrow: f32,
            wide: f64,
            listed: Vec<f32>,
        }
        let numbers =
            Numbers { narrow: 1.1, wide: f64::from(1.1_f32), listed: vec![0.3, f32::MIN_POSITIVE, 16_777_216.0] };
        let text = to_toml(&numbers).unwrap();
        let lines: Vec<&str> = text.lines().take(2).collect();
        assert_eq!(lines, ["listed = [", "    0.3,"]);
        assert!(text.contains("narrow = 1.1\n") && text.contains("wide = 1.100000023841858\n"), "{text}");
        let table = to_table(&numbers).unwrap();
        let read = table["listed"].as_array().unwrap().iter().map(|number| number.as_float().unwrap() as f32);
        assert!(read.eq(numbers.listed));
    }
}
