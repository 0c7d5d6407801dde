//! The proof of weights in a run: when learner and engines are asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::WeightsRef;
use evenkeel_trust::{ProbeText, ProofReport, TensorGroup, WeightsProof};

use super::engine_scorer::RunEngines;
use super::equality::Equality;
use super::learner_scorer::RunLearner;
use super::remarks;
use crate::clients::Services;
use crate::data::Prompts;
use crate::error::Halt;
use crate::events::Activity;
use crate::rollout::{EngineWeights, SampledGroup, StepBatch};
use crate::run::run_context::RunContext;

/// Prompts that the first proofs take their text from.
const PROBE_PROMPTS: usize = 1024;

/// What is known of the engines whose samples were trained on.
pub(in crate::run) struct TrainedEngines {
    /// How many no proof has reached.
    pub(in crate::run) unverified: u64,
    /// How many failure modes the audited samples of all exclude.
    pub(in crate::run) excluded: u64,
}

/// Checks the weights of the engines.
pub(in crate::run) struct RunProof {
    proof: Arc<WeightsProof>,
    services: Arc<Services>,
    weights: Arc<EngineWeights>,
    /// Where it holds, nothing else is asked.
    equality: Arc<Equality>,
    /// Whether the learner's scores of the weights that the run began with are noted.
    has_begun: AtomicBool,
    /// The version of these weights, until their scores are asked for.
    begins_with: Mutex<Option<u64>>,
    /// The temperature of the run, at which each engine also samples a token after each sequence.
    temperature: f32,
    /// Whether an engine may know which samples are audited.
    nonce_is_fixed: bool,
    /// Engines that an earlier process of the run has not verified. Nobody knows whether they are among those of this one.
    unverified_before: AtomicU64,
}

impl RunProof {
    /// Proofs over the text of a run. `tokens` is what the model can take at once.
    pub(in crate::run) fn new(
        context: &RunContext,
        weights: Arc<EngineWeights>,
        tokens: usize,
        prompts: &Prompts,
        equality: Arc<Equality>,
    ) -> Self {
        let RunContext { settings, tokenizer, vocabulary_size, .. } = context;
        let prompts = prompts.train.iter().take(PROBE_PROMPTS).map(|prompt| Arc::clone(&prompt.token_ids)).collect();
        let vocabulary = tokenizer.vocabulary_size().min(*vocabulary_size);
        let plain = tokenizer.clone();
        let text = ProbeText::new(settings.run.seed, prompts, vocabulary, move |id| plain.is_plain(id));
        let remarks = remarks(context.services.events());
        Self {
            proof: Arc::new(WeightsProof::new(settings.proof.clone(), tokens, text, remarks)),
            services: context.services(),
            weights,
            equality,
            has_begun: AtomicBool::new(false),
            begins_with: Mutex::default(),
            temperature: settings.sampling.temperature,
            nonce_is_fixed: settings.sampler_audit.nonce.is_some(),
            unverified_before: AtomicU64::new(0),
        }
    }

    /// What is known of the engines, which the sampler audit needs as well.
    pub(in crate::run) fn shared(&self) -> Arc<WeightsProof> {
        Arc::clone(&self.proof)
    }

    /// Whether engines have the learner's bits.
    pub(in crate::run) fn equality(&self) -> &Arc<Equality> {
        &self.equality
    }

    /// The version of which the learner must keep the published folder, if any: the one that this process began with.
    pub(in crate::run) fn anchor(&self) -> Option<u64> {
        self.proof.anchor().filter(|_| self.has_begun.load(Ordering::Relaxed))
    }

    /// One sentence for the end of a run: what is proven of its weights. `None` where proofs are off.
    pub(in crate::run) fn conclusion(&self) -> Option<String> {
        let found = if self.equality.holds() { Some(self.equality.conclusion()) } else { self.proof.conclusion() };
        let foretold = "undecided: sampler_audit.nonce is set, so that an engine may know which samples are audited";
        if self.nonce_is_fixed { found.map(|_| foretold.to_owned()) } else { found }
    }

