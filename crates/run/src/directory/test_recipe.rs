//! Recipes of a few settings, for tests.

use std::collections::BTreeMap;

use super::{RecipeRecord, RunDirectory};
use crate::inputs::{InputRecord, Rules};
use crate::layout::INPUTS_FILE;

/// Settings by their whole keys, as TOML and JSON alike write them.
pub(super) struct TestRecipe {
    name: String,
    toml: String,
    identity: String,
    pub(super) rules: Rules,
    pub(super) origins: BTreeMap<String, String>,
    warm_start_steps: u64,
}

impl TestRecipe {
    /// A recipe with these settings in place of its own.
    pub(super) fn new(changes: &[(&str, &str)]) -> Self {
        let own = [
            ("data.files", "[]"),
            ("run.name", "\"\""),
            ("run.steps", "80"),
            ("sampling.group_size", "16"),
            ("sampling.top_k", "0"),
            ("warm_start.steps", "0"),
        ];
        let pairs = own.iter().chain(changes).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let settings: BTreeMap<String, String> = pairs.collect();
        let toml = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let rules: Rules = settings.iter().filter(|(key, _)| !key.starts_with("run.")).map(own_pair).collect();
        Self {
            name: settings["run.name"].trim_matches('"').to_owned(),
            toml,
            identity: evenkeel_host::sha256(format!("{rules:?}")),
            rules,
            origins: BTreeMap::new(),
            warm_start_steps: settings["warm_start.steps"].parse().unwrap(),
        }
    }

    pub(super) fn record(&self) -> RecipeRecord<'_> {
        RecipeRecord {
            name: &self.name,
            toml: &self.toml,
            identity: &self.identity,
            rules: &self.rules,
            origins: &self.origins,
            aggregation: None,
            warm_start_steps: self.warm_start_steps,
        }
    }
}

fn own_pair((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

/// Begins the run of a directory, which reads nothing.
pub(super) fn begin(directory: &RunDirectory) {
    let record = InputRecord::new(TestRecipe::new(&[]).rules, Vec::new());
    begin_with(directory, &record);
}

/// Begins the run of a directory with a record of what it reads.
pub(super) fn begin_with(directory: &RunDirectory, record: &InputRecord) {
    directory.replace_json(INPUTS_FILE, record).unwrap();
    directory.start_run().unwrap();
}
