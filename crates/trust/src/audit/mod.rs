//! The sampler audit: whether samples are drawn from the policy, as the settings say.
//!
//! A curve cannot tell a policy that has become sharper from an engine that samples at another temperature, truncates,
//! repeats one seed or reports log-probabilities that are not its own. The learner can: it scores a few samples of
//! every step under the version that sampled them, and bets against what is wrong ([`evenkeel_statistics::evidence`]).
//! Which samples is decided by the run's seed before they exist, and they count whatever becomes of them, since a
//! choice by outcome would accuse an honest engine. Copies need no scores: every group is tested.
//!
//! What the samples of a step show is judged as soon as it is there, and added to what is known of the engines when it
//! is the step's turn, in the order of prompts and samples: no value depends on which group or step is complete first.

mod evaluation;
mod report;
mod sample;
mod selection;
mod settings;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_seeds::Uniforms;
use evenkeel_statistics::evidence::{CopyEvidence, copies};

use crate::arithmetic::LearnerArithmetic;
use crate::evidence::samples::{AuditedEngines, FailedCheck, SamplerCheck, StepEvidence, Tolerances};
use crate::fault::SamplerFault;
use crate::proof::WeightsProof;
use crate::remark::RemarkSink;
use crate::scorer::{LearnerScorer, NotScored, PromptedResponse, SampledDistribution};
pub use report::AuditReport;
pub use sample::{AuditedGroup, AuditedSample, DrawnAnswer, DrawnToken};
use sample::{Difference, ties};
pub use settings::{AuditMode, SamplerAuditSettings};
pub use step::{SampleScoring, ScoredSamples, StepAudit};

/// Audits the samples of a run.
#[derive(Debug)]
pub struct SamplerAudit {
    settings: SamplerAuditSettings,
    sampling: AuditedSampling,
    /// Knows the noise of engines.
    proof: Arc<WeightsProof>,
    state: Mutex<AuditState>,
    remarks: RemarkSink,
}

/// How a run samples.
#[derive(Debug, Clone)]
pub struct AuditedSampling {
    /// The seed of the run.
    pub seed: u64,
    /// Whether samples may be older than the learner's weights.
    pub samples_ahead: bool,
    /// Groups of the first update of a step; at least 1.
    pub first_update: u32,
    /// Samples of a group.
    pub group_size: u32,
    /// Tokens before which an engine may not end a response, so that it draws from another distribution.
    pub min_tokens: u32,
    /// What all later tokens are drawn from.
    pub distribution: SampledDistribution,
    /// How the learner computes, by the name that it reports. An engine of that name has its bits.
    pub arithmetic: LearnerArithmetic,
}

/// Which steps of a run are audited; by default none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditSchedule {
    /// Every so many steps, from the first on; 0 for none.
    pub every: u64,
    /// Groups of the first update of a step, which alone have audited samples.
    pub first_update: u32,
    /// Steps before this one have been counted.
    pub from: u64,
}

/// What audits of this process have found.
#[derive(Debug, Default)]
struct AuditState {
    engines: AuditedEngines,
    /// Steps before this one have been counted: they count once, also where a run returns to a checkpoint.
    next_step: u64,
    /// What was said already, with `mode = "warn"`.
    said: BTreeSet<(String, SamplerCheck)>,
    /// Engines of which it was said that their bits are not the learner's.
    unequal: BTreeSet<String>,
    /// Whether it was said that the learner cannot score the version of samples.
    said_not_possible: bool,
}

impl SamplerAudit {
    /// Audits of a run. `proof` measures how far honest engines are from the learner.
    pub fn new(
        settings: SamplerAuditSettings,
        sampling: AuditedSampling,
        proof: Arc<WeightsProof>,
        remarks: RemarkSink,
    ) -> Arc<Self> {
        Arc::new(Self { settings, sampling, proof, state: Mutex::default(), remarks })
    }

    /// Whether anything is checked.
    fn is_on(&self) -> bool {
        self.settings.mode != AuditMode::Off
    }

    /// Which steps are audited from now on, for the state of the loop, which decides it.
    pub fn schedule(&self) -> AuditSchedule {
        let every = if self.sampling.samples_ahead { self.settings.every } else { 1 };
        AuditSchedule {
            every: if self.is_on() { every } else { 0 },
            first_update: self.sampling.first_update,
            from: self.state().next_step,
        }
    }

    /// The audit of a step whose first prompt has that number. Where it `is_audited`, samples of it are scored.
    pub fn step(self: &Arc<Self>, step: u64, first: u64, is_audited: bool) -> StepAudit {
        let AuditedSampling { seed, first_update, group_size, .. } = self.sampling;
        let count = if is_audited { self.settings.sequences } else { 0 };
        let (chosen, used) = selection::choose(seed, step, first, first_update.into(), group_size, count);
        let mut state = self.state();
        let is_new = step >= state.next_step;
        if is_new {
            state.next_step = step + 1;
        }
        StepAudit::new(Arc::clone(self), step, is_new, chosen, used)
    }

    /// Judges what is known of the engines together with what a step shows, before it is that step's turn.
    fn foresee(&self, step: u64, shown: &StepEvidence) -> Result<(), SamplerFault> {
        let mut state = self.state();
        let mut engines = state.engines.clone();
        engines.add(shown, |engine| self.tolerances(engine));
        self.judge(&engines, &mut state.said, step)
    }

    /// Adds what a step shows to what is known of the engines, and judges them.
    fn commit(&self, step: u64, shown: &StepEvidence) -> Result<(), SamplerFault> {
        let mut state = self.state();
        let AuditState { engines, said, .. } = &mut *state;
        engines.add(shown, |engine| self.tolerances(engine));
        self.judge(engines, said, step)
    }

