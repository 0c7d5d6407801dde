//! Proof of weights: learner and engines score the same tokens after an update.
//!
//! A version is only a label: an engine may carry the new one and go on with old weights, with some old tensors, or
//! with another model. So in every step both score a few hundred tokens of the run's own text. The learner's
//! side is computed with the published tensors, rounded as engines get them, and once more for each suspicion that
//! is tested. A proof has two halves, at two moments:
//!
//! - after an update the learner scores text of the new version ([`WeightsProof::begin`], [`WeightsProof::note`]);
//! - once the engines have that version they score the same text, and the evidence is judged
//!   ([`WeightsProof::take_due`], [`WeightsProof::prove`]).
//!
//! A request for scores cannot be disguised, so the same suspicions are tested on audited samples, and *verified* needs
//! both (`sample_half.rs`).
//!
//! Where engines compute as the learner does, one comparison decides ([`WeightsProof::prove_equal`]).

mod engine_half;
mod equal;
mod learner_half;
mod probe_text;
mod rotation;
mod sample_half;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::evidence::weights::{CalibratedNoise, EnginesEvidence, ProofVersions, ScoredText, Suspicion};
use crate::remark::RemarkSink;
use crate::scorer::{LearnerScorer, TensorGroup};
use probe_text::ProbeSize;
pub use probe_text::ProbeText;
use rotation::SuspicionRotation;
pub(crate) use sample_half::{SampleTest, ViewedSample};
pub use settings::ProofSettings;

/// Checks the weights of the engines.
#[derive(Debug)]
pub struct WeightsProof {
    settings: ProofSettings,
    /// Tokens that the model has room for.
    context: usize,
    text: Mutex<ProbeText>,
    state: Mutex<ProofState>,
    /// Engines that are verified, also over new beginnings.
    verified: Mutex<VerifiedEngines>,
    remarks: RemarkSink,
}

/// What proofs of this process have found. A new beginning, from a checkpoint, forgets it.
#[derive(Debug)]
struct ProofState {
    /// The version that this process began with.
    anchor: u64,
    rotation: SuspicionRotation,
    engines: EnginesEvidence,
    /// The learner's scores of versions that the engines get later.
    pending: BTreeMap<u64, ScoredText>,
}

/// Which engines were proven at all, of those whose samples were trained on.
#[derive(Debug, Default)]
struct VerifiedEngines {
    trained_by: BTreeSet<String>,
    proven: BTreeSet<String>,
}

impl VerifiedEngines {
    fn missing(&self) -> impl Iterator<Item = &String> {
        self.trained_by.difference(&self.proven)
    }
}

impl ProofState {
    fn new(anchor: u64, groups: &[TensorGroup], in_turn: u32) -> Self {
        let suspicions = Suspicion::all(groups);
        Self {
            anchor,
            engines: EnginesEvidence::new(suspicions.len()),
            rotation: SuspicionRotation::new(suspicions, in_turn as usize),
            pending: BTreeMap::new(),
        }
    }
}

/// A proof whose first half is done: the learner's scores of a version that the engines have now.
#[derive(Debug)]
pub struct DueProof {
    versions: ProofVersions,
    text: ScoredText,
}

impl WeightsProof {
    /// Proofs over the text of a run. `context`: tokens that the model has room for.
    pub fn new(settings: ProofSettings, context: usize, text: ProbeText, remarks: RemarkSink) -> Self {
        let state = Mutex::new(ProofState::new(0, &[], settings.contrasts));
        Self { settings, context, text: Mutex::new(text), state, verified: Mutex::default(), remarks }
    }

    /// Whether anything is proven.
    pub fn is_on(&self) -> bool {
        self.settings.every > 0
    }

    /// Whether the weights after `steps` steps are to be proven.
    pub fn is_due(&self, steps: u64) -> bool {
        self.is_on() && steps.is_multiple_of(self.settings.every)
    }

    /// The version of which the learner must keep the published folder, if any: the one that this process began with.
    pub fn anchor(&self) -> Option<u64> {
        self.is_on().then(|| self.state().anchor)
    }

    /// Notes the learner's scores of the weights that a run begins with, or returns to. What was seen before does not
    /// count any more. `groups`: the tensors that the learner trains.
    ///
    /// # Errors
    /// Weights that have blown up; what the learner's scorer says.
    pub async fn begin<L: LearnerScorer>(
        &self,
        version: u64,
        groups: &[TensorGroup],
        learner: &L,
    ) -> Result<(), L::Error> {
        *self.state() = ProofState::new(version, groups, self.settings.contrasts);
        self.ask_learner(version, learner).await
    }

    /// Notes the learner's scores of its weights after a step; `answers` are prompts with their answers of that step.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn note<L: LearnerScorer>(
        &self,
        version: u64,
        answers: Vec<Vec<u32>>,
        learner: &L,
    ) -> Result<(), L::Error> {
        self.text().set_answers(answers);
        self.ask_learner(version, learner).await
    }

    /// The proof of a version that the engines have now. `None` where the learner's scores of it were not noted.
    pub fn take_due(&self, version: u64) -> Option<DueProof> {
        let mut state = self.state();
        // Versions that were skipped are not requested again.
        state.pending = state.pending.split_off(&version);
        let text = state.pending.remove(&version)?;
        Some(DueProof { versions: ProofVersions::new(version, state.anchor), text })
    }

    /// Notes engines whose samples were trained on. Returns how many of all so far no proof has reached.
    pub fn note_trained<'a>(&self, engines: impl Iterator<Item = &'a str>) -> usize {
        let mut verified = self.verified();
        let new: Vec<_> = engines.filter(|engine| !verified.trained_by.contains(*engine)).map(str::to_owned).collect();
        verified.trained_by.extend(new);
        verified.missing().count()
    }

    /// How many suspicions audited samples exclude for all engines whose samples were trained on.
    pub fn excluded_by_samples(&self) -> usize {
        let verified = self.verified();
        let state = self.state();
        let all = state.rotation.all();
        all.len() - state.engines.open_in_samples(all, &verified.trained_by).len()
    }

    /// One sentence for the end of a run: what is proven of its weights. `None` where proofs are off.
    pub fn conclusion(&self) -> Option<String> {
        self.is_on().then(|| {
            let verified = self.verified();
            let missing: Vec<&str> = verified.missing().map(String::as_str).collect();
            if !missing.is_empty() {
                let names = missing.join(", ");
                return format!("undecided: samples of {names} were trained on, which no proof has reached");
            }
            let state = self.state();
            state.engines.conclusion(state.rotation.all(), &verified.trained_by)
        })
    }

    /// The noise of an engine with the right weights; `None` before it was calibrated.
    pub(crate) fn noise_of(&self, engine: &str) -> Option<CalibratedNoise> {
        self.state().engines.noise_of(engine)
    }

    /// Largest mean difference between learner and engine, in nats.
    pub(crate) fn tolerance(&self) -> f64 {
        self.settings.tolerance()
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

    fn text(&self) -> MutexGuard<'_, ProbeText> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verified(&self) -> MutexGuard<'_, VerifiedEngines> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, ProofState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
