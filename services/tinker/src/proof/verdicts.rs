//! What proofs have found, for clients that ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Versions that are remembered.
const KEPT: usize = 1024;

/// What is known of weights that engines have loaded. A proof that fails is an error instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Verified(String),
    /// Scores of given text are those of the weights. Samples were not tested, and an engine may draw them from others.
    ScoresAlone(String),
    Undecided(String),
}

impl Verdict {
    /// From the sentence in which a proof by scores concludes. Where they are `exact`, digests of the tensors prove the
    /// process that draws, too.
    pub(super) fn of_scores(conclusion: &str, exact: bool) -> Self {
        match conclusion.strip_prefix("verified ") {
            Some(how) if exact => Self::Verified(how.to_owned()),
            Some(how) => Self::ScoresAlone(format!("samples not tested; scores are verified {how}")),
            None => Self::Undecided(conclusion.strip_prefix("undecided: ").unwrap_or(conclusion).to_owned()),
        }
    }

    /// The state and its reason, as clients read them.
    pub(crate) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Verified(how) => ("verified", how),
            Self::ScoresAlone(why) | Self::Undecided(why) => ("undecided", why),
        }
    }
}

/// The last verdict on each version of the weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts(Arc<Mutex<BTreeMap<u64, Verdict>>>);

impl Verdicts {
    pub(super) fn note(&self, version: u64, verdict: Verdict) {
        let mut all = self.lock();
        all.insert(version, verdict);
        while all.len() > KEPT {
            all.pop_first();
        }
    }

    pub(super) fn forget(&self, version: u64) {
        self.lock().remove(&version);
    }

    pub(crate) fn of(&self, version: u64) -> Option<Verdict> {
        self.lock().get(&version).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Verdict>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conclusion_is_taken_apart() {
        let parts = |conclusion: &str, exact: bool| {
            let verdict = Verdict::of_scores(conclusion, exact);
            let (state, why) = verdict.parts();
            format!("{state}: {why}")
        };
        assert_eq!(parts("verified on 1 engine", true), "verified: on 1 engine");
        let alone = "undecided: samples not tested; scores are verified on 1 engine";
        assert_eq!(parts("verified on 1 engine", false), alone);
        assert_eq!(parts("undecided: nothing loaded", true), "undecided: nothing loaded");
        assert_eq!(parts("", true), "undecided: ", "what is not said is not verified");
    }

    #[test]
    fn the_newest_versions_are_remembered() {
        let verdicts = Verdicts::default();
        (0..2000).for_each(|version| verdicts.note(version, Verdict::Undecided(String::new())));
        assert_eq!((verdicts.of(0), verdicts.lock().len()), (None, KEPT));
        assert!(verdicts.of(1999).is_some());
    }
}
