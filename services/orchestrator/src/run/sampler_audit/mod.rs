//! The sampler audit: whether samples are drawn from the policy, as the settings say.
//!
//! A curve cannot tell a policy that has become sharper from an engine that samples at another temperature, truncates,
//! repeats one seed or reports log-probabilities that are not its own. The learner can: it scores a few samples of
//! every step under the version that sampled them, and bets against what is wrong ([`evenkeel_statistics::evidence`]).
//! Which samples is decided by the run's seed before they exist, and they count whatever becomes of them, since a
//! choice by outcome would accuse an honest engine. Copies need no scores: every group is tested.
//!
//! The first update of a step waits for the verdict: its last group is held back from the learner until then.
//!
//! What the samples of a step show is judged as soon as it is there, and added to what is known of the engines when it
//! is the step's turn, in the order of prompts and samples: no value depends on which group or step is complete first.

mod checks;
mod report;
mod selection;
mod sequence;
mod step;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_proto::v1::{SamplingDistribution, ScoreWeights};
use evenkeel_seeds::Uniforms;
use evenkeel_statistics::evidence::{CopyEvidence, copies};

use crate::clients::{NotScored, ScoreQuery, Services};
use crate::error::{Halt, RunError};
use crate::events::{Activity, Event};
use crate::rollout::SampledGroup;
use crate::run::proof::Proof;
use crate::run::state::AuditRules;
use crate::settings::{AuditMode, LoopSettings, PolicySamplingSettings, ProofSettings, SamplerAuditSettings};
use checks::{Check, EngineChecks, Token, Tolerances};
pub(super) use report::AuditReport;
use sequence::{AuditedSample, ties};
pub(super) use step::{Scored, Scoring, StepAudit};

/// Audits the samples of a run.
pub(super) struct SamplerAudit {
    services: Arc<Services>,
    settings: SamplerAuditSettings,
    sampling: PolicySamplingSettings,
    /// Tokens that end a response.
    ends: Vec<u32>,
    seed: u64,
    /// Whether samples may be older than the learner's weights.
    samples_ahead: bool,
    /// Groups of the first update of a step.
    first_update: u32,
    tolerance: f64,
    is_truncated: bool,
    /// Knows the noise of engines.
    proof: Arc<Proof>,
    state: Mutex<State>,
}

/// What is known of engines, in the order in which they first appeared.
type Engines = Vec<(String, EngineChecks)>;

/// What the samples of one step show.
#[derive(Debug, Default)]
struct Additions {
    /// By prompt: of each answer its engine, and what it says about copies.
    copies: BTreeMap<u64, Vec<(String, CopyEvidence)>>,
    /// Of each scored sample its engine and its tokens.
    sequences: Vec<(String, Vec<Token>)>,
}

#[derive(Default)]
struct State {
    /// Their order decides their share of the budget.
    engines: Engines,
    /// Steps before this one have been counted: they count once, also where a run returns to a checkpoint.
    next_step: u64,
    /// What was said already, with `mode = "warn"`.
    said: BTreeSet<(String, Check)>,
    /// Whether it was said that the learner cannot score the version of samples.
    said_not_possible: bool,
}

impl SamplerAudit {
    /// `first_update`: groups of the first update of a step, `None` for all. `end`: the token that ends a response by
    /// the model's files.
    pub(super) fn new(
        services: Arc<Services>,
        settings: &LoopSettings,
        end: Option<u32>,
        first_update: Option<u32>,
        proof: Arc<Proof>,
    ) -> Arc<Self> {
        let sampling = settings.sampling.clone();
        let is_truncated = sampling.top_p < 1.0 || sampling.top_k > 0 || sampling.min_p > 0.0;
        let tolerance = settings.proof.tolerance.unwrap_or(ProofSettings::DEFAULT_TOLERANCE);
        let ends: BTreeSet<u32> = end.into_iter().chain(sampling.stop_token_ids.iter().copied()).collect();
        let groups = sampling.prompts_per_step;
        Arc::new(Self {
            services,
            settings: settings.sampler_audit.clone(),
            ends: ends.into_iter().take(64).collect(),
            seed: settings.run.seed,
            samples_ahead: settings.pipeline.max_lag > 0,
            first_update: first_update.unwrap_or(groups).clamp(1, groups.max(1)),
            tolerance,
            is_truncated,
            proof,
            sampling,
            state: Mutex::default(),
        })
    }

