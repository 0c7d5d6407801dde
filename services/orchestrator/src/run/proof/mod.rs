//! Proof of weights: learner and engines score the same tokens after an update.
//!
//! A version is only a label: an engine may carry the new one and go on with old weights, with some old tensors, or
//! with another model. So in every step a few hundred tokens of the run's own text are scored by both. Each way of
//! having other weights is a [`Suspicion`] that predicts how the engine's scores would differ; [`EngineEvidence`] says
//! whether they do. The learner's side is computed with the published tensors, rounded as engines get them.

mod engine_evidence;
mod engines;
mod probe_text;
mod report;
mod scored;
mod suspicion;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_proto::v1::{ScoreWeights, WeightsRef};

use crate::clients::{NotScored, ProvenEngine, ScoreQuery, Services};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::{Activity, Event};
use crate::rollout::EngineWeights;
use crate::settings::{LoopSettings, ProofSettings};
use crate::text::Tokenizer;
pub(super) use engine_evidence::CalibratedNoise;
use engine_evidence::slope;
use engines::Engines;
use probe_text::{ProbeSize, ProbeText};
pub(super) use report::ProofReport;
use scored::{Gap, ScoredText, Scores};
use suspicion::{Rotation, Suspicion, Versions};

/// Further text of the first proof of an engine, where what it says goes along with the adapter and is not decided.
const MORE_TEXTS: usize = 4;

/// How often engines that do not have the weights to be checked are updated to them.
const UPDATES: u32 = 10;

/// A mean log-probability of tokens that no model has which computes anything: even random tokens have more than a
/// tenth of it.
const BLOWN_UP: f64 = -200.0;

/// Checks the weights of the engines.
pub(super) struct Proof {
    services: Arc<Services>,
    weights: Arc<EngineWeights>,
    settings: ProofSettings,
    /// The temperature of the run, at which each engine also samples a token after each sequence.
    temperature: f32,
    context: usize,
    text: Mutex<ProbeText>,
    state: Mutex<State>,
}

/// What proofs of this process have found. A new beginning, from a checkpoint, forgets it.
struct State {
    /// The version that this process began with.
    anchor: u64,
    rotation: Rotation,
    engines: Engines,
    /// The learner's scores of versions that the engines get later.
    pending: BTreeMap<u64, ScoredText>,
}

impl State {
    fn new(anchor: u64, groups: &[String], in_turn: u32) -> Self {
        let suspicions = Suspicion::all(groups);
        Self {
            anchor,
            engines: Engines::new(suspicions.len()),
            rotation: Rotation::new(suspicions, in_turn as usize),
            pending: BTreeMap::new(),
        }
    }
}

impl Proof {
    /// A proof over the text of a run, of which `prompts` is what there is before anything is sampled.
    pub(super) fn new(
        services: Arc<Services>,
        weights: Arc<EngineWeights>,
        settings: &LoopSettings,
        tokenizer: &Tokenizer,
        vocabulary_size: u32,
        context: usize,
        prompts: Vec<Arc<[u32]>>,
    ) -> Self {
        let proof = settings.proof.clone();
        Self {
            services,
            weights,
            temperature: settings.sampling.temperature,
            context,
            text: Mutex::new(ProbeText::new(settings.run.seed, prompts, vocabulary_size, tokenizer)),
            state: Mutex::new(State::new(0, &[], proof.contrasts)),
            settings: proof,
        }
    }

    /// The version of which the learner must keep the published folder, if any: the one that this process began with.
    pub(super) fn anchor(&self) -> Option<u64> {
        (self.settings.every > 0).then(|| self.state().anchor)
    }

    /// Notes the learner's scores of the weights that a run begins with, or returns to. What was seen before does not
    /// count any more.
    pub(super) async fn begin(&self, version: u64) -> Result<(), Halt> {
        if self.settings.every == 0 {
            return Ok(());
        }
        let groups = self.services.learner().status().await?.tensor_groups;
        *self.state() = State::new(version, &groups, self.settings.contrasts);
        self.ask_learner(version).await
    }

    /// Notes the learner's scores of its weights after `steps` steps, where a proof of them is due; `answers` are
    /// prompts with their answers of the newest step.
    pub(super) async fn note(
        &self,
        version: u64,
        steps: u64,
        answers: impl FnOnce() -> Vec<Vec<u32>>,
    ) -> Result<(), Halt> {
        if self.settings.every == 0 || !steps.is_multiple_of(self.settings.every) {
            return Ok(());
        }
        self.text().set_answers(answers());
        self.ask_learner(version).await
    }

