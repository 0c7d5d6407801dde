//! What an audit says in the metrics line of its step.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_run::MetricsLine;
use evenkeel_run::metric::{MetricName, table as metric};
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
    values: BTreeMap<MetricName, f64>,
}

impl AuditReport {
    /// Adds the state of all engines: of each check the largest evidence, as a decimal logarithm.
    #[must_use]
    pub(super) fn with_engines<'a>(mut self, engines: impl Iterator<Item = &'a EngineChecks>) -> Self {
        let engines: Vec<_> = engines.collect();
        for check in Check::ALL {
            let most = engines.iter().map(|engine| engine.evidence(check)).fold(0.0, f64::max);
            if most > 0.0 {
                self.values.insert(metric::AUDIT_EVIDENCE.of([&check.key()]), most.log10());
            }
        }
        let sum = |of: &dyn Fn(&EngineChecks) -> f64| engines.iter().map(|engine| of(engine)).sum::<f64>();
        let tokens = sum(&|engine| engine.sums.tokens as f64);
        let outside = sum(&|engine| engine.sums.outside as f64);
        let mut set = |name: MetricName, value: f64| self.values.insert(name, value);
        set(metric::AUDIT_TOKENS.into(), tokens);
        set(metric::AUDIT_COPIES.into(), sum(&|engine| engine.sums.copies as f64));
        set(metric::AUDIT_EXPECTED_COPIES.into(), sum(&|engine| engine.sums.expected_copies));
        if tokens > outside {
            let variance = sum(&|engine| engine.sums.variance) / (tokens - outside);
            set(metric::AUDIT_VARIANCE.into(), variance);
            set(metric::AUDIT_GAP.into(), (sum(&|engine| engine.sums.squared_gap) / (tokens - outside)).sqrt());
            for percent in [2_u32, 10] {
                if let Some(needed) = tokens_to_decision(variance, f64::from(percent) / 100.0) {
                    set(metric::AUDIT_NEEDED.of([&percent]), needed);
                }
            }
        }
        self
    }

    /// Adds its values to the metrics line of a step.
    pub(in crate::run) fn add_to(&self, line: &mut MetricsLine) {
        line.set(metric::AUDIT_SAMPLES, self.sequences as f64);
        line.set(metric::AUDIT_MISSING, self.missing as f64);
        line.set(metric::AUDIT_NOT_POSSIBLE, self.not_possible as f64);
        line.set(metric::AUDIT_TIME, self.took.as_secs_f64());
        self.values.iter().for_each(|(name, value)| line.set(name.clone(), *value));
    }
}