    /// Whether anything is checked.
    fn is_on(&self) -> bool {
        self.settings.mode != AuditMode::Off
    }

    /// Which steps are audited from now on.
    pub(super) fn rules(&self) -> AuditRules {
        let every = if self.samples_ahead { self.settings.every } else { 1 };
        AuditRules {
            every: if self.is_on() { every } else { 0 },
            first_update: self.first_update,
            from: self.state().next_step,
        }
    }

    /// The audit of a step whose first prompt has that number. Where it `is_audited`, samples of it are scored.
    pub(super) fn step(self: &Arc<Self>, step: u64, first: u64, is_audited: bool) -> StepAudit {
        let count = if is_audited { self.settings.sequences } else { 0 };
        let prompts = u64::from(self.first_update);
        let samples = self.sampling.group_size;
        let (chosen, used) = selection::choose(self.seed, step, first, prompts, samples, count);
        let mut state = self.state();
        let is_new = step >= state.next_step;
        if is_new {
            state.next_step = step + 1;
        }
        StepAudit::new(Arc::clone(self), step, is_new, chosen, used)
    }

    /// What the samples of a group say about copies, in the order of their numbers.
    fn copies_of(&self, group: &SampledGroup) -> Vec<(String, CopyEvidence)> {
        // Only answers that one version drew as a whole are drawn from one distribution.
        let is_one = group.versions().is_some_and(|versions| versions.start() == versions.end());
        if !is_one {
            return Vec::new();
        }
        let drawn: Vec<_> = group.samples().iter().filter(|sample| !sample.segments.is_empty()).collect();
        let answers: Vec<Vec<(u32, f64)>> = drawn
            .iter()
            .map(|sample| {
                let tokens = sample.segments.iter().flat_map(|segment| {
                    segment.token_ids.iter().copied().zip(segment.log_probabilities.iter().copied().map(f64::from))
                });
                tokens.collect()
            })
            .collect();
        drawn.iter().map(|sample| sample.engine.clone()).zip(copies(&answers)).collect()
    }

    /// Judges what is known of the engines together with what a step shows, before it is that step's turn.
    fn foresee(&self, step: u64, additions: &Additions) -> Result<(), Halt> {
        let mut state = self.state();
        let mut engines = state.engines.clone();
        self.add(&mut engines, additions);
        self.judge(&engines, &mut state.said, step)
    }

    /// Adds what a step shows to what is known of the engines, and judges them.
    fn commit(&self, step: u64, additions: &Additions) -> Result<(), Halt> {
        let mut state = self.state();
        let State { engines, said, .. } = &mut *state;
        self.add(engines, additions);
        self.judge(engines, said, step)
    }

    fn add(&self, engines: &mut Engines, additions: &Additions) {
        for (name, engine) in engines.iter_mut() {
            engine.tolerate(self.tolerances(name));
            engine.begin_round();
        }
        for (name, evidence) in additions.copies.values().flatten() {
            self.engine(engines, name).add_copy(evidence);
        }
        for (name, tokens) in &additions.sequences {
            self.engine(engines, name).add_sequence(tokens);
        }
    }

