//! What earlier proofs found, which shows weights that no longer change.

use std::collections::BTreeMap;

use super::scores::{Gap, TokenScores};
use crate::clients::ProvenEngine;

/// Earlier proofs of this process.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The learner's scores at the first proof, and at the one before.
    pub(super) first: Option<Proven>,
    pub(super) before: Option<Proven>,
    engines: BTreeMap<String, EngineHistory>,
}

/// Scores of a version.
#[derive(Debug, Clone)]
pub(super) struct Proven {
    pub(super) version: u64,
    pub(super) scores: TokenScores,
}

#[derive(Debug)]
struct EngineHistory {
    anchor: Anchor,
    /// At the proof before.
    before: TokenScores,
}

/// The last version at which an engine is known to have followed the learner.
#[derive(Debug, Clone)]
pub(super) struct Anchor {
    pub(super) version: u64,
    pub(super) learner: TokenScores,
    pub(super) engine: TokenScores,
}

impl History {
    /// Where an engine is known to have followed; `None` for one that is new.
    pub(super) fn anchor(&self, engine: &str) -> Option<&Anchor> {
        self.engines.get(engine).map(|history| &history.anchor)
    }

    /// Adds a proof that succeeded. Returns the mean change since the one before, of the engine that changed least and of the learner.
    pub(super) fn add(
        &mut self,
        version: u64,
        learner: TokenScores,
        engines: Vec<ProvenEngine>,
        resolution: f64,
    ) -> Option<(f64, f64)> {
        let before = self.before.as_ref();
        let learner_change = before.map(|before| Gap::between(&before.scores, &learner).mean);
        let changes = engines.iter().filter_map(|engine| {
            let history = self.engines.get(&engine.name)?;
            Some(Gap::between(&history.before, &engine.scores.prompt).mean)
        });
        let least = changes.min_by(f64::total_cmp);
        for ProvenEngine { name, scores } in engines {
            let scores = scores.prompt;
            let anchor = match self.engines.remove(&name) {
                // Until the learner has moved far enough to tell, the old anchor stays.
                Some(history) if Gap::between(&history.anchor.learner, &learner).mean < resolution => history.anchor,
                _ => Anchor { version, learner: learner.clone(), engine: scores.clone() },
            };
            self.engines.insert(name, EngineHistory { anchor, before: scores });
        }
        let proven = Proven { version, scores: learner };
        self.first.get_or_insert_with(|| proven.clone());
        self.before = Some(proven);
        least.zip(learner_change)
    }
}
