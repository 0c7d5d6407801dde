//! The file of a study: its sections, and the settings that they nest.

use std::collections::BTreeMap;

use evenkeel_config::Settings;
use evenkeel_errors::FieldError;
use evenkeel_run::recipe_stem;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::SEEDS;
use super::varied::Varied;

/// A study as it is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StudyFile {
    pub(super) study: StudySection,
    /// Settings with a list of values each, as a recipe nests them.
    pub(super) vary: Table,
    /// Settings with a list of values each, by the name of a task; in place of `vary`.
    pub(super) vary_in: BTreeMap<String, Table>,
    /// Settings of all runs.
    pub(super) set: Table,
    pub(super) quick: QuickSection,
}

/// Section `study` of a study file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StudySection {
    pub(super) recipes: Vec<String>,
    pub(super) seeds: u64,
    pub(super) threads: usize,
    pub(super) primary: String,
    pub(super) reward: Option<f64>,
}

impl Default for StudySection {
    fn default() -> Self {
        Self { recipes: Vec::new(), seeds: SEEDS, threads: 1, primary: String::new(), reward: None }
    }
}

/// Section `quick`: what is less in a study that only shows that it works.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct QuickSection {
    /// 0 where the study has no quick version.
    pub(super) seeds: u64,
    pub(super) set: Table,
}

impl Settings for StudyFile {
    fn validate(&self) -> Result<(), FieldError> {
        if self.study.recipes.is_empty() {
            return Err(FieldError::missing("study.recipes", "at least one recipe"));
        }
        if self.vary.is_empty() {
            return Err(FieldError::missing("vary", "at least one setting with a list of values"));
        }
        varied("vary", &self.vary)?;
        let tasks: Vec<&str> = self.study.recipes.iter().map(|name| recipe_stem(name)).collect();
        for (name, table) in &self.vary_in {
            let field = format!("vary_in.{name}");
            if !tasks.contains(&name.as_str()) {
                return Err(FieldError::new(&field, "set", format!("one of {}", tasks.join(", "))));
            }
            varied(&field, table)?;
        }
        let all = std::iter::once(&self.vary).chain(self.vary_in.values());
        let is_varied: Vec<String> = all.flat_map(flat).map(|(key, _)| key).collect();
        for (section, table) in [("set", &self.set), ("quick.set", &self.quick.set)] {
            if let Some((key, value)) = flat(table).into_iter().find(|(key, _)| is_varied.contains(key)) {
                return Err(FieldError::new(format!("{section}.{key}"), value, "absent, since vary sets it"));
            }
        }
        let set_quickly = self.quick.seeds == 0 && !self.quick.set.is_empty();
        FieldError::ensure(!set_quickly, "quick.seeds", self.quick.seeds, "at least 1 with quick.set")
    }
}

/// The leaves of a table, with dots between the names of the tables that they lie in.
fn flat(table: &Table) -> Vec<(String, &Value)> {
    table
        .iter()
        .flat_map(|(key, value)| match value {
            Value::Table(inner) if !inner.is_empty() => {
                flat(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)).collect()
            }
            _ => vec![(key.clone(), value)],
        })
        .collect()
}

/// Settings as assignments that `--set` takes.
pub(super) fn assignments(table: &Table) -> Vec<String> {
    flat(table).into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// The settings of a table, each with its values.
pub(super) fn varied(field: &str, table: &Table) -> Result<Vec<Varied>, FieldError> {
    let varied = |(key, value): (String, &Value)| {
        let refused = |allowed: &str| FieldError::new(format!("{field}.{key}"), value, allowed.to_owned());
        let Value::Array(values) = value else { return Err(refused("a list of values")) };
        let values = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let varied = Varied { key: key.clone(), values: values.collect() };
        varied.validate().map_err(|fault| refused(&fault.to_string()))?;
        Ok(varied)
    };
    flat(table).into_iter().map(varied).collect()
}
