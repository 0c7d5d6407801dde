//! Proof of weights: learner and engines score the same tokens after an update.
//!
//! A version is only a label: an engine may carry the new one and go on with old weights (an update that was lost in the engine, an adapter
//! that never arrived), or compute another model than the learner (a head that is tied on one side, another type). Neither shows in a
//! run's curves for a long time. So a few hundred fixed tokens are scored by both, and judged by [`judge`].

mod history;
mod judge;
mod scores;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_proto::v1::WeightsRef;
use evenkeel_seeds::{RngCore, Stream, rng};

use crate::clients::{ProvenEngine, Services};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::Activity;
use crate::metrics::MetricsLine;
use crate::rollout::EngineWeights;
use crate::settings::{LoopSettings, ProofSettings};
use crate::text::Tokenizer;
use history::History;
use judge::{Agreement, WeightComparison};
use scores::TokenScores;

/// Draws for one token before any id is taken: a vocabulary has few special tokens.
const ATTEMPTS: u32 = 64;

/// How often engines that do not have the weights to be checked are updated to them.
const UPDATES: u32 = 10;

/// Checks the weights of the engines.
pub(super) struct Proof {
    services: Arc<Services>,
    weights: Arc<EngineWeights>,
    every: u64,
    sequences: Vec<Vec<u32>>,
    /// The temperature of the run, at which each engine also samples a token after each sequence.
    temperature: f32,
    judge: WeightComparison,
    history: Mutex<History>,
    /// The learner's scores of versions that the engines get later.
    pending_scores: Mutex<BTreeMap<u64, PendingScores>>,
}

/// The learner's scores of a version.
struct PendingScores {
    scores: TokenScores,
    /// What scoring took.
    took: Duration,
}

/// What a proof found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ProofReport {
    engines: usize,
    mean_gap: f64,
    max_gap: f64,
    /// Mean change of the scores since the proof before: of the engine that changed least, and of the learner.
    change: Option<(f64, f64)>,
    took: Duration,
}

impl Proof {
    /// A proof over tokens of the run's own, which follow from its seed and vocabulary.
    pub(super) fn new(
        services: Arc<Services>,
        weights: Arc<EngineWeights>,
        settings: &LoopSettings,
        tokenizer: &Tokenizer,
        vocabulary_size: u32,
        context: usize,
    ) -> Self {
        let proof = &settings.proof;
        let length = (proof.tokens as usize).min(context.saturating_sub(1));
        Self {
            services,
            weights,
            every: proof.every,
            sequences: sequences(settings.run.seed, tokenizer, vocabulary_size, proof.sequences, length),
            temperature: settings.sampling.temperature,
            judge: WeightComparison::new(
                proof.tolerance.unwrap_or(ProofSettings::DEFAULT_TOLERANCE),
                settings.sampling.temperature,
            ),
            history: Mutex::default(),
            pending_scores: Mutex::default(),
        }
    }

    /// Notes the learner's scores of the weights that a run begins with, or returns to. What was seen before does not count any more.
    pub(super) async fn begin(&self, version: u64) -> Result<(), Halt> {
        *self.history() = History::default();
        self.pending_scores().clear();
        if self.every > 0 {
            self.ask_learner(version).await?;
        }
        Ok(())
    }

    /// Notes the learner's scores of its weights after `steps` steps, where a proof of them is due. It cannot be asked later, once it has
    /// trained on.
    pub(super) async fn note(&self, version: u64, steps: u64) -> Result<(), Halt> {
        match self.every > 0 && steps.is_multiple_of(self.every) {
            true => self.ask_learner(version).await,
            false => Ok(()),
        }
    }

