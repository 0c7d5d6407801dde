//! The numbers of an audit.

use std::time::Duration;

use evenkeel_statistics::evidence::tokens_to_decision;

use crate::evidence::samples::{AuditedEngines, EngineChecks, SamplerCheck};

/// Errors of a temperature, in percent, for which a report says how many tokens show them.
const TEMPERATURE_ERRORS: [u32; 2] = [2, 10];

/// What a step's audit saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditReport {
    /// Samples that were scored in this step.
    pub sequences: u64,
    /// Chosen samples that could not be generated.
    pub missing: u64,
    /// Chosen samples that the learner could not score, since their version's weights are gone or do not fit.
    pub not_possible: u64,
    /// Further passes over samples of a version, which suspicions of their weights took.
    pub passes: u64,
    /// The secret number of the step, which decided which samples are scored. `None` where nothing is checked.
    pub nonce: Option<u64>,
    /// Whether the settings fix it, so that an engine may know it.
    pub nonce_is_fixed: bool,
    /// How long the learner computed to score them.
    pub computing: Duration,
    /// How long the audit waited for that: until the learner had time, and for messages.
    pub waiting: Duration,
    /// Largest evidence against an engine by check, as a decimal logarithm. Checks have their names in metrics.
    pub evidence: Vec<(&'static str, f64)>,
    /// Tokens audited so far.
    pub tokens: f64,
    /// Answers so far that were equal to an earlier one of their prompt.
    pub copies: f64,
    /// How many of these were to be expected.
    pub expected_copies: f64,
    /// Mean variance of log p over the tokens that the learner would draw.
    pub variance: Option<f64>,
    /// Root mean square of engine minus learner over these tokens, in nats.
    pub gap: Option<f64>,
    /// Number of tokens that reveal a temperature which is off by this percentage.
    pub tokens_needed: Vec<(u32, f64)>,
}

impl AuditReport {
    /// Adds what is known of all engines.
    #[must_use]
    pub(super) fn with_engines(mut self, engines: &AuditedEngines) -> Self {
        for check in SamplerCheck::ALL {
            let most = engines.checks().map(|engine| engine.evidence(check)).fold(0.0, f64::max);
            if most > 0.0 {
                self.evidence.push((check.key(), most.log10()));
            }
        }
        let sum = |of: &dyn Fn(&EngineChecks) -> f64| engines.checks().map(of).sum::<f64>();
        self.tokens = sum(&|engine| engine.sums.tokens as f64);
        self.copies = sum(&|engine| engine.sums.copies as f64);
        self.expected_copies = sum(&|engine| engine.sums.expected_copies);
        let inside = sum(&|engine| engine.sums.inside as f64);
        if inside > 0.0 {
            let variance = sum(&|engine| engine.sums.variance) / inside;
            self.variance = Some(variance);
            self.gap = Some((sum(&|engine| engine.sums.squared_gap) / inside).sqrt());
            let needed = |percent: u32| Some((percent, tokens_to_decision(variance, f64::from(percent) / 100.0)?));
            self.tokens_needed = TEMPERATURE_ERRORS.into_iter().filter_map(needed).collect();
        }
        self
    }
}
