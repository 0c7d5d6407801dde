//! What a run directory is told of the recipe of its run.

use std::collections::BTreeMap;

use crate::inputs::Rules;

/// A recipe as a run directory knows it.
#[derive(Debug, Clone, Copy)]
pub struct RecipeRecord<'a> {
    /// Name of the run; empty takes that of its directory.
    pub name: &'a str,
    /// All sections as TOML.
    pub toml: &'a str,
    /// Digest of everything that decides what the run computes. A run is resumed with the same one only.
    pub identity: &'a str,
    /// Everything that `identity` is the digest of, by the keys of a recipe.
    pub rules: &'a Rules,
    /// Where each setting was written, as far as is known.
    pub origins: &'a BTreeMap<String, String>,
    /// The rule by which token terms are summed, where the recipe names one.
    pub aggregation: Option<&'a str>,
    /// Supervised steps before the first GRPO step.
    pub warm_start_steps: u64,
}
