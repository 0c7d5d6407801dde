//! The score of an episode, as programs of others say it.

use std::collections::BTreeMap;

use evenkeel_proto::v1::{Outcome, Verdict};
use serde::Deserialize;

use crate::failure::Failure;

/// What a program makes of an episode.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Score {
    pub(crate) reward: f64,
    #[serde(default)]
    pub(crate) components: BTreeMap<String, f64>,
}

impl Score {
    /// As the verdict on an episode.
    ///
    /// # Errors
    /// A reward outside 0 to 1, components outside -1 to 1, names that are none.
    pub(crate) fn verdict(self, id: &str) -> Result<Verdict, Failure> {
        let Self { reward, components } = self;
        let outcome = if reward == 1.0 { Outcome::Correct } else { Outcome::Incorrect };
        let verdict = Verdict { components, ..Verdict::judged(id, outcome, "environment", reward) };
        verdict.validate().map_err(|error| Failure::crashed(format!("score: {error}")))?;
        Ok(verdict)
    }
}
