//! What audited samples say of the engines' weights, and which suspicions they are to be tested for.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_statistics::evidence::SuspectedToken;

use super::engine::{EngineEvidence, SupportedSuspicion};
use super::engines::EnginesEvidence;
use super::suspicion::{ProofVersions, Suspicion};

impl EnginesEvidence {
    /// Notes that an audited sample of an engine has the learner's bits, which excludes every suspicion.
    pub(crate) fn note_equal_sample(&mut self, engine: &str) {
        self.equal.insert(engine.to_owned());
    }

    /// The engine, where suspicions of its samples are tested: its noise is known, and neither bits nor digests have
    /// decided.
    pub(crate) fn tested_by_samples(&self, engine: &str) -> Option<&EngineEvidence> {
        let known = self.all.get(engine).filter(|evidence| evidence.calibrated().is_some());
        known.filter(|evidence| !evidence.is_exact_by_digest() && !self.equal.contains(engine))
    }

    /// Suspicions that samples of a version by these engines are to be tested for, those first that were looked at
    /// least: all that are not excluded for each of them, or one of all.
    pub(crate) fn sample_turn(
        &self,
        suspicions: &[Suspicion],
        engines: &BTreeSet<&str>,
        versions: ProofVersions,
    ) -> Vec<Suspicion> {
        let is_open = |suspicion: &Suspicion| engines.iter().any(|engine| !self.excludes(engine, suspicion));
        // What is mirrored is looked at with what it mirrors.
        let mirror = |suspicion: &Suspicion| {
            suspicions.iter().any(|other| other.mirrored().as_ref() == Some(suspicion) && is_open(other))
        };
        let possible = suspicions.iter().filter(|suspicion| suspicion.weights(versions).is_some());
        let mut ordered: Vec<&Suspicion> = possible.collect();
        ordered.sort_by_key(|suspicion| self.looked.get(*suspicion).copied().unwrap_or_default());
        let open: Vec<_> = ordered.iter().filter(|suspicion| is_open(suspicion) || mirror(suspicion)).collect();
        let turn = if open.is_empty() { ordered.iter().take(1).collect() } else { open };
        turn.into_iter().map(|suspicion| (*suspicion).clone()).collect()
    }

    /// Notes that the turn of a suspicion has come.
    pub(crate) fn note_turn(&mut self, suspicion: &Suspicion) {
        *self.looked.entry(suspicion.clone()).or_default() += 1;
    }

    /// Adds what samples of engines say of a suspicion. Returns the first engine at fault.
    pub(crate) fn add_samples(
        &mut self,
        suspicion: &Suspicion,
        samples: &BTreeMap<&str, Vec<Vec<SuspectedToken>>>,
    ) -> Option<(String, SupportedSuspicion)> {
        samples.iter().find_map(|(engine, samples)| {
            let supported = self.all.get_mut(*engine)?.add_samples(suspicion, samples)?;
            Some(((*engine).to_owned(), supported))
        })
    }

    /// The suspicions that samples of these engines do not exclude.
    pub(crate) fn open_in_samples<'a>(
        &self,
        suspicions: &'a [Suspicion],
        engines: &BTreeSet<String>,
    ) -> Vec<&'a Suspicion> {
        let is_open = |suspicion: &&Suspicion| engines.iter().any(|engine| !self.excludes(engine, suspicion));
        suspicions.iter().filter(is_open).collect()
    }

    /// About how many more audited tokens decide these suspicions of these engines.
    pub(crate) fn sample_tokens_needed(&self, open: &[&Suspicion], engines: &BTreeSet<String>) -> Option<f64> {
        let engines = engines.iter().filter_map(|engine| self.all.get(engine));
        let needed = engines.flat_map(|engine| open.iter().filter_map(|open| engine.sample_tokens_needed(open)));
        needed.reduce(f64::max)
    }

    /// The evidence that speaks most for a fault of an engine's samples.
    #[cfg(test)]
    pub(crate) fn strongest_in_samples(&self) -> f64 {
        self.all.values().map(EngineEvidence::strongest_in_samples).fold(1.0, f64::max)
    }

    fn excludes(&self, engine: &str, suspicion: &Suspicion) -> bool {
        let by_bets = |evidence: &EngineEvidence| evidence.is_excluded_by_samples(suspicion);
        self.equal.contains(engine) || self.all.get(engine).is_some_and(by_bets)
    }
}
