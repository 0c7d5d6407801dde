//! Proof of the weights that engines have loaded, before anything is sampled from them.
//!
//! Engines that compute as the learner does must have its log-probabilities to the bit. Others are proven as those of a
//! run are, with its powers and false alarms ([`evenkeel_trust`]): each load is what a step is there, and counts as one
//! version. Load 0 is the base model, by which engines are calibrated. Evidence is kept from load to load, until a
//! proof fails.

mod audit;
#[cfg(test)]
mod fake;
mod scorers;
#[cfg(test)]
mod tests;
mod text;
mod verdicts;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_model_folder::Tokenizer;
use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::Rollout;
use evenkeel_trust::{ProbeText, ProofSettings, Remark, RemarkSink, TensorGroup, WeightsProof};

use crate::backend::Backend;
use crate::error::{Failure, WEIGHTS_UNPROVEN};
use crate::store::Weights;
pub(crate) use audit::DrawnSample;
use scorers::{Engines, Learner, Loads};
use text::FreshText;
use verdicts::Verdict;
pub(crate) use verdicts::Verdicts;

/// What the front knows of its model.
pub(crate) struct ProvenModel {
    /// Published by the learner, as adapters that do nothing.
    pub(crate) base: Weights,
    /// Tokens of a sequence, at most.
    pub(crate) context: u32,
    /// Ids are below it.
    pub(crate) vocabulary: u32,
    /// Absent for a model without one.
    pub(crate) tokenizer: Option<Arc<Tokenizer>>,
    /// How the learner computes, by name; empty where no engine has its bits.
    pub(crate) arithmetic: String,
}

/// Loads weights into the engines, and proves that they have them.
pub(crate) struct LoadedWeights {
    backend: Backend,
    model: ProvenModel,
    proof: WeightsProof,
    /// The loads of which engines are asked by evidence; `None` before the first of them.
    loads: Option<Loads>,
    /// Loads that were proven to the bit.
    equal: u64,
    /// Whether the last proof has failed: engines reload nothing under a version that they believe to have.
    is_accused: bool,
    shared: Arc<SharedProof>,
}

/// What those know who sample.
pub(crate) struct SharedProof {
    pub(crate) verdicts: Verdicts,
    pub(crate) text: FreshText,
    /// Engines that were proven since the last load.
    proven: Mutex<BTreeSet<String>>,
    /// Whether another engine has sampled.
    is_due: AtomicBool,
    /// Whether engines have the learner's bits since the last load.
    is_equal: AtomicBool,
    is_on: bool,
}

impl LoadedWeights {
    pub(crate) fn new(backend: Backend, model: ProvenModel, settings: &ProofSettings, verdicts: Verdicts) -> Self {
        let plain = model.tokenizer.clone();
        let is_plain = move |id| plain.as_ref().is_none_or(|text| !text.is_special(id) && text.token(id).is_some());
        let of_tokenizer = model.tokenizer.as_ref().map_or(u32::MAX, |tokenizer| tokenizer.vocabulary_size());
        let seed = RandomState::new().hash_one(model.base.version);
        let text = ProbeText::new(seed, Vec::new(), model.vocabulary.min(of_tokenizer), is_plain);
        let proof = WeightsProof::new(settings.clone(), model.context as usize, text, remarks());
        let shared = SharedProof {
            verdicts,
            text: FreshText::new(model.vocabulary),
            proven: Mutex::default(),
            is_due: AtomicBool::new(false),
            is_equal: AtomicBool::new(false),
            is_on: proof.is_on(),
        };
        Self { backend, model, proof, loads: None, equal: 0, is_accused: false, shared: Arc::new(shared) }
    }

    /// For those who sample.
    pub(crate) fn shared(&self) -> Arc<SharedProof> {
        Arc::clone(&self.shared)
    }

    /// Whether an engine has sampled that was not proven since the last load.
    pub(crate) fn is_due(&self) -> bool {
        self.shared.is_due.load(Ordering::Relaxed)
    }

    /// Loads weights into every engine, and proves that it has them.
    ///
    /// # Errors
    /// An engine that does not load them, or that fails the proof: nothing may be sampled then.
    pub(crate) async fn load(&mut self, weights: &Weights) -> Result<(), Failure> {
        self.shared.begin();
        if std::mem::take(&mut self.is_accused) {
            self.backend.load(&self.model.base).await?;
        }
        self.backend.load(weights).await?;
        if !self.proof.is_on() {
            return Ok(());
        }
        let version = weights.version;
        match self.prove(weights).await {
            Ok(verdict) => {
                match &verdict {
                    Verdict::Verified(how) => tracing::info!(version, how, "the engines' weights are verified"),
                    Verdict::ScoresAlone(why) => tracing::info!(version, why, "the engines' weights are undecided"),
                    Verdict::Undecided(why) => tracing::warn!(version, why, "the engines' weights are undecided"),
                }
                self.shared.verdicts.note(version, verdict);
                Ok(())
            }
            Err(failure) => {
                if failure.reason == Some(WEIGHTS_UNPROVEN) {
                    // An engine that was accused may be mended: it is met as a new one.
                    self.loads = None;
                    self.is_accused = true;
                }
                self.shared.begin();
                self.shared.verdicts.forget(version);
                Err(failure)
            }
        }
    }