    /// How much text a proof has. An engine that computes in f32 needs little: every change of a step stands far above
    /// its noise.
    fn size(&self, exact: bool) -> ProbeSize {
        let ProofSettings { sequences, tokens, .. } = self.settings;
        let default = if exact { ProofSettings::EXACT_SIZE } else { ProofSettings::NARROW_SIZE };
        let tokens = tokens.unwrap_or(default.1) as usize;
        // An engine samples one token after each sequence.
        ProbeSize {
            sequences: sequences.unwrap_or(default.0) as usize,
            tokens: tokens.min(self.context.saturating_sub(2)).max(1),
        }
    }

    async fn ask_learner(&self, version: u64) -> Result<(), Halt> {
        let _during = self.services.events().during(Activity::Proving);
        let (versions, turn, size) = {
            let mut state = self.state();
            let exact = state.engines.are_exact();
            let turn = match exact == Some(true) && state.engines.is_proven(state.rotation.all()) {
                true => state.rotation.short_turn(),
                false => state.rotation.turn(),
            };
            (Versions::new(version, state.anchor), turn, self.size(exact.unwrap_or(true)))
        };
        let text = self.score(versions, &turn, size).await?;
        self.state().pending.insert(version, text);
        Ok(())
    }

    /// Text of a version with the learner's scores.
    async fn score(&self, versions: Versions, turn: &[Suspicion], size: ProbeSize) -> Result<ScoredText, Halt> {
        let began = Instant::now();
        let version = versions.current;
        let sequences = self.text().draw(version, size);
        let right = self.published_scores(&sequences, &ScoreWeights { version, ..ScoreWeights::default() }).await?;
        let (learner, impossible) = match right {
            Ok(scores) => (scores, None),
            // The weights in memory are those of the version, before they were rounded.
            Err(reason) => (self.scores_in_memory(version, &sequences).await?, Some(reason.to_string())),
        };
        check_finite(version, &learner)?;
        let supposed = BTreeMap::new();
        let mut text = ScoredText { sequences, learner, supposed, impossible, took: began.elapsed() };
        self.suppose(&mut text, versions, turn).await?;
        text.took = began.elapsed();
        Ok(text)
    }

    /// Adds the scores under the weights that suspicions suppose, as far as the learner can have these weights.
    async fn suppose(&self, text: &mut ScoredText, versions: Versions, suspicions: &[Suspicion]) -> Result<(), Halt> {
        for suspicion in suspicions {
            if text.impossible.is_some() || text.supposed.contains_key(suspicion) {
                continue;
            }
            if let Some(mirrored) = suspicion.mirrored() {
                if let Some(scores) = text.supposed.get(&mirrored) {
                    let scores = scored::towards(&text.learner, scores, -1.0);
                    text.supposed.insert(suspicion.clone(), scores);
                }
                continue;
            }
            let Some(weights) = suspicion.weights(versions) else { continue };
            match self.published_scores(&text.sequences, &weights).await? {
                Ok(scores) => drop(text.supposed.insert(suspicion.clone(), scores)),
                Err(reason) => tracing::debug!(%suspicion, %reason, "not looked at"),
            }
        }
        Ok(())
    }

    async fn published_scores(
        &self,
        sequences: &[Vec<u32>],
        weights: &ScoreWeights,
    ) -> Result<Result<Scores, NotScored>, Halt> {
        let queries: Vec<ScoreQuery> = sequences
            .iter()
            .map(|ids| ScoreQuery {
                prompt: ids[..1].to_vec(),
                response: ids[1..].to_vec(),
                temperature: 1.0,
                sampling: None,
            })
            .collect();
        let rounded_to = self.settings.engine_type.map(|kind| kind.name().to_owned()).unwrap_or_default();
        let weights = ScoreWeights { rounded_to, ..weights.clone() };
        let scores = self.services.learner().score_published(&queries, &weights).await?;
        Ok(scores.map(|all| all.into_iter().map(|sequence| sequence.log_probabilities).collect()))
    }

    async fn scores_in_memory(&self, version: u64, sequences: &[Vec<u32>]) -> Result<Scores, Halt> {
        let items: Vec<_> = sequences.iter().map(|ids| (ids[..1].to_vec(), ids[1..].to_vec())).collect();
        self.services.learner().score(version, &items, 1.0).await
    }

