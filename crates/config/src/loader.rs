//! Layers of settings, and how they are merged into one validated value.

use std::fmt::Display;
use std::path::Path;

use figment::error::Kind;
use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};
use serde::Serialize;

use super::overrides::{Override, Reading};
use crate::deserializer::ValueDeserializer;
use crate::refusal::Refusal;
use crate::renamed::renamed;
use crate::{ConfigError, Settings, wording};

/// Collects layers. Whatever the order of the calls, files come first, then the environment, then arguments.
#[derive(Debug, Default)]
pub struct Loader {
    files: Vec<TomlLayer>,
    variables: Vec<Override>,
    arguments: Vec<Override>,
}

/// Settings, and where each was written.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The settings, validated.
    pub settings: T,
    figment: Figment,
}

impl Loader {
    /// Only defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file, over the files before it.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        self.table(&path.display().to_string(), parse_file(path)?)
    }

    /// Adds TOML that comes from elsewhere; `origin` names it in messages.
    pub fn text(self, origin: &str, text: &str) -> Result<Self, ConfigError> {
        self.table(origin, parse(origin, text)?)
    }

    /// Adds a table, over the files before it; `origin` names it in messages.
    pub fn table(mut self, origin: &str, table: toml::Table) -> Result<Self, ConfigError> {
        let value = Value::serialize(table).map_err(|error| syntax(origin, error.to_string()))?;
        self.files.push(TomlLayer { origin: origin.to_owned(), dict: value.into_dict().unwrap_or_default() });
        Ok(self)
    }

    /// Adds the environment of the process.
    pub fn environment(self) -> Result<Self, ConfigError> {
        // A variable that is not Unicode has no name with our prefix.
        let variables =
            std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        self.variables(variables)
    }

    /// Adds environment variables; those without the prefix are ignored.
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        for (name, text) in variables {
            if let Some(variable) = Override::from_variable(&name, &text) {
                self.variables.push(variable?);
            }
        }
        // The environment has no order; error messages should.
        self.variables.sort_by(|a, b| a.origin.cmp(&b.origin));
        Ok(self)
    }

    /// Adds `section.key=value` arguments; the last one for a key wins.
    pub fn set<A: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = A>) -> Result<Self, ConfigError> {
        for argument in arguments {
            self.arguments.push(Override::from_argument(argument.as_ref())?);
        }
        Ok(self)
    }

    /// The settings of all layers.
    pub fn load<T: Settings>(mut self) -> Result<Loaded<T>, ConfigError> {
        loop {
            let figment = self.figment::<T>();
            let error = match extract::<T>(&figment) {
                Ok(settings) => return finish(settings, figment),
                Err(error) => error,
            };
            // `--set run.name=5` may mean the text `5`: that depends on the type of the setting.
            let reading = match () {
                () if wording::wants_text(&error) => Reading::Text,
                () if wording::wants_list(&error) => Reading::List,
                () => return Err(explain(&error, &figment)),
            };
            // The last override of the key is the one whose value was refused.
            let mut overrides = self.arguments.iter_mut().rev().chain(self.variables.iter_mut().rev());
            match overrides.find(|set| set.wrote(&error.path)) {
                // Each override is reinterpreted at most once, so that the loop ends.
                Some(set) if set.reading == Reading::Toml => set.reading = reading,
                _ => return Err(explain(&error, &figment)),
            }
        }
    }

    fn figment<T: Settings>(&self) -> Figment {
        let mut figment = Figment::from(Serialized::defaults(T::default()));
        for file in &self.files {
            figment = figment.merge(file.clone());
        }
        for set in self.variables.iter().chain(&self.arguments) {
            figment = figment.merge(set.clone());
        }
        figment
    }
}

impl<T: Settings> Loaded<T> {
    /// Where the value of `key` was written; `defaults` if nowhere.
    pub fn origin(&self, key: &str) -> String {
        origin(&self.figment, key)
    }

    /// The settings as TOML, from which the same settings load.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        to_toml(&self.settings)
    }
}

/// Settings as a table. By way of figment's value, into which the layer of defaults goes too: each type is compiled for one serializer.
///
/// # Errors
/// A number that TOML cannot hold.
pub fn to_table(settings: &impl Serialize) -> Result<toml::Table, ConfigError> {
    let value = Value::serialize(settings).map_err(write)?;
    toml::Table::try_from(value).map_err(write)
}

