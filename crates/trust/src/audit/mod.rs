//! The sampler audit: whether samples are drawn from the policy, as the settings say.
//!
//! A curve cannot tell a policy that has become sharper from an engine that samples at another temperature, truncates,
//! repeats one seed or reports log-probabilities that are not its own. The learner can: it scores a few samples of
//! every step under the version that sampled them, and bets against what is wrong ([`evenkeel_statistics::evidence`]).
//! Each is chosen by itself before it exists, by a number that is drawn when its step begins and that no engine knows:
//! an engine that could foretell the choice would be honest there alone. Chosen samples count regardless of outcome, since
//! a choice by outcome would accuse an honest engine. Copies need no scores: every group is tested.
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
#[cfg(test)]
mod weights_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_seeds::Uniforms;
use evenkeel_statistics::evidence::{copies, preferences};

use crate::arithmetic::LearnerArithmetic;
use crate::evidence::samples::{
    AnswerEvidence, AuditedEngines, AuditedSequence, AuditedToken, Drawing, F32_GAP, FailedCheck, SamplerCheck,
    StepEvidence, Tolerances, root_mean_square,
};
use crate::fault::SamplerFault;
use crate::proof::{SampleTest, ViewedSample, WeightsProof};
use crate::remark::RemarkSink;
use crate::scorer::{LearnerScorer, NotScored, PromptedResponse, PublishedWeights, SampledDistribution};
pub use evaluation::{AnswerChoice, EvaluationReport};
pub use report::AuditReport;
pub use sample::{AuditedGroup, AuditedSample, DrawnAnswer, DrawnToken};
use sample::{Difference, ties};
use selection::{AuditRates, Selection};

