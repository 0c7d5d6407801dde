//! The learner's half of a proof: scores of the run's text under the right weights, and under those that suspicions
//! suppose.

use std::time::Instant;

use super::WeightsProof;
use super::probe_text::ProbeSize;
use crate::evidence::weights::{ProofVersions, ScoredText, Suspicion, check_finite, towards};
use crate::scorer::{LearnerScorer, NotScored, PublishedWeights, TokenScores};

impl WeightsProof {
    /// Scores text of a version, and keeps it until the engines have that version.
    pub(super) async fn ask_learner<L: LearnerScorer>(&self, version: u64, learner: &L) -> Result<(), L::Error> {
        let (versions, turn, size) = {
            let mut state = self.state();
            let exact = state.engines.are_exact();
            let is_short = exact == Some(true) && state.engines.is_proven(state.rotation.all());
            let turn = if is_short { state.rotation.short_turn() } else { state.rotation.turn() };
            (ProofVersions::new(version, state.anchor), turn, self.size(exact.unwrap_or(true)))
        };
        let text = self.score(versions, &turn, size, learner).await?;
        self.state().pending.insert(version, text);
        Ok(())
    }

    /// Text of a version with the learner's scores.
    async fn score<L: LearnerScorer>(
        &self,
        versions: ProofVersions,
        turn: &[Suspicion],
        size: ProbeSize,
        learner: &L,
    ) -> Result<ScoredText, L::Error> {
        let began = Instant::now();
        let version = versions.current;
        let sequences = self.text().draw(version, size);
        let mut text = match self.published_scores(&sequences, PublishedWeights::of(version), learner).await? {
            Ok(scores) => ScoredText::new(sequences, scores),
            Err(NotScored(reason)) => {
                // The weights in memory are those of the version, before they were rounded.
                let scores = learner.score_in_memory(&sequences, version).await?;
                ScoredText { impossible: Some(reason), ..ScoredText::new(sequences, scores) }
            }
        };
        check_finite(version, &text.learner)?;
        self.suppose(&mut text, versions, turn, learner).await?;
        text.took = began.elapsed();
        Ok(text)
    }

    /// Adds the scores under the weights that suspicions suppose, as far as the learner can have these weights.
    pub(super) async fn suppose<L: LearnerScorer>(
        &self,
        text: &mut ScoredText,
        versions: ProofVersions,
        suspicions: &[Suspicion],
        learner: &L,
    ) -> Result<(), L::Error> {
        for suspicion in suspicions {
            if text.impossible.is_some() || text.supposed.contains_key(suspicion) {
                continue;
            }
            if let Some(mirrored) = suspicion.mirrored() {
                if let Some(scores) = text.supposed.get(&mirrored) {
                    let scores = towards(&text.learner, scores, -1.0);
                    text.supposed.insert(suspicion.clone(), scores);
                }
                continue;
            }
            let Some(weights) = suspicion.weights(versions) else { continue };
            match self.published_scores(&text.sequences, weights, learner).await? {
                Ok(scores) => drop(text.supposed.insert(suspicion.clone(), scores)),
                Err(NotScored(reason)) => tracing::debug!(%suspicion, %reason, "not looked at"),
            }
        }
        Ok(())
    }

    /// As much text again, the `number`-th time, with the scores of the published adapter and of its base. `None` where
    /// they are not possible.
    pub(super) async fn further_text<L: LearnerScorer>(
        &self,
        versions: ProofVersions,
        text: &ScoredText,
        number: usize,
        learner: &L,
    ) -> Result<Option<ScoredText>, L::Error> {
        let version = versions.current;
        let count = text.sequences.len();
        let tokens = text.learner.iter().map(Vec::len).max().unwrap_or(1);
        // Sequences are drawn one after the other.
        let mut sequences = self.text().draw(version, ProbeSize { sequences: (number + 1) * count, tokens });
        let sequences = sequences.split_off((number * count).min(sequences.len()));
        let right = self.published_scores(&sequences, PublishedWeights::of(version), learner).await?;
        let Ok(scores) = right else { return Ok(None) };
        let mut further = ScoredText::new(sequences, scores);
        self.suppose(&mut further, versions, &[Suspicion::Base, Suspicion::Excess], learner).await?;
        Ok(Some(further))
    }

    /// Scores under published tensors, rounded to the type that engines hold them in.
    async fn published_scores<L: LearnerScorer>(
        &self,
        sequences: &[Vec<u32>],
        weights: PublishedWeights,
        learner: &L,
    ) -> Result<Result<TokenScores, NotScored>, L::Error> {
        let rounded_to = self.settings.engine_type;
        learner.score(sequences, &PublishedWeights { rounded_to, ..weights }).await
    }
}
