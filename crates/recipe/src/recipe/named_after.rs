//! The settings that a recipe is named after (`named_after`): `paper/qwen3-1.7b-dapo-balanced` after its model, its data
//! and its rule.
//!
//! A recipe that is put over it and gives such a setting another value is refused, since the run would still be called
//! by the old one. A recipe that builds on it has a name of its own. `--set` and the environment change it, and the run
//! says so.

use std::path::Path;

use evenkeel_config::{ConfigError, Loaded, Settings};
use toml::{Table, Value};

use super::layers::{Layer, Layers, NAMED_AFTER};

impl Layers {
    /// Refuses recipes that change what one below them is named after.
    ///
    /// # Errors
    /// The setting, its value there, and the value that the name stands for.
    pub(super) fn refuse_other_names(&self) -> Result<(), ConfigError> {
        let layers = self.all();
        for (index, named) in layers.iter().enumerate() {
            for key in &named.named_after {
                let value = value_up_to(layers, index, key)?;
                let changes = |over: &&Layer| {
                    let other = at(&over.table, key);
                    other.is_some_and(|other| !is_alike(value, other))
                        && !over.builds_on.contains(&named.source.identity)
                };
                if let Some(over) = layers[index + 1..].iter().find(changes) {
                    let shown = |value: Option<&Value>| value.map_or_else(String::new, Value::to_string);
                    return Err(ConfigError::Invalid {
                        key: key.clone(),
                        value: shown(at(&over.table, key)),
                        origin: over.source.origin.clone(),
                        allowed: format!(
                            "{value}, which {} is named after (a recipe that builds on it, or --set {key}=..., may \
                             change it)",
                            named.source.origin
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
    pub(super) fn renamed<T: Settings>(&self, loaded: &Loaded<T>) -> Result<Vec<String>, ConfigError> {
        let settings: Table = loaded.to_toml()?.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            origin: "the settings".to_owned(),
            message: error.to_string(),
        })?;
        let mut said = Vec::new();
        for (index, named) in self.all().iter().enumerate() {
            for key in &named.named_after {
                let value = value_up_to(self.all(), index, key)?;
                if let Some(other) = at(&settings, key).filter(|other| !is_alike(value, other)) {
                    said.push(format!(
                        "{} is named after {key} = {value}, but it is {other} here (written in {})",
                        named.source.origin,
                        loaded.origin(key)
                    ));
                }
            }
        }
        Ok(said)
    }
}

/// The value that a name stands for: that of the last layer up to the named one that sets the key.
fn value_up_to<'a>(layers: &'a [Layer], index: usize, key: &str) -> Result<&'a Value, ConfigError> {
    let found = layers[..=index].iter().rev().find_map(|layer| at(&layer.table, key));
    found.ok_or_else(|| ConfigError::Invalid {
        key: NAMED_AFTER.to_owned(),
        value: format!("\"{key}\""),
        origin: layers[index].source.origin.clone(),
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

#[cfg(test)]
mod tests {
    use super::super::Recipe;
    use super::*;

    const RUN: &str = "paper/qwen3-1.7b-dapo-balanced";

    fn layers(texts: &[(&str, &str)], names: &[&str]) -> Result<Layers, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in texts {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let is_file = |name: &str| texts.iter().any(|(file, _)| *file == name);
        let path = |name: &&str| {
            if is_file(name) { dir.path().join(name).display().to_string() } else { (*name).to_owned() }
        };
        Layers::of(&names.iter().map(path).collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_overlay_that_changes_what_a_recipe_is_named_after_is_refused() {
        let error = layers(&[], &[RUN, "verl-token-mean"]).unwrap_err();
        assert!(
            error.starts_with("`learner.objective.aggregation` is \"batch-token\" in recipe verl-token-mean"),
            "{error}"
        );
        assert!(
            error.contains("allowed: \"balanced-count\", which recipe paper/qwen3-1.7b-dapo-balanced is named"),
            "{error}"
        );
        let other = ("mine.toml", "[model]\npath = \"/data/Qwen3-4B\"");
        assert!(layers(&[other], &[RUN, "mine.toml"]).unwrap_err().contains("`model.path` is \"/data/Qwen3-4B\""));
        let base = ("mine.toml", "base = [\"paper/qwen3-1.7b-dapo-balanced\", \"verl-token-mean\"]");
        assert!(layers(&[base], &["mine.toml"]).unwrap_err().contains("is named after"));
    }

    #[test]
    fn what_changes_no_name_is_no_matter() {
        for names in [&[RUN, "verl-exact"][..], &["verl-token-mean", RUN], &["dapo", "verl-token-mean"]] {
            assert!(layers(&[], names).is_ok(), "{names:?}");
        }
        let moved =
            ("mine.toml", "[model]\npath = \"/data/Qwen3-1.7B\"\n[data]\nfiles = [\"/x/dapo-math-17k.parquet\"]");
        assert!(layers(&[moved], &[RUN, "mine.toml"]).is_ok(), "the same model and data in another place");
        let own =
            ("mine.toml", "base = \"paper/qwen3-1.7b-dapo-balanced\"\n[learner.objective]\naggregation = \"vl-norm\"");
        assert!(layers(&[own], &["mine.toml"]).is_ok(), "a recipe that builds on it has a name of its own");
    }

    #[test]
    fn a_setting_on_the_command_line_changes_it_and_is_said() {
        let said = |set: &[&str]| {
            let layers = layers(&[], &[RUN]).unwrap();
            let loader = layers.loader().unwrap().set(set.iter().copied()).unwrap();
            Layers::of(&[RUN]).unwrap().renamed(&loader.load::<Recipe>().unwrap()).unwrap()
        };
        assert_eq!(said(&["learner.objective.aggregation=balanced-count", "run.seed=3"]), [""; 0]);
        let found = said(&["learner.objective.aggregation=token"]);
        assert!(
            found[0].contains("named after learner.objective.aggregation = \"balanced-count\", but it is \"token\""),
            "{found:?}"
        );
        assert!(found.len() == 1 && found[0].contains("--set"), "{found:?}");
    }

    #[test]
    fn a_name_after_nothing_is_refused() {
        let error = layers(&[("a.toml", "named_after = \"run.seed\"")], &["a.toml"]).unwrap_err();
        assert!(
            error.contains("`named_after` is \"run.seed\"") && error.contains("that the recipe or its bases set"),
            "{error}"
        );
        let error = layers(&[("a.toml", "named_after = 3")], &["a.toml"]).unwrap_err();
        assert!(error.contains("the name of a setting, or a list of names"), "{error}");
    }
}