/// Most samples that the learner is asked about in one call.
const MOST_AT_ONCE: usize = 256;
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
    /// Groups of a step.
    pub groups: u32,
    /// Groups of the first update of a step; at least 1.
    pub first_update: u32,
    /// Samples of a group.
    pub group_size: u32,
    /// Whether a step may have further samples than the first sequences of its first groups: of prompts that are tried
    /// in place of others, or later sequences of episodes.
    pub grows: bool,
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
    /// Whether any step is audited. The nonce may leave out one of the others.
    pub is_on: bool,
    /// Groups of the first update of a step, the last of which waits for what the audit finds.
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
    /// Likewise evaluations after fewer steps than these.
    next_evaluation: u64,
    /// Whether any step so far had them: preferences are tested until then.
    had_partial_groups: bool,
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
        AuditSchedule { is_on: self.is_on(), first_update: self.sampling.first_update, from: self.state().next_step }
    }

    /// The audit of a step that begins, whose first prompt has that number. Where it `is_audited`, samples of it are
    /// scored.
    pub fn step(self: &Arc<Self>, step: u64, first: u64, is_audited: bool) -> StepAudit {
        let AuditedSampling { samples_ahead, groups, group_size, .. } = self.sampling;
        let rates = AuditRates {
            sequences: if is_audited { self.settings.sequences } else { 0 },
            samples: u64::from(groups) * u64::from(group_size),
            every: if samples_ahead { self.settings.every } else { 1 },
        };
        let selection = Selection::new(self.nonce(), step, rates);
        let is_new = step >= self.state().next_step;
        StepAudit::new(Arc::clone(self), step, is_new, selection, first..first + u64::from(groups))
    }

    /// The secret number of a choice.
    fn nonce(&self) -> u64 {
        self.settings.nonce.unwrap_or_else(selection::draw_nonce)
    }

    /// Judges what is known of the engines together with what a step shows, before it is that step's turn. Preferences
    /// wait for it: early groups are those of short answers.
    fn foresee(&self, step: u64, shown: &StepEvidence) -> Result<(), SamplerFault> {
        let mut state = self.state();
        let mut engines = state.engines.clone();
        engines.add(shown, |engine| self.tolerances(engine));
        self.judge(&engines, &mut state.said, step)
    }

    /// Adds what a step shows to what is known of the engines, and judges them.
    fn commit(&self, step: u64, shown: &StepEvidence) -> Result<(), SamplerFault> {
        let mut state = self.state();
        let AuditState { engines, said, next_step, had_partial_groups, .. } = &mut *state;
        *next_step = (*next_step).max(step + 1);
        engines.add(shown, |engine| self.tolerances(engine));
        *had_partial_groups |= shown.has_partial_groups;
        if !*had_partial_groups {
            engines.add_preferences(shown, |engine| self.tolerances(engine));
        }
        self.judge(engines, said, step)?;
        engines.learn(shown, self.settings.alpha);
        Ok(())
    }

    /// Adds what an evaluation shows to what is known of the engines, once, and judges them. Returns whether any has
    /// failed a check.
    fn commit_evaluation(&self, step: u64, shown: &StepEvidence) -> Result<bool, SamplerFault> {
        let mut state = self.state();
        let AuditState { engines, said, next_evaluation, .. } = &mut *state;
        if step < *next_evaluation || shown.sequences.is_empty() {
            return Ok(false);
        }
        *next_evaluation = step + 1;
        engines.add(shown, |engine| self.tolerances(engine));
        self.judge(engines, said, step)?;
        Ok(engines.failed(self.settings.alpha).next().is_some())
    }

    /// Scores the chosen samples of a step, and judges what they show.
    async fn score<L: LearnerScorer>(
        &self,
        step: u64,
        samples: &[AuditedSample],
        scored: &mut ScoredSamples,
        learner: &L,
    ) -> Result<(), L::Error> {
        let AuditedSampling { seed, min_tokens, distribution, .. } = &self.sampling;
        let mut by_version: BTreeMap<u64, Vec<&AuditedSample>> = BTreeMap::new();
        for sample in samples {
            sample.versions().into_iter().for_each(|version| by_version.entry(version).or_default().push(sample));
        }
        let min_tokens = *min_tokens as usize;
        let mut viewed = Vec::new();
        let mut tie = ties(Uniforms::new(*seed, selection::stream(step)));
        // Some at a time: replacements and later turns of episodes may be many.
        let mut parts: Vec<(u64, Vec<&AuditedSample>)> = Vec::new();
        for (version, samples) in by_version {
            for part in samples.chunks(MOST_AT_ONCE) {
                parts.push((version, part.to_vec()));
            }
        }
        for (version, samples) in parts {
            // Only an engine of the same arithmetic draws what the learner draws.
            let responses: Vec<PromptedResponse<'_>> =
                samples.iter().map(|sample| sample.prompted(self.has_the_learners_bits(sample))).collect();
            // Another rounding of the weights would be other bits.
            let has_bits = samples.iter().any(|sample| self.has_the_learners_bits(sample));
            let weights = if has_bits { PublishedWeights::of(version) } else { self.proof.published(version) };
            let asked = Instant::now();
            let views = match learner.view(&responses, &weights, distribution).await? {
                Ok(view) => {
                    scored.report.computing += view.computing;
                    scored.report.waiting += asked.elapsed().saturating_sub(view.computing);
                    view.responses
                }
                Err(not_scored) => {
                    scored.report.not_possible += samples.len() as u64;
                    self.say_not_possible(version, &not_scored);
                    continue;
                }
            };
            for (sample, view) in samples.iter().zip(&views) {
                if self.has_the_learners_bits(sample) {
                    match sample.difference(version, min_tokens, view) {
                        Some(difference) => self.accuse(of_difference(sample, step, difference))?,
                        None if sample.drawn_by(version, min_tokens).next().is_some() => {
                            self.proof.note_equal_sample(&sample.engine);
                        }
                        None => {}
                    }
                }
                let tokens = sample.tokens(version, min_tokens, view, distribution, &mut tie);
                if let Some(fault) = self.beyond_f32(sample, step, &tokens, distribution.is_truncated()) {
                    self.accuse(fault)?;
                }
                let engine = sample.engine.clone();
                scored.shown.sequences.push(AuditedSequence { engine, tokens, drawing: Drawing::Sampled });
                scored.report.sequences += 1;
            }
            let with_view = samples.into_iter().zip(views).map(|(sample, view)| ViewedSample {
                engine: &sample.engine,
                asked: sample.prompted(false),
                drawn: sample.drawn_by(version, min_tokens).collect(),
                view,
            });
            viewed.push((version, with_view.collect()));
        }
        let every = if self.sampling.samples_ahead { self.settings.every } else { 1 };
        let found = self.proof.test_samples(viewed, &SampleTest { distribution, every }, learner).await?;
        scored.report.computing += found.computing;
        scored.report.passes += found.passes;
        if let Some((engine, message)) = found.fault {
            self.accuse(SamplerFault { engine, step, check: "weights", message })?;
        }
        Ok(self.foresee(step, &scored.shown)?)
    }

    /// Whether an engine has drawn the sample that computes as the learner does. Each part of a response that another
    /// version goes on with is a request of its own, whose prompt that version computes again.
    fn has_the_learners_bits(&self, sample: &AuditedSample) -> bool {
        !sample.arithmetic.is_empty() && self.sampling.arithmetic.get() == sample.arithmetic
    }

    /// The fault of an engine that says that it computes in f32, by naming its arithmetic, and is further off than that
    /// allows from a learner that says so, too. Near the cut of a truncated distribution they may keep different tokens.
    fn beyond_f32(
        &self,
        sample: &AuditedSample,
        step: u64,
        tokens: &[AuditedToken],
        is_truncated: bool,
    ) -> Option<SamplerFault> {
        let gap = root_mean_square(tokens);
        let are_f32 = !sample.arithmetic.is_empty() && !self.sampling.arithmetic.get().is_empty();
        let is_within = gap <= F32_GAP || is_truncated || !are_f32;
        (!is_within).then(|| SamplerFault {
            engine: sample.engine.clone(),
            step,
            check: SamplerCheck::LogProbabilities.name(),
            message: format!(
                "it says that it computes in f32 ({}), and the log-probabilities of a response are {gap:.1e} nats (root \
                 mean square) from the learner's under the same version, allowed: {F32_GAP:.0e}; it has other weights, or \
                 what it returned was changed on the way",
                sample.arithmetic
            ),
        })
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

/// What the samples of a group say beside each other, in the order of their numbers.
fn answers_of(group: &impl AuditedGroup) -> Vec<AnswerEvidence> {
    // Only answers that one version drew as a whole are drawn from one distribution.
    if !group.is_of_one_version() {
        return Vec::new();
    }
    let (engines, answers): (Vec<String>, Vec<Vec<(u32, f64)>>) =
        group.answers().into_iter().map(|DrawnAnswer { engine, tokens }| (engine, tokens)).unzip();
    // Of a group that is not whole they are not looked at.
    let found = engines.into_iter().zip(copies(&answers)).zip(preferences(&answers));
    found.map(|((engine, copy), preference)| AnswerEvidence { engine, copy, preference }).collect()
}
