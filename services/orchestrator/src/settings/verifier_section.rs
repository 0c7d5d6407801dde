//! A custom verifier, as settings declare it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A custom verifier: anything that speaks `evenkeel.v1.Reward` and judges custom tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerifierSettings {
    /// Its workers: `http://HOST:PORT` or `https://HOST:PORT` each, or `dns://HOST:PORT` for every address behind a name.
    pub endpoints: Vec<String>,
    /// Which rows it judges in addition to those that name it: those whose column `data_source` is one of these, or begins with the part
    /// before the `*` of one that ends in `*`.
    pub data_sources: Vec<String>,
}
