//! Learner and engines as trust asks them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::{ExactProofState, ReplacedTensors, ScoreItem, ScoreWeights};
use evenkeel_trust::{
    EngineScorer, EngineScores, LearnerScorer, LearnerView, NotScored, PromptedResponse, PublishedWeights,
    SampledDistribution, TensorGroup, TokenScores, WeightsFault,
};

use crate::backend::Backend;
use crate::error::Failure;

/// Which versions were loaded, by the numbers of the loads: the first, the one before the last, the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loads([(u64, u64); 3]);

impl Loads {
    /// The load of the base, which has the number 0.
    pub(super) fn begin(version: u64) -> Self {
        Self::single(0, version)
    }

    pub(super) fn single(load: u64, version: u64) -> Self {
        Self([(load, version); 3])
    }

    pub(super) fn add(&mut self, version: u64) {
        let Self([_, before, last]) = self;
        *before = *last;
        *last = (last.0 + 1, version);
    }

    pub(super) fn last(&self) -> u64 {
        self.0[2].0
    }

    fn version(&self, load: u64) -> Result<u64, NotScored> {
        let found = self.0.iter().find(|(number, _)| *number == load);
        found.map(|(_, version)| *version).ok_or_else(|| NotScored(format!("load {load} is forgotten")))
    }
}

/// The learner, of whose published weights some were loaded into the engines.
pub(super) struct Learner<'a> {
    backend: &'a Backend,
    loads: &'a Loads,
    /// Why it has no scores at all, neither under published weights nor under those in memory.
    not_scored: Mutex<Option<String>>,
}

impl<'a> Learner<'a> {
    pub(super) fn new(backend: &'a Backend, loads: &'a Loads) -> Self {
        Self { backend, loads, not_scored: Mutex::default() }
    }

    /// Why a call failed although nothing is at fault.
    pub(super) fn not_scored(self) -> Option<String> {
        self.not_scored.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn weights(&self, weights: &PublishedWeights) -> Result<ScoreWeights, NotScored> {
        let replaced = weights.replaced.as_ref().map(|replaced| {
            let group = match &replaced.group {
                TensorGroup::Adapters => BASE_GROUP.to_owned(),
                TensorGroup::Named(name) => name.clone(),
            };
            Ok(ReplacedTensors { group, version: self.loads.version(replaced.version)? })
        });
        Ok(ScoreWeights {
            version: self.loads.version(weights.version)?,
            replaced: replaced.transpose()?,
            rounded_to: weights.rounded_to.map(|kind| kind.name().to_owned()).unwrap_or_default(),
        })
    }
}

impl LearnerScorer for Learner<'_> {
    type Error = Failure;

    async fn score(
        &self,
        sequences: &[Vec<u32>],
        weights: &PublishedWeights,
    ) -> Result<Result<TokenScores, NotScored>, Failure> {
        let weights = match self.weights(weights) {
            Ok(weights) => weights,
            Err(not_scored) => return Ok(Err(not_scored)),
        };
        let item = |ids: &Vec<u32>| ScoreItem { weights: Some(weights.clone()), ..item(ids) };
        Ok(self.backend.scores(sequences.iter().map(item).collect()).await?.map_err(NotScored))
    }

    async fn score_in_memory(&self, sequences: &[Vec<u32>], load: u64) -> Result<TokenScores, Failure> {
        let version = self.loads.version(load).map_err(|NotScored(why)| Failure::server(why))?;
        let item = |ids: &Vec<u32>| ScoreItem { version: Some(version), ..item(ids) };
        self.backend.scores(sequences.iter().map(item).collect()).await?.map_err(|why| {
            *self.not_scored.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
            Failure::server(why)
        })
    }

    async fn view(
        &self,
        _: &[PromptedResponse<'_>],
        _: &PublishedWeights,
        _: &SampledDistribution,
    ) -> Result<Result<LearnerView, NotScored>, Failure> {
        Ok(Err(NotScored("samples are not audited here".to_owned())))
    }
}

/// All tokens but the first, at temperature 1.
fn item(ids: &[u32]) -> ScoreItem {
    let (prompt, response) = ids.split_at(1.min(ids.len()));
    ScoreItem {
        prompt_token_ids: prompt.to_vec(),
        response_token_ids: response.to_vec(),
        temperature: Some(1.0),
        ..ScoreItem::default()
    }
}

/// All engines, which should have one version.
pub(super) struct Engines<'a> {
    backend: &'a Backend,
    version: u64,
    /// Engines that have scored last.
    names: Mutex<Vec<String>>,
    /// Whether digests of their tensors were those that were published.
    are_exact: AtomicBool,
}

impl<'a> Engines<'a> {
    pub(super) fn new(backend: &'a Backend, version: u64) -> Self {
        Self { backend, version, names: Mutex::default(), are_exact: AtomicBool::new(false) }
    }

    /// Whether digests have decided for each engine that has scored last.
    pub(super) fn are_exact(&self) -> bool {
        self.are_exact.load(Ordering::Relaxed)
    }

    pub(super) fn names(self) -> Vec<String> {
        self.names.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineScorer for Engines<'_> {
    type Error = Failure;

    async fn score(&self, sequences: &[Vec<u32>]) -> Result<Vec<EngineScores>, Failure> {
        let engines = self.backend.prove_weights(self.version, sequences).await?;
        let mut scores = Vec::new();
        for engine in engines {
            let name = engine.engine;
            if let Some(failure) = engine.failure {
                return Err(Failure::server(format!("engine {name} could not be verified: {}", failure.message)));
            }
            let exact = engine.exact.unwrap_or_default();
            if exact.state() == ExactProofState::Different {
                let message =
                    format!("{} of {} tensors are not those that were published", exact.different, exact.tensors);
                return Err(WeightsFault::Unproven { engine: name, version: self.version, message }.into());
            }
            let found: TokenScores = engine.scores.into_iter().map(|scores| scores.log_probabilities).collect();
            if !found.iter().map(|scores| scores.len() + 1).eq(sequences.iter().map(Vec::len)) {
                return Err(Failure::server(format!("engine {name} did not score each token that it was given")));
            }
            scores.push(EngineScores {
                engine: name,
                scores: found,
                is_exact: exact.state() == ExactProofState::Equal,
                // Engines that name the learner's arithmetic are proven to the bit instead.
                is_f32: false,
            });
        }
        self.are_exact.store(!scores.is_empty() && scores.iter().all(|scores| scores.is_exact), Ordering::Relaxed);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = scores.iter().map(|s| s.engine.clone()).collect();
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_numbers_of_their_own() {
        let mut loads = Loads::begin(900);
        assert_eq!((loads.last(), loads.version(0)), (0, Ok(900)));
        for (number, version) in [(1, 2000), (2, 1000), (3, 1000)] {
            loads.add(version);
            assert_eq!((loads.last(), loads.version(number)), (number, Ok(version)));
        }
        assert_eq!([0, 2].map(|load| loads.version(load)), [Ok(900), Ok(1000)]);
        assert!(loads.version(1).is_err(), "older ones are not asked for");
    }
}
