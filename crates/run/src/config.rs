//! What the settings of a run say to those who know no service: `config.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

/// What of a run is planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RunPlan {
    /// GRPO steps in all.
    pub steps: u64,
    /// Seed of all randomness.
    pub seed: u64,
}

impl RunPlan {
    /// Reads the section `run` of `config.toml` and ignores all others. Steps and seed are 0 if it cannot be read.
    pub fn of(config: &str) -> Self {
        let mut table: Table = config.parse().unwrap_or_default();
        table.remove("run").and_then(|run| run.try_into().ok()).unwrap_or_default()
    }
}

/// All values of a table by their whole keys, as TOML writes them: `run.seed` is `3`.
pub fn flat_settings(table: &Table) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    flatten(&mut values, "", table);
    values
}

fn flatten(values: &mut BTreeMap<String, String>, prefix: &str, table: &Table) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::Table(inner) => flatten(values, &format!("{key}."), inner),
            value => {
                values.insert(key, value.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_without_the_settings_of_other_services() {
        let config = "[run]\nsteps = 7\nseed = 3\ntensorboard = true\n[engine]\nthreads = 2\n";
        assert_eq!(RunPlan::of(config), RunPlan { steps: 7, seed: 3 });
        assert_eq!(RunPlan::of("no toml"), RunPlan::default());
    }
}
