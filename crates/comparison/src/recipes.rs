//! What a comparison asks about recipes, whose settings belong to services.

use std::collections::BTreeMap;

use anyhow::Result;
use evenkeel_config::Loader;

/// Reads recipes for comparisons.
pub trait ComparedRecipes {
    /// Whether a name is that of a built-in recipe.
    fn is_built_in(&self, name: &str) -> bool;

    /// The settings of a recipe with others over them, each as `--set` takes it.
    ///
    /// # Errors
    /// A recipe that cannot be read, and settings that are wrong or contradict each other.
    fn resolve(&self, recipe: &str, set: &[String]) -> Result<ComparedSettings>;

    /// The settings that a run was started with, completed by defaults.
    ///
    /// # Errors
    /// Settings that are wrong or contradict each other.
    fn complete(&self, settings: Loader) -> Result<ComparedSettings>;
}

/// All settings of a run, and what a comparison must know of them by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedSettings {
    /// Values by key, as TOML writes them.
    pub values: BTreeMap<String, String>,
    /// Digest of the settings that decide results.
    pub identity: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// GRPO steps in all.
    pub steps: u64,
    /// Whether supervised steps come first.
    pub has_warm_start: bool,
    /// Whether the run is evaluated after its last step.
    pub evaluates_after: bool,
    /// The benchmark of problems that are held out of the training data.
    pub held_out: String,
}

#[cfg(test)]
pub(crate) mod fake {
    use anyhow::bail;

    use super::*;

    /// Recipes without any settings but those that are set. The value `refused` is wrong, and `checkpoint` changes no
    /// result.
    pub(crate) struct FakeRecipes;

    impl ComparedRecipes for FakeRecipes {
        fn is_built_in(&self, name: &str) -> bool {
            ["arithmetic", "code"].contains(&name)
        }

        fn resolve(&self, _: &str, set: &[String]) -> Result<ComparedSettings> {
            let values: BTreeMap<String, String> = set
                .iter()
                .filter_map(|setting| setting.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            if values.values().any(|value| value == "refused") {
                bail!("a wrong value");
            }
            let results = values.iter().filter(|(key, _)| !key.starts_with("checkpoint."));
            Ok(ComparedSettings {
                identity: results.map(|(key, value)| format!("{key}={value} ")).collect(),
                steps: values.get("run.steps").map_or(0, |steps| steps.parse().unwrap()),
                values,
                ..ComparedSettings::default()
            })
        }

        fn complete(&self, _: Loader) -> Result<ComparedSettings> {
            Ok(ComparedSettings::default())
        }
    }
}