    async fn ask_learner(&self, version: u64) -> Result<(), Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Proving);
        let scores = self.learner_scores(version).await?;
        self.pending_scores().insert(version, PendingScores { scores, took: began.elapsed() });
        Ok(())
    }

    /// Checks the weights that the engines have now, if the learner's scores of them are recorded. `learner_waits`: the learner still has
    /// them, so that it can score the tokens that engines sample as well.
    pub(super) async fn prove(&self, weights: &WeightsRef, learner_waits: bool) -> Result<Option<ProofReport>, Halt> {
        // Versions that were skipped are not requested again.
        let pending = {
            let mut pending = self.pending_scores();
            *pending = pending.split_off(&weights.version);
            pending.remove(&weights.version)
        };
        match pending {
            Some(pending) => self.compare(weights, pending, learner_waits).await.map(Some),
            None => Ok(None),
        }
    }

    #[tracing::instrument(name = "proof", skip_all, fields(version = weights.version))]
    async fn compare(
        &self,
        weights: &WeightsRef,
        pending: PendingScores,
        learner_waits: bool,
    ) -> Result<ProofReport, Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Proving);
        let (version, learner) = (weights.version, pending.scores);
        let engines = self.engine_scores(weights).await?;
        let sampled = match learner_waits {
            true => self.sampled_scores(version, &engines).await?,
            false => vec![TokenScores::new(); engines.len()],
        };
        let mut report = ProofReport::default();
        let mut history = self.history();
        for (ProvenEngine { name, scores }, sampled) in engines.iter().zip(&sampled) {
            let verdict = self.judge.judge(&history, name, version, &learner, scores, sampled);
            match verdict {
                Agreement::Agrees { mean, max } => {
                    (report.mean_gap, report.max_gap) = (report.mean_gap.max(mean), report.max_gap.max(max));
                }
                Agreement::Differs(message) => {
                    return Err(RunError::Unproven { engine: name.clone(), version, message }.into());
                }
            }
        }
        report.engines = engines.len();
        report.change = history.add(version, learner, engines, self.judge.resolution());
        report.took = pending.took + began.elapsed();
        Ok(report)
    }

    /// The scores of every engine. Engines that lost the weights since they were updated to them, as with a restart of the generation
    /// service, are updated to them again.
    async fn engine_scores(&self, weights: &WeightsRef) -> Result<Vec<ProvenEngine>, Halt> {
        let generation = self.services.generation();
        for _ in 0..UPDATES {
            let seen = self.weights.seen().await;
            let scores = generation.prove_weights(weights.version, &self.sequences, self.temperature).await?;
            match scores {
                Some(scores) => return Ok(scores),
                None => self.weights.restore(weights, seen).await?,
            };
        }
        let message =
            format!("the engines were updated to version {} {UPDATES} times and have another one", weights.version);
        Err(RunError::Refused { service: Dependency::Generation, what: "ProveWeights".to_owned(), message }.into())
    }

    /// The learner's log-probabilities of every token but the first of each sequence, at temperature 1 as engines score prompts.
    async fn learner_scores(&self, version: u64) -> Result<TokenScores, Halt> {
        let items: Vec<_> = self.sequences.iter().map(|ids| (ids[..1].to_vec(), ids[1..].to_vec())).collect();
        let scores = self.services.learner().score(version, &items, 1.0).await?;
        Ok(scores.into_iter().flatten().collect())
    }

    /// Its log-probabilities of the tokens that each engine sampled, at the temperature of which the engine's are.
    async fn sampled_scores(&self, version: u64, engines: &[ProvenEngine]) -> Result<Vec<TokenScores>, Halt> {
        let mut all = Vec::with_capacity(engines.len());
        for ProvenEngine { scores, .. } in engines {
            let items = self.sequences.iter().zip(&scores.sampled);
            let items: Vec<_> = items.map(|(ids, sampled)| (ids.clone(), vec![sampled.id])).collect();
            let temperature = if scores.raw { 1.0 } else { self.temperature };
            let found = self.services.learner().score(version, &items, temperature).await?;
            all.push(found.into_iter().flatten().collect());
        }
        Ok(all)
    }

    fn pending_scores(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, PendingScores>> {
        self.pending_scores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProofReport {
    /// Adds its values to the metrics line of a step.
    pub(super) fn add_to(&self, line: &mut MetricsLine) {
        line.set("proof/engines", self.engines as f64);
        line.set("proof/mean_gap", self.mean_gap);
        line.set("proof/max_gap", self.max_gap);
        line.set("proof/change", self.change.map(|(engines, _)| engines));
        line.set("proof/learner_change", self.change.map(|(_, learner)| learner));
        line.set("timing_s/proof", self.took.as_secs_f64());
    }
}

/// Sequences of random tokens, the same for a seed and a vocabulary. Special tokens, and ids of the model that the tokenizer does not have,
/// are left out: engines refuse some of them, and others have embeddings that were never trained.
fn sequences(seed: u64, tokenizer: &Tokenizer, vocabulary: u32, count: u32, length: usize) -> Vec<Vec<u32>> {
    let mut random = rng(seed, Stream::WeightsProof);
    let ids = tokenizer.vocabulary_size().min(vocabulary).max(1);
    let mut token = || {
        let mut draw = || (random.next_u64() % u64::from(ids)) as u32;
        (0..ATTEMPTS).map(|_| draw()).find(|&id| tokenizer.is_plain(id)).unwrap_or_default()
    };
    // A score needs a token before it.
    (0..count).map(|_| (0..length.max(2)).map(|_| token()).collect()).collect()
}