    /// Checks the weights that the engines have now, if the learner's scores of them are recorded.
    pub(super) async fn prove(&self, weights: &WeightsRef) -> Result<Option<ProofReport>, Halt> {
        // Versions that were skipped are not requested again.
        let (pending, versions) = {
            let mut state = self.state();
            state.pending = state.pending.split_off(&weights.version);
            (state.pending.remove(&weights.version), Versions::new(weights.version, state.anchor))
        };
        match pending {
            Some(text) => self.compare(weights, versions, text).await.map(Some),
            None => Ok(None),
        }
    }

    #[tracing::instrument(name = "proof", skip_all, fields(version = weights.version))]
    async fn compare(
        &self,
        weights: &WeightsRef,
        versions: Versions,
        mut text: ScoredText,
    ) -> Result<ProofReport, Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Proving);
        let engines = self.engine_scores(weights, &text.sequences).await?;
        self.check_model(versions, &text, &engines)?;
        let new = self.state().engines.new_among(&engines);
        if !new.is_empty() {
            self.calibrate(weights, &text, &new, &engines).await?;
        }
        let is_suspicious = self.state().engines.are_suspicious(&text, &engines);
        if is_suspicious || (!new.is_empty() && versions.current != versions.anchor) {
            let all = self.state().rotation.all().to_vec();
            self.suppose(&mut text, versions, &all).await?;
        }
        self.add(versions, &text, &engines)?;
        for number in 1..=MORE_TEXTS {
            let about_adapters = [Suspicion::Base, Suspicion::Excess];
            if !about_adapters.iter().any(|suspicion| self.state().engines.lean_to(suspicion, &new)) {
                break;
            }
            let Some(further) = self.further_text(versions, &text, number).await? else { break };
            let engines = self.engine_scores(weights, &further.sequences).await?;
            self.add(versions, &further, &engines)?;
        }
        let state = self.state();
        let mut report = state.engines.report(state.rotation.all(), &text, &engines);
        report.took += began.elapsed();
        Ok(report)
    }

    /// Adds what engines say of a text to the evidence.
    ///
    /// # Errors
    /// An engine at fault.
    fn add(&self, versions: Versions, text: &ScoredText, engines: &[ProvenEngine]) -> Result<(), RunError> {
        match self.state().engines.add(text, engines) {
            None => Ok(()),
            Some((engine, fault)) => {
                let message = fault.suspicion.explain(fault.share, versions.anchor);
                Err(RunError::Unproven { engine, version: versions.current, message })
            }
        }
    }

    /// As much text again, the `number`-th time, with the scores of the published adapter and of its base. `None` where
    /// they are not possible.
    async fn further_text(
        &self,
        versions: Versions,
        text: &ScoredText,
        number: usize,
    ) -> Result<Option<ScoredText>, Halt> {
        let began = Instant::now();
        let version = versions.current;
        let count = text.sequences.len();
        let tokens = text.learner.iter().map(Vec::len).max().unwrap_or(1);
        // Sequences are drawn one after the other.
        let mut sequences = self.text().draw(version, ProbeSize { sequences: (number + 1) * count, tokens });
        let sequences = sequences.split_off((number * count).min(sequences.len()));
        let right = self.published_scores(&sequences, &ScoreWeights { version, ..ScoreWeights::default() }).await?;
        let Ok(learner) = right else { return Ok(None) };
        let supposed = BTreeMap::new();
        let impossible = None;
        let mut further = ScoredText { sequences, learner, supposed, impossible, took: began.elapsed() };
        self.suppose(&mut further, versions, &[Suspicion::Base, Suspicion::Excess]).await?;
        Ok(Some(further))
    }

    /// Refuses an engine whose scores are those of another model: noise does not add up to this.
    fn check_model(&self, versions: Versions, text: &ScoredText, engines: &[ProvenEngine]) -> Result<(), RunError> {
        let tolerance = self.settings.tolerance.unwrap_or(ProofSettings::DEFAULT_TOLERANCE);
        for ProvenEngine { name, scores, .. } in engines {
            let gap = Gap::between(&text.learner, &scores.prompt);
            if gap.mean > tolerance || gap.mean.is_nan() {
                let message = by_adapter(text, &scores.prompt, tolerance, versions)
                    .unwrap_or_else(|| engines::another_model(gap, tolerance));
                return Err(RunError::Unproven { engine: name.clone(), version: versions.current, message });
            }
        }
        Ok(())
    }

    /// Measures the noise of engines that are new, in several batches of the same text: how rows are batched is part of
    /// an engine's noise. What goes along with the adapter is not: an engine that lacks a part of it would pass for a
    /// noisy one. `engines`: what they said of the text.
    async fn calibrate(
        &self,
        weights: &WeightsRef,
        text: &ScoredText,
        new: &[String],
        engines: &[ProvenEngine],
    ) -> Result<(), Halt> {
        let count = text.sequences.len();
        let base = text.supposed.get(&Suspicion::Base);
        let of_new = engines.iter().filter(|engine| new.contains(&engine.name));
        let shares: BTreeMap<String, f64> = of_new
            .map(|engine| {
                let share = base.map_or(0.0, |base| slope(&text.learner, &engine.scores.prompt, base));
                (engine.name.clone(), share)
            })
            .collect();
        let mut batches: Vec<Vec<usize>> =
            vec![(0..count).rev().collect(), (0..count / 2).collect(), (count / 2..count).collect()];
        batches.extend((0..count.min(2)).map(|alone| vec![alone]));
        for batch in batches.into_iter().filter(|batch| !batch.is_empty()) {
            let pick = |all: &[Vec<u32>]| batch.iter().map(|&at| all[at].clone()).collect::<Vec<_>>();
            let scores = |all: &Scores| -> Scores { batch.iter().map(|&at| all[at].clone()).collect() };
            let learner = scores(&text.learner);
            let base = base.map(scores);
            let engines = self.engine_scores(weights, &pick(&text.sequences)).await?;
            self.state().engines.calibrate(&shares, &learner, base.as_ref(), &engines);
        }
        for message in self.state().engines.what_they_will_show(new, text) {
            self.services.events().emit(Event::Note { message });
        }
        Ok(())
    }

    /// The scores of every engine. Engines that lost the weights since they were updated to them, as with a restart of
    /// the generation service, are updated to them again.
    async fn engine_scores(&self, weights: &WeightsRef, sequences: &[Vec<u32>]) -> Result<Vec<ProvenEngine>, Halt> {
        let generation = self.services.generation();
        for _ in 0..UPDATES {
            let seen = self.weights.seen().await.updates;
            let scores = generation.prove_weights(weights.version, sequences, self.temperature).await?;
            match scores {
                Some(scores) => return Ok(scores),
                None => self.weights.restore(Some(weights), seen).await?,
            };
        }
        let message =
            format!("the engines were updated to version {} {UPDATES} times and have another one", weights.version);
        Err(RunError::Refused { service: Dependency::Generation, what: "ProveWeights".to_owned(), message }.into())
    }

    /// One sentence for the end of a run: what is proven of its weights. `None` where proofs are off.
    pub(super) fn conclusion(&self) -> Option<String> {
        (self.settings.every > 0).then(|| {
            let state = self.state();
            state.engines.conclusion(state.rotation.all())
        })
    }

    /// The noise of an engine with the right weights; `None` before it was calibrated.
    pub(super) fn noise_of(&self, engine: &str) -> Option<CalibratedNoise> {
        self.state().engines.noise_of(engine)
    }

    fn text(&self) -> MutexGuard<'_, ProbeText> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with an engine that is far off, where nothing is but how much of the adapter it adds.
fn by_adapter(text: &ScoredText, engine: &Scores, tolerance: f64, versions: Versions) -> Option<String> {
    let base = text.supposed.get(&Suspicion::Base)?;
    let share = slope(&text.learner, engine, base);
    let rest = Gap::between(&scored::towards(&text.learner, base, share), engine);
    let suspicion = if share > 0.0 { Suspicion::Base } else { Suspicion::Excess };
    // What an adapter does is not proportional to how much of it is added: three quarters of the squared gap are
    // enough.
    let most = Gap::between(&text.learner, engine).root_mean_square / 2.0;
    let is_all = rest.mean <= tolerance || rest.root_mean_square <= most;
    is_all.then(|| suspicion.explain(share.abs(), versions.anchor))
}

/// Refuses weights that have blown up: what the learner itself says of the text is no language model's any more.
fn check_finite(version: u64, learner: &Scores) -> Result<(), RunError> {
    let scores = || learner.iter().flatten().map(|score| f64::from(*score));
    let mean = scores().sum::<f64>() / scores().count().max(1) as f64;
    match mean.is_finite() && mean > BLOWN_UP {
        true => Ok(()),
        false => Err(RunError::Diverged { version, mean }),
    }
}
