//! Layers that were merged: their settings, and where each was written.

use evenkeel_errors::FieldError;
use figment::error::Kind;
use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider, Source};
use serde::Serialize;

use crate::deserializer::ValueDeserializer;
use crate::error::DEFAULTS;
use crate::other_names::{OtherNames, recognised, recognised_within};
use crate::refusal::Refusal;
use crate::{ConfigError, Settings, wording};

/// Most keys of another program that a refusal explains.
const RECOGNISED: usize = 8;
/// Most settings of the same name in other sections that a refusal names.
const ELSEWHERE: usize = 3;

/// Layers of settings, the later ones over the earlier ones.
#[derive(Debug, Clone)]
pub(crate) struct Merged(Figment);

impl Merged {
    pub(crate) fn defaults(settings: impl Serialize) -> Self {
        Self(Figment::from(Defaults(Value::serialize(settings))))
    }

    /// Adds a layer over the present ones.
    pub(crate) fn with(self, layer: impl Provider) -> Self {
        Self(self.0.merge(layer))
    }

    /// The settings that are written in them, but for those of the paths `refused`, which have their defaults.
    pub(crate) fn settings<T: Settings>(&self, refused: &[Vec<String>]) -> Result<T, Box<Error>> {
        let mut written = self.dict()?;
        if !refused.is_empty() {
            let defaults = Self::defaults(T::default()).dict()?;
            refused.iter().for_each(|path| restore(&mut written, &defaults, path));
        }
        T::deserialize(ValueDeserializer(&Value::from(written))).map_err(|Refusal(error)| error)
    }

    /// The layer that wrote a key, or the list or table that it is in; `None` where the key has its default.
    pub(crate) fn origin(&self, key: &str) -> Option<String> {
        let list = || self.0.find_metadata(key.split_once('[')?.0);
        self.0.find_metadata(key).or_else(list).and_then(name_of)
    }

    /// Where a key comes from, in words for messages: its layer, or the defaults.
    pub(crate) fn origin_or_defaults(&self, key: &str) -> String {
        self.origin(key).unwrap_or_else(defaults)
    }

    /// The first key that was written and is absent from the loaded settings: catches structs without
    /// `deny_unknown_fields`.
    pub(crate) fn unread(&self, settings: &impl Serialize) -> Option<Vec<String>> {
        fn missing(written: &Dict, read: &Dict) -> Option<Vec<String>> {
            written.iter().find_map(|(key, value)| match (value, read.get(key)) {
                (_, None) => Some(vec![key.clone()]),
                (Value::Dict(_, written), Some(Value::Dict(_, read))) => {
                    missing(written, read).map(|path| [vec![key.clone()], path].concat())
                }
                _ => None,
            })
        }
        missing(&self.dict().ok()?, &Self::defaults(settings).dict().ok()?)
    }

    /// The refusal of a key that no setting has.
    pub(crate) fn explain_unread(&self, others: &[OtherNames], defaults: &Self, path: &[String]) -> ConfigError {
        let (name, parent) = path.split_last().expect("an unread key has a name");
        let parent = parent.join(".");
        let allowed = defaults.keys_at(&parent);
        self.unknown_key(others, &parent, name, allowed, self.origin_or_defaults(&path.join(".")))
    }

    /// An error of [`settings`](Self::settings) with the key, its value, where it was written, and what is allowed.
    pub(crate) fn explain(&self, others: &[OtherNames], error: &Error) -> ConfigError {
        let (path, found) = self.locate(&error.path);
        let origin = match &error.metadata {
            Some(metadata) => name_of(metadata).unwrap_or_else(defaults),
            None => self.origin_or_defaults(&path),
        };
        if let Kind::UnknownField(name, allowed) = &error.kind {
            // figment sometimes includes the refused key in the path.
            let parent = match error.path.split_last() {
                Some((last, rest)) if last == name => self.locate(rest).0,
                _ => path,
            };
            let allowed = allowed.iter().map(|&key| key.to_owned()).collect();
            return self.unknown_key(others, &parent, name, allowed, origin);
        }
        if let Kind::MissingField(name) = &error.kind {
            let key = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            return ConfigError::Invalid { key, value: "absent".to_owned(), origin, allowed: "a value".to_owned() };
        }
        let value = found.map_or_else(|| "absent".to_owned(), |value| written(&value));
        let mut allowed = wording::allowed(&error.kind).unwrap_or_else(|| error.kind.to_string());
        // `environment = "shop.py"` is meant for a setting of another section.
        if wording::wants_table(error) {
            allowed += &recognised(others, &path).map_or_else(String::new, |words| format!(" ({words})"));
        }
        ConfigError::Invalid { key: path, value, origin, allowed }
    }

    /// The refusal of a value of the right type.
    pub(crate) fn refusal(&self, error: FieldError) -> ConfigError {
        let origin = self.origin_or_defaults(&error.field);
        ConfigError::Invalid { key: error.field, value: error.value, origin, allowed: error.allowed }
    }

