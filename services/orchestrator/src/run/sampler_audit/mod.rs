//! The sampler audit: whether samples are drawn from the policy, as the settings say.
//!
//! A curve cannot tell a policy that has become sharper from an engine that samples at another temperature, truncates, repeats one seed or
//! reports log-probabilities that are not its own. The learner can: it scores a few samples of every step under the version that sampled
//! them, and bets against what is wrong ([`evenkeel_statistics::evidence`]). Which samples is decided by the run's seed before they exist, and
//! they count whatever becomes of them, since a choice by outcome would accuse an honest engine. Copies need no scores: every group is tested.
//!
//! The first update of a step waits for the verdict: its last group is held back from the learner until then.

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
use evenkeel_statistics::evidence::copies;

use crate::clients::{NotScored, ScoreQuery, Services};
use crate::error::{Halt, RunError};
use crate::events::{Activity, Event};
use crate::rollout::SampledGroup;
use crate::run::proof::Proof;
use crate::settings::{AuditMode, LoopSettings, PolicySamplingSettings, ProofSettings, SamplerAuditSettings};
use checks::{Check, EngineChecks, Tolerances};
pub(super) use report::AuditReport;
use sequence::{AuditedSample, ties};
pub(super) use step::{Scoring, StepAudit};

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

#[derive(Default)]
struct State {
    /// In the order in which they first appeared, which decides their share of the budget.
    engines: Vec<(String, EngineChecks)>,
    /// Steps before this one have been counted: they count once, also where a run returns to a checkpoint.
    next_step: u64,
    /// What was said already, with `mode = "warn"`.
    said: BTreeSet<(String, Check)>,
    /// Whether it was said that the learner cannot score the version of samples.
    said_not_possible: bool,
}

impl SamplerAudit {
    /// `first_update`: groups of the first update of a step, `None` for all. `end`: the token that ends a response by the model's files.
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

    /// The audit of a step whose first prompt has that number.
    pub(super) fn step(self: &Arc<Self>, step: u64, first: u64) -> StepAudit {
        let is_due = self.is_on() && (!self.samples_ahead || (step - 1).is_multiple_of(self.settings.every));
        let count = if is_due { self.settings.sequences } else { 0 };
        let (prompts, samples) = (u64::from(self.first_update), self.sampling.group_size);
        let (chosen, used) = selection::choose(self.seed, step, first, prompts, samples, count);
        let mut state = self.state();
        let is_new = step >= state.next_step;
        if is_new {
            state.next_step = step + 1;
            for (name, engine) in &mut state.engines {
                engine.tolerate(self.tolerances(name));
                engine.begin_round();
            }
        }
        StepAudit::new(Arc::clone(self), step, is_new, chosen, used)
    }

    /// Tests the samples of a group for copies, in the order of their numbers.
    fn add_copies(&self, step: u64, group: &SampledGroup) -> Result<(), Halt> {
        // Only answers that one version drew as a whole are drawn from one distribution.
        let is_one = group.versions().is_some_and(|versions| versions.start() == versions.end());
        if !is_one {
            return Ok(());
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
        let found = copies(&answers);
        let mut state = self.state();
        for (sample, evidence) in drawn.iter().zip(&found) {
            self.engine(&mut state, &sample.engine).add_copy(evidence);
        }
        self.judge(&mut state, step)
    }

    /// Scores the chosen samples of a step, and judges them.
    async fn score(
        &self,
        step: u64,
        samples: &[AuditedSample],
        used: u64,
        report: &mut AuditReport,
    ) -> Result<(), Halt> {
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
            let scored = match self.services.learner().score_published(&queries, &weights).await? {
                Ok(scored) => scored,
                Err(not_scored) => {
                    report.not_possible += samples.len() as u64;
                    self.say_not_possible(version, &not_scored);
                    continue;
                }
            };
            let mut state = self.state();
            for (sample, scores) in samples.iter().zip(&scored) {
                let Some(statistics) = &scores.tokens else { continue };
                // The engine may not end a response before these, so that it draws from another distribution.
                let first = self.sampling.min_tokens as usize;
                let tokens = sample.tokens(version, first, statistics, &self.ends, &mut tie);
                self.engine(&mut state, &sample.engine).add_sequence(&tokens);
                report.sequences += 1;
            }
        }
        report.took = began.elapsed();
        self.judge(&mut self.state(), step)
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
    fn engine<'a>(&self, state: &'a mut State, name: &str) -> &'a mut EngineChecks {
        let at = match state.engines.iter().position(|(known, _)| known == name) {
            Some(at) => at,
            None => {
                let mut checks = EngineChecks::new(self.tolerances(name));
                checks.begin_round();
                state.engines.push((name.to_owned(), checks));
                state.engines.len() - 1
            }
        };
        &mut state.engines[at].1
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

    fn judge(&self, state: &mut State, step: u64) -> Result<(), Halt> {
        let State { engines, said, .. } = state;
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
