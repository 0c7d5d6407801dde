//! The settings that a recipe is named after (`named_after`): `paper/qwen3-1.7b-dapo-balanced` after its model, its
//! data and its rule.
//!
//! A recipe that is put over it and gives such a setting another value is refused, since the run would still be called
//! by the old one. A recipe that builds on it has a name of its own. `--set` and the environment change it, and the run
//! says so.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_config::{ConfigError, Loaded, Settings};
use toml::{Table, Value};

/// The key with the settings that a recipe is named after: a path such as `learner.objective.aggregation`, or a list.
pub(super) const NAMED_AFTER: &str = "named_after";

/// A recipe among those that are merged, in their order.
pub(super) struct Named<'a> {
    /// Name in messages.
    pub(super) origin: &'a str,
    /// Equal for equal recipes.
    pub(super) identity: &'a str,
    pub(super) table: &'a Table,
    /// Keys of the settings that its name stands for.
    pub(super) named_after: &'a [String],
    /// The identities of all recipes that it builds on.
    pub(super) builds_on: &'a BTreeSet<String>,
}

/// Refuses recipes that change what one below them is named after.
///
/// # Errors
/// The setting, its value there, and the value that the name stands for.
pub(super) fn refuse_other_names(recipes: &[Named<'_>]) -> Result<(), ConfigError> {
    for (index, named) in recipes.iter().enumerate() {
        for key in named.named_after {
            let value = value_up_to(recipes, index, key)?;
            let changes = |over: &&Named<'_>| {
                let other = at(over.table, key);
                other.is_some_and(|other| !is_alike(value, other)) && !over.builds_on.contains(named.identity)
            };
            if let Some(over) = recipes[index + 1..].iter().find(changes) {
                return Err(ConfigError::Invalid {
                    key: key.clone(),
                    value: at(over.table, key).map_or_else(String::new, Value::to_string),
                    origin: over.origin.to_owned(),
                    allowed: format!(
                        "{value}, which {} is named after (a recipe that builds on it, or --set {key}=..., may change \
                         it)",
                        named.origin
                    ),
                });
            }
        }
    }
    Ok(())
}

/// What is to be said where something else than a recipe has changed what one is named after.
///
/// # Errors
/// Settings that cannot be written down.
pub(super) fn renamed<T: Settings>(recipes: &[Named<'_>], loaded: &Loaded<T>) -> Result<Vec<String>, ConfigError> {
    let broken = |error: toml::de::Error| ConfigError::Write(error.to_string());
    let settings: Table = loaded.to_toml()?.parse().map_err(broken)?;
    let mut said = Vec::new();
    for (index, named) in recipes.iter().enumerate() {
        for key in named.named_after {
            let value = value_up_to(recipes, index, key)?;
            if let Some(other) = at(&settings, key).filter(|other| !is_alike(value, other)) {
                said.push(format!(
                    "{} is named after {key} = {value}, but it is {other} here (written in {})",
                    named.origin,
                    loaded.origin(key)
                ));
            }
        }
    }
    Ok(said)
}

/// The value that a name stands for: that of the last recipe up to the named one that sets the key.
fn value_up_to<'a>(recipes: &[Named<'a>], index: usize, key: &str) -> Result<&'a Value, ConfigError> {
    let found = recipes[..=index].iter().rev().find_map(|recipe| at(recipe.table, key));
    found.ok_or_else(|| ConfigError::Invalid {
        key: NAMED_AFTER.to_owned(),
        value: format!("\"{key}\""),
        origin: recipes[index].origin.to_owned(),
        allowed: "settings that the recipe or its bases set".to_owned(),
    })
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |place, part| place.get(part))
}

/// Whether two values are one to a name: paths are what their last part says, wherever they lie.
fn is_alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => name_of(one) == name_of(other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
        }
        _ => one == other,
    }
}

fn name_of(path: &str) -> String {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path);
    name.to_ascii_lowercase()
}