/// The same as text.
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
/// A text that is not TOML, with line and column.
pub fn parse(origin: &str, text: &str) -> Result<toml::Table, ConfigError> {
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
struct TomlLayer {
    origin: String,
    dict: Dict,
}

impl Provider for TomlLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

/// The settings in the merged layers.
fn extract<T: Settings>(figment: &Figment) -> Result<T, Box<Error>> {
    let merged = Value::from(merged(figment)?);
    T::deserialize(ValueDeserializer(&merged)).map_err(|Refusal(error)| error)
}

/// The merged layers.
fn merged(figment: &Figment) -> Result<Dict, Box<Error>> {
    Ok(figment.data()?.remove(&Profile::Default).unwrap_or_default())
}

fn finish<T: Settings>(settings: T, figment: Figment) -> Result<Loaded<T>, ConfigError> {
    if let Some(path) = unread(&figment, &settings) {
        let (name, parent) = path.split_last().expect("an unread key has a name");
        let parent = parent.join(".");
        let defaults = Figment::from(Serialized::defaults(T::default()));
        let allowed = keys_at(&defaults, &parent);
        return Err(unknown_key(
            Some(&*parent).filter(|parent| !parent.is_empty()),
            name,
            allowed,
            origin(&figment, &path.join(".")),
        ));
    }
    if let Err(error) = settings.validate() {
        let origin = origin(&figment, &error.field);
        return Err(ConfigError::Invalid { key: error.field, value: error.value, origin, allowed: error.allowed });
    }
    Ok(Loaded { settings, figment })
}

/// The first key that was written and is absent from the loaded settings: catches structs without `deny_unknown_fields`.
fn unread<T: Settings>(figment: &Figment, settings: &T) -> Option<Vec<String>> {
    fn missing(written: &Dict, read: &Dict) -> Option<Vec<String>> {
        written.iter().find_map(|(key, value)| match (value, read.get(key)) {
            (_, None) => Some(vec![key.clone()]),
            (Value::Dict(_, written), Some(Value::Dict(_, read))) => {
                missing(written, read).map(|path| [vec![key.clone()], path].concat())
            }
            _ => None,
        })
    }
    missing(&merged(figment).ok()?, &merged(&Figment::from(Serialized::defaults(settings))).ok()?)
}

/// The keys of a table; the top-level ones for an empty path.
fn keys_at(figment: &Figment, path: &str) -> Vec<String> {
    let table = match path {
        "" => merged(figment).ok(),
        path => figment.find_value(path).ok().and_then(Value::into_dict),
    };
    table.unwrap_or_default().into_keys().collect()
}

/// The layer that wrote a key, or the list or table that it is in.
fn origin(figment: &Figment, key: &str) -> String {
    let list = || figment.find_metadata(key.split_once('[')?.0);
    figment.find_metadata(key).or_else(list).map_or_else(|| "defaults".to_owned(), name_of)
}

fn name_of(metadata: &Metadata) -> String {
    // figment names the layer of defaults after the Rust type.
    if metadata.name.starts_with('`') || metadata.name.contains("::") {
        "defaults".to_owned()
    } else {
        metadata.name.to_string()
    }
}

fn unknown_key(parent: Option<&str>, name: &str, allowed: Vec<String>, origin: String) -> ConfigError {
    let full = |name: &str| parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}.{name}"));
    let nearest = wording::nearest(name, allowed.iter().map(String::as_str)).map(full);
    let renamed = renamed(name, &allowed).map(full);
    ConfigError::UnknownKey { key: full(name), origin, renamed, nearest, allowed }
}

fn explain(error: &Error, figment: &Figment) -> ConfigError {
    let path = error.path.join(".");
    let origin = match &error.metadata {
        Some(metadata) => name_of(metadata),
        None => origin(figment, &path),
    };
    if let Kind::UnknownField(name, allowed) = &error.kind {
        // figment sometimes includes the refused key in the path.
        let parent = match error.path.split_last() {
            Some((last, rest)) if last == name => rest.join("."),
            _ => path,
        };
        let allowed = allowed.iter().map(|&key| key.to_owned()).collect();
        return unknown_key(Some(parent.as_str()).filter(|parent| !parent.is_empty()), name, allowed, origin);
    }
    if let Kind::MissingField(name) = &error.kind {
        let key = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        return ConfigError::Invalid { key, value: "absent".to_owned(), origin, allowed: "a value".to_owned() };
    }
    let value = figment.find_value(&path).map_or_else(|_| "absent".to_owned(), |value| written(&value));
    let allowed = wording::allowed(&error.kind).unwrap_or_else(|| error.kind.to_string());
    ConfigError::Invalid { key: path, value, origin, allowed }
}

/// A value as TOML writes it.
fn written(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(
        |_| "a value that TOML cannot write".to_owned(),
        |value| match value {
            toml::Value::Table(_) => "a table".to_owned(),
            other => other.to_string(),
        },
    )
}
