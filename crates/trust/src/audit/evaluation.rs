//! The audit of an evaluation: some of its answers, chosen in secret as samples of a step are, are scored by the learner.
//! So the weights that an accuracy is of are the learner's too, also after the last step, which trains on no further
//! sample.
//!
//! An answer at temperature 0 must have the likeliest tokens; any whose log-probability is within the noise of the
//! highest may be one. Others count as the samples of steps do, but that their distribution may be cut where that of
//! the run is not.

use evenkeel_seeds::Uniforms;

use super::sample::{AuditedGroup, AuditedSample, Difference, ties};
use super::selection::{AuditRates, Selection};
use super::{SamplerAudit, selection};
use crate::evidence::samples::{AuditedSequence, Drawing, StepEvidence};
use crate::scorer::{LearnerScorer, LearnerToken, PublishedWeights, SampledDistribution};

/// Answers that are chosen on average where the settings say less: that none is has a chance of one in ten million.
const LEAST: u32 = 16;

/// A choice among the answers of an evaluation, made before any is requested; by default of none.
#[derive(Debug, Default)]
pub struct AnswerChoice {
    nonce: u64,
    step: u64,
    sequences: u32,
    selection: Option<Selection>,
    /// Chosen answers that could not be generated.
    missing: u64,
}

impl AnswerChoice {
    /// Chooses among so many answers, each by itself.
    pub fn among(&mut self, answers: u64) {
        let rates = AuditRates { sequences: self.sequences, samples: answers, every: 1 };
        self.selection = (self.sequences > 0).then(|| Selection::new(self.nonce, self.step, rates));
    }

    /// The chosen sequences of so many answers to a problem. One that could not be generated is counted.
    pub fn take(&mut self, group: &impl AuditedGroup, answers: u32) -> Vec<AuditedSample> {
        let sequences = |answer| (0..group.sequences(answer).max(1)).map(move |sequence| (answer, sequence));
        let mut taken = Vec::new();
        for (answer, sequence) in (0..answers).flat_map(sequences) {
            if self.takes(group.prompt(), answer, sequence) {
                let drawn = group.sample(answer, sequence);
                self.missing += u64::from(drawn.is_empty());
                taken.extend(drawn);
            }
        }
        taken
    }

    /// Whether a sequence of the answer of that number to a problem is chosen.
    pub(super) fn takes(&mut self, problem: u64, answer: u32, sequence: u32) -> bool {
        self.selection.as_mut().is_some_and(|selection| selection.takes(problem, answer, sequence))
    }
}

/// What the audit of an evaluation saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvaluationReport {
    /// Answers that were scored.
    pub audited: u64,
    /// Chosen answers that could not be generated, or not be scored.
    pub not_possible: u64,
    /// Whether an engine failed a check, which is a warning.
    pub failed: bool,
    /// The secret number that decided which answers are scored. `None` where nothing is checked.
    pub nonce: Option<u64>,
    /// Whether the settings fix it, so that an engine may know it.
    pub nonce_is_fixed: bool,
}

impl EvaluationReport {
    /// Whether answers were looked at that no engine could foretell, and nothing was found.
    pub fn is_verified(&self) -> bool {
        self.audited > 0 && self.not_possible == 0 && !self.failed && !self.nonce_is_fixed
    }
}

impl SamplerAudit {
    /// Which answers of an evaluation of the weights after a step are to be looked at.
    pub fn answers(&self, step: u64) -> AnswerChoice {
        let sequences = if self.is_on() { self.settings.sequences.max(LEAST) } else { 0 };
        AnswerChoice { nonce: self.nonce(), step, sequences, ..AnswerChoice::default() }
    }

    /// Looks at the chosen answers of an evaluation of the weights after a step. Each comes with the distribution that
    /// it was drawn from. Answers of an engine that has the learner's bits must be those that the learner draws; those
    /// of others are added to what is known of the engine.
    ///
    /// # Errors
    /// An engine that differs, unless that is a warning; what the scorer says.
    pub async fn evaluation<L: LearnerScorer>(
        &self,
        step: u64,
        choice: &AnswerChoice,
        answers: &[(AuditedSample, SampledDistribution)],
        learner: &L,
    ) -> Result<EvaluationReport, L::Error> {
        let mut report = EvaluationReport {
            nonce: self.is_on().then_some(choice.nonce),
            nonce_is_fixed: self.settings.nonce.is_some(),
            not_possible: choice.missing,
            ..EvaluationReport::default()
        };
        let mut shown = StepEvidence::default();
        let mut tie = ties(Uniforms::new(self.sampling.seed, selection::stream(step)));
        for (answer, distribution) in answers {
            let is_greedy = distribution.temperature == 0.0;
            let drawing = if is_greedy {
                Drawing::Likeliest
            } else if distribution.is_truncated() && !self.sampling.distribution.is_truncated() {
                Drawing::Cut
            } else {
                Drawing::Sampled
            };
            let distribution = if is_greedy { distribution.whole() } else { distribution.clone() };
            let has_bits = self.has_the_learners_bits(answer);
            for version in answer.versions() {
                let asked = answer.prompted(has_bits && !is_greedy);
                let view = match learner.view(&[asked], &PublishedWeights::of(version), &distribution).await? {
                    Ok(view) => view.responses.into_iter().next().unwrap_or_default(),
                    Err(not_scored) => {
                        report.not_possible += 1;
                        self.say_not_possible(version, &not_scored);
                        continue;
                    }
                };
                report.audited += 1;
                let tokens = answer.tokens(version, 0, &view, &distribution, &mut tie);
                if let Some(fault) = self.beyond_f32(answer, step, &tokens, distribution.is_truncated()) {
                    report.failed = true;
                    self.accuse(fault)?;
                }
                if !has_bits {
                    shown.sequences.push(AuditedSequence { engine: answer.engine.clone(), tokens, drawing });
                    continue;
                }
                let unlikely = if is_greedy { not_the_likeliest(answer, &view) } else { None };
                if let Some(difference) = unlikely.or_else(|| answer.difference(version, 0, &view)) {
                    report.failed = true;
                    self.accuse(super::of_difference(answer, step, difference))?;
                } else if answer.drawn_by(version, 0).next().is_some() {
                    self.proof.note_equal_sample(&answer.engine);
                }
            }
        }
        report.failed |= self.commit_evaluation(step, &shown)?;
        Ok(report)
    }
}

/// The first token of an answer that is not the likeliest one.
fn not_the_likeliest(answer: &AuditedSample, view: &[LearnerToken]) -> Option<Difference> {
    let sampled = answer.drawn.iter().zip(view).map(|(drawn, token)| drawn.is_some() && token.rank > 1);
    let token = sampled.into_iter().position(|unlikely| unlikely)?;
    Some(Difference::Rank { token, rank: view[token].rank })
}