    /// Scores the chosen samples of a step, and judges what they show.
    async fn score<L: LearnerScorer>(
        &self,
        step: u64,
        samples: &[AuditedSample],
        used: u64,
        scored: &mut ScoredSamples,
        learner: &L,
    ) -> Result<(), L::Error> {
        let began = Instant::now();
        let AuditedSampling { seed, min_tokens, distribution, .. } = &self.sampling;
        let mut by_version: BTreeMap<u64, Vec<&AuditedSample>> = BTreeMap::new();
        for sample in samples {
            sample.versions().into_iter().for_each(|version| by_version.entry(version).or_default().push(sample));
        }
        let mut tie = ties(Uniforms::new(*seed, selection::stream(step)), used);
        for (version, samples) in by_version {
            // Only an engine of the same arithmetic draws what the learner draws.
            let responses: Vec<PromptedResponse<'_>> =
                samples.iter().map(|sample| sample.prompted(self.has_the_learners_bits(sample))).collect();
            let views = match learner.view(&responses, version, distribution).await? {
                Ok(views) => views,
                Err(not_scored) => {
                    scored.report.not_possible += samples.len() as u64;
                    self.say_not_possible(version, &not_scored);
                    continue;
                }
            };
            for (sample, view) in samples.iter().zip(&views) {
                let first = *min_tokens as usize;
                if self.has_the_learners_bits(sample)
                    && let Some(difference) = sample.difference(version, first, view)
                {
                    self.accuse(of_difference(sample, step, difference))?;
                }
                let tokens = sample.tokens(version, first, view, &distribution.end_token_ids, &mut tie);
                scored.shown.sequences.push((sample.engine.clone(), tokens));
                scored.report.sequences += 1;
            }
        }
        scored.report.took = began.elapsed();
        Ok(self.foresee(step, &scored.shown)?)
    }

    /// Whether an engine has drawn the sample that computes as the learner does. Where samples are older than the
    /// learner's weights, an engine may go on with keys and values of a version before theirs.
    fn has_the_learners_bits(&self, sample: &AuditedSample) -> bool {
        let is_named = !self.sampling.samples_ahead && !sample.arithmetic.is_empty();
        is_named && self.sampling.arithmetic.get() == sample.arithmetic
    }

    /// Ends the run for a fault that needs no more evidence, or says it once.
    fn accuse(&self, fault: SamplerFault) -> Result<(), SamplerFault> {
        if self.settings.mode == AuditMode::Stop {
            return Err(fault);
        }
        if self.state().unequal.insert(fault.engine.clone()) {
            self.remarks.warn(fault.to_string());
        }
        Ok(())
    }

    /// How far an honest engine may be from the learner.
    fn tolerances(&self, engine: &str) -> Tolerances {
        let is_truncated = self.sampling.distribution.is_truncated();
        match self.proof.noise_of(engine) {
            Some(noise) => Tolerances::calibrated(self.proof.tolerance(), is_truncated, noise),
            None => Tolerances::new(self.proof.tolerance(), is_truncated),
        }
    }

    fn judge(
        &self,
        engines: &AuditedEngines,
        said: &mut BTreeSet<(String, SamplerCheck)>,
        step: u64,
    ) -> Result<(), SamplerFault> {
        for failed in engines.failed(self.settings.alpha) {
            let FailedCheck { engine, check, .. } = failed;
            let fault =
                SamplerFault { engine: engine.to_owned(), step, check: check.name(), message: failed.finding() };
            if self.settings.mode == AuditMode::Stop {
                return Err(fault);
            }
            if said.insert((engine.to_owned(), check)) {
                self.remarks.warn(fault.to_string());
            }
        }
        Ok(())
    }

    fn say_not_possible(&self, version: u64, NotScored(why): &NotScored) {
        if !std::mem::replace(&mut self.state().said_not_possible, true) {
            self.remarks.warn(format!(
                "the sampler audit is not possible here: samples of version {version} cannot be scored: {why}"
            ));
        }
    }

    fn state(&self) -> MutexGuard<'_, AuditState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fault of an engine that computes as the learner does, and differs.
fn of_difference(sample: &AuditedSample, step: u64, difference: Difference) -> SamplerFault {
    let (check, found) = match difference {
        Difference::Token { token, returned, drawn } => (
            "draws",
            format!(
                "and returned id {returned} as token {token} of a response, where the seed that it was given and the \
                 learner's logits give id {drawn}"
            ),
        ),
        Difference::Rank { token, rank } => {
            ("draws", format!("and returned the {rank}th likeliest id as token {token} of an answer at temperature 0"))
        }
        Difference::LogProbability { token, reported, computed } => (
            "log-probabilities",
            format!(
                "and reported a log-probability of {reported:?} for token {token} of a response, where the learner \
                 computes {computed:?} from the weights of that version"
            ),
        ),
    };
    let message = format!(
        "it computes as the learner does ({}), {found}: it has other weights or draws otherwise than it says, or what \
         it returned was changed on the way",
        sample.arithmetic
    );
    SamplerFault { engine: sample.engine.clone(), step, check, message }
}

/// What the samples of a group say about copies, in the order of their numbers.
fn copies_of(group: &impl AuditedGroup) -> Vec<(String, CopyEvidence)> {
    // Only answers that one version drew as a whole are drawn from one distribution.
    if !group.is_of_one_version() {
        return Vec::new();
    }
    let (engines, answers): (Vec<String>, Vec<Vec<(u32, f64)>>) =
        group.answers().into_iter().map(|DrawnAnswer { engine, tokens }| (engine, tokens)).unzip();
    engines.into_iter().zip(copies(&answers)).collect()
}
