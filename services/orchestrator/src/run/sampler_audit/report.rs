//! What an audit says in the metrics line of its step.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_run_files::MetricsLine;
use evenkeel_statistics::evidence::tokens_to_decision;

use super::checks::{Check, EngineChecks};

/// What a step's audit saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::run) struct AuditReport {
    /// Samples that were scored in this step.
    pub(super) sequences: u64,
    /// Chosen samples that could not be generated.
    pub(super) missing: u64,
    /// Chosen samples that the learner could not score, since their version's weights are gone or do not fit.
    pub(super) not_possible: u64,
    /// What scoring took.
    pub(super) took: Duration,
    values: BTreeMap<String, f64>,
}

impl AuditReport {
    /// Adds the state of all engines: of each check the largest evidence, as a decimal logarithm.
    #[must_use]
    pub(super) fn with_engines<'a>(mut self, engines: impl Iterator<Item = &'a EngineChecks>) -> Self {
        let engines: Vec<_> = engines.collect();
        for check in Check::ALL {
            let most = engines.iter().map(|engine| engine.evidence(check)).fold(0.0, f64::max);
            if most > 0.0 {
                self.values.insert(format!("sampler_audit/evidence/{}", check.key()), most.log10());
            }
        }
        let sum = |of: &dyn Fn(&EngineChecks) -> f64| engines.iter().map(|engine| of(engine)).sum::<f64>();
        let (tokens, outside) = (sum(&|engine| engine.sums.tokens as f64), sum(&|engine| engine.sums.outside as f64));
        let mut set = |name: &str, value: f64| self.values.insert(format!("sampler_audit/{name}"), value);
        set("tokens", tokens);
        set("copies", sum(&|engine| engine.sums.copies as f64));
        set("expected_copies", sum(&|engine| engine.sums.expected_copies));
        if tokens > outside {
            let variance = sum(&|engine| engine.sums.variance) / (tokens - outside);
            set("variance", variance);
            set("gap", (sum(&|engine| engine.sums.squared_gap) / (tokens - outside)).sqrt());
            for (name, relative) in [("tokens_for_2_percent", 0.02), ("tokens_for_10_percent", 0.1)] {
                if let Some(needed) = tokens_to_decision(variance, relative) {
                    set(name, needed);
                }
            }
        }
        self
    }

    /// Adds its values to the metrics line of a step.
    pub(in crate::run) fn add_to(&self, line: &mut MetricsLine) {
        line.set("sampler_audit/samples", self.sequences as f64);
        line.set("sampler_audit/missing_samples", self.missing as f64);
        line.set("sampler_audit/not_possible", self.not_possible as f64);
        line.set("timing_s/sampler_audit", self.took.as_secs_f64());
        self.values.iter().for_each(|(name, value)| line.set(name.as_str(), *value));
    }
}