    /// The refusal of a key. `parent` is the path of its table, empty for the top level.
    fn unknown_key(
        &self,
        others: &[OtherNames],
        parent: &str,
        name: &str,
        allowed: Vec<String>,
        origin: String,
    ) -> ConfigError {
        let full = |name: &str| if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
        let siblings = || allowed.iter().map(String::as_str);
        let key = full(name);
        let written = self.0.find_value(&key).map_or_else(|_| Vec::new(), |value| leaves(&key, &value));
        let misspelt = wording::misspelt(name, siblings()).map(full);
        let whole: Vec<String> = written.iter().filter_map(|leaf| recognised(others, leaf)).take(RECOGNISED).collect();
        let within = || written.iter().filter_map(|leaf| recognised_within(others, leaf)).take(RECOGNISED).collect();
        let recognised = if whole.is_empty() && misspelt.is_none() { within() } else { whole };
        let elsewhere = || Some(self.leaves_called(&key)).filter(|leaves| !leaves.is_empty());
        let nearest = misspelt.map(|key| vec![key]).or_else(elsewhere);
        let nearest = nearest.or_else(|| wording::nearest(name, siblings()).map(|name| vec![full(name)]));
        // The one that was written, where it is in tables that there are not either.
        let key = match written.as_slice() {
            [leaf] if !recognised.is_empty() => leaf.clone(),
            _ => key,
        };
        ConfigError::UnknownKey { key, origin, recognised, nearest: nearest.unwrap_or_default(), allowed }
    }

    /// The settings whose last part is that of `key`, but for itself.
    fn leaves_called(&self, key: &str) -> Vec<String> {
        let name = key.rsplit('.').next().unwrap_or(key);
        let all = self.dict().map_or_else(|_| Vec::new(), |all| leaves("", &Value::from(all)));
        let is_called = |leaf: &String| leaf != key && leaf.rsplit('.').next() == Some(name);
        let found: Vec<String> = all.into_iter().filter(is_called).collect();
        // Many are no help.
        if found.len() <= ELSEWHERE { found } else { Vec::new() }
    }

    /// A key as messages write it, with the positions of lists in brackets, and its value if it has one.
    fn locate(&self, path: &[String]) -> (String, Option<Value>) {
        let mut found = self.dict().ok().map(Value::from);
        let mut key = String::new();
        for part in path {
            found = match found {
                Some(Value::Array(_, mut list)) => {
                    key.push_str(&format!("[{part}]"));
                    part.parse().ok().filter(|&at| at < list.len()).map(|at: usize| list.swap_remove(at))
                }
                other => {
                    let dot = if key.is_empty() { "" } else { "." };
                    key.push_str(&format!("{dot}{part}"));
                    other.and_then(Value::into_dict).and_then(|mut dict| dict.remove(part))
                }
            };
        }
        (key, found)
    }

    fn dict(&self) -> Result<Dict, Box<Error>> {
        Ok(self.0.data()?.remove(&Profile::Default).unwrap_or_default())
    }

    /// The keys of a table; the top-level ones for an empty path.
    fn keys_at(&self, path: &str) -> Vec<String> {
        let table = match path {
            "" => self.dict().ok(),
            path => self.0.find_value(path).ok().and_then(Value::into_dict),
        };
        table.unwrap_or_default().into_keys().collect()
    }
}

/// Gives a part of `written` its default. What is in a list is restored with the list, and a part without a default is
/// removed.
fn restore(written: &mut Dict, defaults: &Dict, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    match (written.get_mut(key), defaults.get(key)) {
        (Some(Value::Dict(_, written)), Some(Value::Dict(_, defaults))) if !rest.is_empty() => {
            restore(written, defaults, rest);
        }
        (Some(Value::Dict(_, written)), None) if !rest.is_empty() => restore(written, &Dict::new(), rest),
        (_, Some(default)) => drop(written.insert(key.clone(), default.clone())),
        (_, None) => drop(written.remove(key)),
    }
}

/// The layer of defaults. Settings become a value at once, so that figment's functions are not compiled again for each
/// type of settings.
struct Defaults(Result<Value, Error>);

impl Provider for Defaults {
    fn metadata(&self) -> Metadata {
        Metadata::from(DEFAULTS, Source::Custom(DEFAULTS.to_owned()))
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let value = self.0.clone()?;
        let found = value.to_actual();
        let dict = value.into_dict().ok_or(Kind::InvalidType(found, "map".into()))?;
        Ok(Profile::Default.collect(dict))
    }
}

/// The name of a layer; `None` for the one of defaults.
fn name_of(metadata: &Metadata) -> Option<String> {
    // No other layer has a source, but a file may have any name.
    metadata.source.is_none().then(|| metadata.name.to_string())
}

fn defaults() -> String {
    DEFAULTS.to_owned()
}

/// The paths of all values in a value that are no tables.
fn leaves(path: &str, value: &Value) -> Vec<String> {
    let Value::Dict(_, table) = value else { return vec![path.to_owned()] };
    let full = |key: &String| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
    table.iter().flat_map(|(key, value)| leaves(&full(key), value)).collect()
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
