//! The proof of engines that compute as the learner does: every score is the learner's to the bit, or the weights are
//! others. Nothing is estimated, so that there are no false alarms.

use super::WeightsProof;
use crate::evidence::weights::check_finite;
use crate::fault::WeightsFault;
use crate::scorer::{EngineScorer, EngineScores, LearnerScorer, PublishedWeights, TokenScores};

impl WeightsProof {
    /// Compares what learner and engines say of the same text of a version. Returns the number of tokens that each
    /// engine has to the bit; `None` where the learner has no scores under the published weights.
    ///
    /// # Errors
    /// An engine with another bit in any score; weights that have blown up; what the scorers say.
    pub async fn prove_equal<L: LearnerScorer, E: EngineScorer<Error = L::Error>>(
        &self,
        version: u64,
        learner: &L,
        engines: &E,
    ) -> Result<Option<usize>, L::Error> {
        let sequences = self.text().draw(version, self.size(true));
        let Ok(wanted) = learner.score(&sequences, &PublishedWeights::of(version)).await? else { return Ok(None) };
        check_finite(version, &wanted)?;
        let found = engines.score(&sequences).await?;
        found.iter().try_for_each(|engine| check_equal(version, &wanted, engine))?;
        self.verified().proven.extend(found.into_iter().map(|engine| engine.engine));
        Ok(Some(wanted.iter().map(Vec::len).sum()))
    }
}

/// Refuses an engine whose scores are not these.
pub(super) fn check_equal(version: u64, wanted: &TokenScores, engine: &EngineScores) -> Result<(), WeightsFault> {
    let found = &engine.scores;
    let tokens: usize = wanted.iter().map(Vec::len).sum();
    let pairs = || wanted.iter().flatten().zip(found.iter().flatten());
    let equal = pairs().filter(|(wanted, found)| wanted.to_bits() == found.to_bits()).count();
    let have_lengths = wanted.iter().map(Vec::len).eq(found.iter().map(Vec::len));
    if equal == tokens && have_lengths {
        return Ok(());
    }
    let largest = pairs().map(|(wanted, found)| (wanted - found).abs()).fold(0.0, f32::max);
    let message = format!(
        "its log-probabilities of {} of {tokens} tokens are not the learner's, by up to {largest:.1e} nats. Both compute \
         with the same arithmetic, so the engine has other weights: check whether it reads the folder of each new version, \
         and whether an adapter never arrived",
        tokens - equal
    );
    Err(WeightsFault::Unproven { engine: engine.engine.clone(), version, message })
}