    async fn prove(&mut self, weights: &Weights) -> Result<Verdict, Failure> {
        let own = &self.model.arithmetic;
        let engines = self.backend.generation().await?.engines;
        if !own.is_empty() && !engines.is_empty() && engines.iter().all(|engine| engine.arithmetic == *own) {
            return self.prove_equal(weights.version).await;
        }
        if self.loads.is_none() {
            let base = self.model.base.clone();
            let is_base = base.version == weights.version;
            if !is_base {
                self.backend.load(&base).await?;
            }
            let verdict = self.prove_base(base.version).await?;
            if !is_base {
                self.backend.load(weights).await?;
            }
            if is_base || self.loads.is_none() {
                return Ok(verdict);
            }
        }
        self.prove_next(weights.version).await
    }

    async fn prove_equal(&mut self, version: u64) -> Result<Verdict, Failure> {
        // A number of its own, for text of its own.
        self.equal += 1;
        let loads = Loads::single(self.equal, version);
        let engines = Engines::new(&self.backend, version);
        let found = self.proof.prove_equal(self.equal, &Learner::new(&self.backend, &loads), &engines).await?;
        self.shared.add(engines.names());
        self.shared.is_equal.store(found.is_some(), Ordering::Relaxed);
        Ok(match found {
            Some(tokens) => {
                Verdict::Verified(format!("{tokens} tokens have the learner's log-probabilities to the bit"))
            }
            None => Verdict::Undecided("the learner has no scores under these weights".to_owned()),
        })
    }

    /// Begins anew: what was seen before does not count any more.
    async fn prove_base(&mut self, version: u64) -> Result<Verdict, Failure> {
        let groups = self.backend.learner().await?.tensor_groups;
        let group = |name: String| if name == BASE_GROUP { TensorGroup::Adapters } else { TensorGroup::Named(name) };
        let groups: Vec<_> = groups.into_iter().map(group).collect();
        let loads = Loads::begin(version);
        let learner = Learner::new(&self.backend, &loads);
        if let Err(failure) = self.proof.begin(loads.last(), &groups, &learner).await {
            return self.without_scores(learner, failure).await;
        }
        let verdict = self.judge(&loads, version).await?;
        self.loads = Some(loads);
        Ok(verdict)
    }

    async fn prove_next(&mut self, version: u64) -> Result<Verdict, Failure> {
        let mut loads = self.loads.clone().unwrap_or_else(|| Loads::begin(self.model.base.version));
        loads.add(version);
        let text = self.shared.text.take(version);
        let learner = Learner::new(&self.backend, &loads);
        let noted = self.proof.note(loads.last(), text, &learner).await;
        let verdict = match noted {
            Ok(()) => self.judge(&loads, version).await?,
            Err(failure) => self.without_scores(learner, failure).await?,
        };
        self.loads = Some(loads);
        Ok(verdict)
    }

    /// The verdict where the learner has no room for the weights: nothing is at fault, and engines are not asked again
    /// before the next load.
    async fn without_scores(&self, learner: Learner<'_>, failure: Failure) -> Result<Verdict, Failure> {
        let Some(why) = learner.not_scored() else { return Err(failure) };
        let engines = self.backend.generation().await?.engines;
        self.shared.add(engines.into_iter().map(|engine| engine.name).collect());
        Ok(Verdict::Undecided(format!(
            "not possible here: the learner cannot score under the published weights, and {why}"
        )))
    }

    /// What the engines say of the last load, for which the learner's scores are noted.
    async fn judge(&self, loads: &Loads, version: u64) -> Result<Verdict, Failure> {
        let due = self.proof.take_due(loads.last()).ok_or_else(|| Failure::server("no scores of these weights"))?;
        let engines = Engines::new(&self.backend, version);
        self.proof.prove(due, &Learner::new(&self.backend, loads), &engines).await?;
        let are_exact = engines.are_exact();
        self.shared.add(engines.names());
        Ok(Verdict::of_scores(&self.proof.conclusion().unwrap_or_default(), are_exact))
    }
}

impl SharedProof {
    /// Notes who has sampled with weights of that version. An engine that was not proven since these were loaded leaves
    /// the weights undecided until it was.
    pub(crate) fn sampled(&self, rollout: &Rollout, version: u64) {
        let engines = rollout.segments.iter().map(|segment| &segment.engine).filter(|engine| !engine.is_empty());
        let mut all = engines.chain([&rollout.engine]);
        let unproven = all.find(|engine| !self.proven().contains(*engine));
        let Some(engine) = unproven.filter(|_| self.is_on) else { return };
        let why = format!("engine {engine} has sampled, which no proof has reached");
        if !self.is_due.swap(true, Ordering::Relaxed) {
            tracing::warn!(version, why, "the engines' weights are undecided");
        }
        self.verdicts.note(version, Verdict::Undecided(why));
    }

    fn begin(&self) {
        self.proven().clear();
        self.is_due.store(false, Ordering::Relaxed);
        self.is_equal.store(false, Ordering::Relaxed);
    }

    fn add(&self, engines: Vec<String>) {
        self.proven().extend(engines);
    }

    fn proven(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remarks() -> RemarkSink {
    RemarkSink::new(|remark| match remark {
        Remark::Note(message) => tracing::info!("{message}"),
        Remark::Warning(message) => tracing::warn!("{message}"),
    })
}
