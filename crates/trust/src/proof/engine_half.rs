//! The engines' half of a proof: their scores of the same text, and what follows from them.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{DueProof, WeightsProof};
use crate::engine_type::EngineType;
use crate::evidence::weights::{ProofReport, ProofVersions, ScoredText, Suspicion, check_f32, check_model, slope};
use crate::fault::WeightsFault;
use crate::scorer::{EngineScorer, EngineScores, LearnerScorer};

/// Further text of the first proof of an engine, where what it says goes along with the adapter and is not decided.
const MORE_TEXTS: usize = 4;

/// Suspicions about how much of the adapters an engine adds.
const ABOUT_ADAPTERS: [Suspicion; 2] = [Suspicion::Base, Suspicion::Excess];

impl WeightsProof {
    /// Judges the weights that the engines have now. Engines that are new are calibrated first; where one is further
    /// off than its noise, the learner scores the text under the weights of every suspicion.
    ///
    /// # Errors
    /// An engine that computes another model, or against which the evidence has decided; what the scorers say.
    #[tracing::instrument(name = "proof", skip_all, fields(version = due.versions.current))]
    pub async fn prove<L: LearnerScorer, E: EngineScorer<Error = L::Error>>(
        &self,
        due: DueProof,
        learner: &L,
        engines: &E,
    ) -> Result<ProofReport, L::Error> {
        let began = Instant::now();
        let DueProof { versions, mut text } = due;
        let scores = engines.score(&text.sequences).await?;
        check_model(versions, &text, &scores, self.tolerance())?;
        let new = self.state().engines.new_among(&scores);
        if !new.is_empty() {
            self.calibrate(&text, &new, &scores, engines).await?;
        }
        let is_suspicious = self.state().engines.are_suspicious(&text, &scores);
        if is_suspicious || (!new.is_empty() && versions.current != versions.anchor) {
            let all = self.state().rotation.all().to_vec();
            self.suppose(&mut text, versions, &all, learner).await?;
        }
        self.add(versions, &text, &scores)?;
        for number in 1..=MORE_TEXTS {
            if !ABOUT_ADAPTERS.iter().any(|suspicion| self.state().engines.lean_to(suspicion, &new)) {
                break;
            }
            let Some(further) = self.further_text(versions, &text, number, learner).await? else { break };
            let scores = engines.score(&further.sequences).await?;
            self.add(versions, &further, &scores)?;
        }
        // What the bets have named is said before.
        if text.impossible.is_none() && self.settings.engine_type.is_none_or(|kind| kind == EngineType::F32) {
            check_f32(versions, &text, &scores)?;
        }
        let state = self.state();
        let mut report = state.engines.report(state.rotation.all(), &text, &scores);
        report.took += began.elapsed();
        Ok(report)
    }

    /// Adds what engines say of a text to the evidence.
    ///
    /// # Errors
    /// An engine at fault.
    fn add(&self, versions: ProofVersions, text: &ScoredText, scores: &[EngineScores]) -> Result<(), WeightsFault> {
        let Some((engine, supported)) = self.state().engines.add(text, scores) else {
            self.verified().proven.extend(scores.iter().map(|scores| scores.engine.clone()));
            return Ok(());
        };
        let message = supported.suspicion.explain(supported.share, versions.anchor);
        Err(WeightsFault::Unproven { engine, version: versions.current, message })
    }

    /// Measures the noise of engines that are new, in several batches of the same text: how rows are batched is part of
    /// an engine's noise. What goes along with the adapter is not: an engine that lacks a part of it would pass for a
    /// noisy one. `scores`: what they said of the text.
    async fn calibrate<E: EngineScorer>(
        &self,
        text: &ScoredText,
        new: &[String],
        scores: &[EngineScores],
        engines: &E,
    ) -> Result<(), E::Error> {
        let base = text.supposed.get(&Suspicion::Base);
        let of_new = scores.iter().filter(|scores| new.contains(&scores.engine));
        let shares: BTreeMap<String, f64> = of_new
            .map(|engine| {
                let share = base.map_or(0.0, |base| slope(&text.learner, &engine.scores, base));
                (engine.engine.clone(), share)
            })
            .collect();
        for batch in calibration_batches(text.sequences.len()) {
            let learner = picked(&text.learner, &batch);
            let base = base.map(|base| picked(base, &batch));
            let scores = engines.score(&picked(&text.sequences, &batch)).await?;
            self.state().engines.calibrate(&shares, &learner, base.as_ref(), &scores);
        }
        let sentences = self.state().engines.what_they_will_show(new, text);
        sentences.into_iter().for_each(|sentence| self.remarks.note(sentence));
        Ok(())
    }
}

/// Sequences that are scored together: all in another order, each half, and single ones.
fn calibration_batches(count: usize) -> impl Iterator<Item = Vec<usize>> {
    let larger = [(0..count).rev().collect(), (0..count / 2).collect(), (count / 2..count).collect()];
    let alone = (0..count.min(2)).map(|alone| vec![alone]);
    larger.into_iter().chain(alone).filter(|batch: &Vec<usize>| !batch.is_empty())
}

fn picked<T: Clone>(all: &[T], batch: &[usize]) -> Vec<T> {
    batch.iter().map(|&at| all[at].clone()).collect()
}