    /// Scores the chosen samples of a step, and judges what they show.
    async fn score(&self, step: u64, samples: &[AuditedSample], used: u64, scored: &mut Scored) -> Result<(), Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Proving);
        let mut by_version: BTreeMap<u64, Vec<&AuditedSample>> = BTreeMap::new();
        for sample in samples {
            sample.versions().into_iter().for_each(|version| by_version.entry(version).or_default().push(sample));
        }
        let mut tie = ties(Uniforms::new(self.seed, selection::stream(step)), used);
        for (version, samples) in by_version {
            let weights = ScoreWeights { version, ..ScoreWeights::default() };
            let queries: Vec<_> = samples.iter().map(|sample| self.query(sample)).collect();
            let scores = match self.services.learner().score_published(&queries, &weights).await? {
                Ok(scores) => scores,
                Err(not_scored) => {
                    scored.report.not_possible += samples.len() as u64;
                    self.say_not_possible(version, &not_scored);
                    continue;
                }
            };
            for (sample, scores) in samples.iter().zip(&scores) {
                let Some(statistics) = &scores.tokens else { continue };
                // The engine may not end a response before these, so that it draws from another distribution.
                let first = self.sampling.min_tokens as usize;
                let tokens = sample.tokens(version, first, statistics, &self.ends, &mut tie);
                scored.additions.sequences.push((sample.engine.clone(), tokens));
                scored.report.sequences += 1;
            }
        }
        scored.report.took = began.elapsed();
        self.foresee(step, &scored.additions)
    }

    fn query(&self, sample: &AuditedSample) -> ScoreQuery {
        let sampling = SamplingDistribution {
            top_p: Some(self.sampling.top_p),
            top_k: Some(self.sampling.top_k),
            min_p: Some(self.sampling.min_p),
            end_token_ids: self.ends.clone(),
        };
        ScoreQuery {
            prompt: sample.prompt.clone(),
            response: sample.response.clone(),
            temperature: self.sampling.temperature,
            sampling: Some(sampling),
        }
    }

    /// The checks of an engine, which begin where it first appears.
    fn engine<'a>(&self, engines: &'a mut Engines, name: &str) -> &'a mut EngineChecks {
        let at = match engines.iter().position(|(known, _)| known == name) {
            Some(at) => at,
            None => {
                let mut checks = EngineChecks::new(self.tolerances(name));
                checks.begin_round();
                engines.push((name.to_owned(), checks));
                engines.len() - 1
            }
        };
        &mut engines[at].1
    }

    /// How far an honest engine may be from the learner.
    fn tolerances(&self, engine: &str) -> Tolerances {
        match self.proof.noise_of(engine) {
            Some(noise) => Tolerances::calibrated(self.tolerance, self.is_truncated, noise),
            None => Tolerances::new(self.tolerance, self.is_truncated),
        }
    }

    /// What the evidence against the engine that appeared as number `at` must stay below.
    fn threshold(&self, at: usize) -> f64 {
        // The shares 1/2, 1/6, 1/12 … of the budget add up to all of it, however many engines join.
        let engine = (at as f64 + 1.0) * (at as f64 + 2.0);
        engine * Check::ALL.len() as f64 / self.settings.alpha
    }

    fn judge(&self, engines: &Engines, said: &mut BTreeSet<(String, Check)>, step: u64) -> Result<(), Halt> {
        for (at, (name, engine)) in engines.iter().enumerate() {
            let threshold = self.threshold(at);
            for check in Check::ALL.into_iter().filter(|check| engine.evidence(*check) >= threshold) {
                let error = RunError::Sampler {
                    engine: name.clone(),
                    step,
                    check: check.name(),
                    message: wording::finding(check, engine, threshold),
                };
                if self.settings.mode == AuditMode::Stop {
                    return Err(error.into());
                }
                if said.insert((name.clone(), check)) {
                    self.services.events().emit(Event::Warning { message: error.to_string() });
                }
            }
        }
        Ok(())
    }

    fn say_not_possible(&self, version: u64, why: &NotScored) {
        if !std::mem::replace(&mut self.state().said_not_possible, true) {
            let message =
                format!("the sampler audit is not possible here: samples of version {version} cannot be scored: {why}");
            self.services.events().emit(Event::Warning { message });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