    /// Notes the engines whose samples were trained on in a step. Returns what is known of all so far; `None` where
    /// nobody is asked for a proof.
    pub(in crate::run) fn note_trained(&self, batch: &StepBatch) -> Option<TrainedEngines> {
        if self.equality.holds() || !self.proof.is_on() {
            return None;
        }
        let samples = batch.groups.iter().flat_map(SampledGroup::samples);
        let engines = samples.flat_map(|sample| sample.engines.iter().map(String::as_str));
        let before = self.unverified_before.load(Ordering::Relaxed);
        let unverified = before.max(self.proof.note_trained(engines) as u64);
        Some(TrainedEngines { unverified, excluded: self.proof.excluded_by_samples() as u64 })
    }

    /// Notes how many engines an earlier process of the run has not verified.
    pub(in crate::run) fn goes_on_with(&self, unverified: u64) {
        self.unverified_before.store(unverified, Ordering::Relaxed);
    }

    /// A run begins with these weights, or returns to them. The first proof asks for the learner's scores of them, while
    /// samples are drawn already.
    pub(in crate::run) fn begin_with(&self, version: u64) {
        self.has_begun.store(false, Ordering::Relaxed);
        *self.begins_with() = Some(version);
    }

    fn begins_with(&self) -> MutexGuard<'_, Option<u64>> {
        self.begins_with.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the learner's scores of the weights that it has.
    async fn begin(&self, version: u64) -> Result<(), Halt> {
        let begins = self.proof.is_on() && !self.equality.holds();
        self.has_begun.store(begins, Ordering::Relaxed);
        if !begins {
            return Ok(());
        }
        let groups = self.services.learner().status().await?.tensor_groups;
        let groups: Vec<_> = groups.into_iter().map(tensor_group).collect();
        let _during = self.services.events().during(Activity::Proving);
        self.proof.begin(version, &groups, &self.learner()).await
    }

    /// Notes the learner's scores of its weights after `steps` steps, where a proof of them is due; `answers` are
    /// prompts with their answers of the newest step.
    pub(in crate::run) async fn note(
        &self,
        version: u64,
        steps: u64,
        answers: impl FnOnce() -> Vec<Vec<u32>>,
    ) -> Result<(), Halt> {
        if self.equality.holds() || !self.proof.is_on() {
            return Ok(());
        }
        if !self.has_begun.load(Ordering::Relaxed) {
            // Engines that compute otherwise have joined.
            return self.begin(version).await;
        }
        if !self.proof.is_due(steps) {
            return Ok(());
        }
        let answers = answers();
        let _during = self.services.events().during(Activity::Proving);
        self.proof.note(version, answers, &self.learner()).await
    }

    /// Checks the weights that the engines have now, if the learner's scores of them are noted.
    pub(in crate::run) async fn prove(&self, weights: &WeightsRef) -> Result<Option<ProofReport>, Halt> {
        let begins_with = self.begins_with().take();
        if let Some(version) = begins_with {
            self.begin(version).await?;
        }
        let has_begun = self.has_begun.load(Ordering::Relaxed);
        let Some(due) = self.proof.take_due(weights.version).filter(|_| has_begun) else { return Ok(None) };
        let _during = self.services.events().during(Activity::Proving);
        let engines = RunEngines {
            generation: self.services.generation(),
            weights: &self.weights,
            reference: weights,
            temperature: self.temperature,
            equality: &self.equality,
        };
        self.proof.prove(due, &self.learner(), &engines).await.map(Some)
    }

    fn learner(&self) -> RunLearner<'_> {
        RunLearner(self.services.learner())
    }
}

/// A group of tensors by the learner's name for it.
fn tensor_group(name: String) -> TensorGroup {
    if name == BASE_GROUP { TensorGroup::Adapters } else { TensorGroup::Named(name) }
}
