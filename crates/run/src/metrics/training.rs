//! What a line says of the training of its step.

use evenkeel_proto::v1::TrainReport;

use super::MetricsLine;
use crate::metric::table as metric;

impl MetricsLine {
    /// Sets the values that the learner reports of a GRPO step.
    pub fn set_training(&mut self, report: &TrainReport) {
        // The learner's own names first: where it uses one of verl's, it means the same quantity.
        for (name, value) in &report.metrics {
            self.set_named(name.as_str(), *value);
        }
        self.set(metric::LOSS, report.loss);
        self.values.entry(metric::POLICY_LOSS.name.to_owned()).or_insert(report.loss);
        self.set(metric::GRADIENT_NORM, report.gradient_norm);
        self.set(metric::LEARNING_RATE, report.learning_rate);
        self.set(metric::SKIPPED, f64::from(u8::from(report.skipped)));
        self.set(metric::TRAINABLE_TOKENS, report.trainable_tokens as f64);
        self.set(metric::WITHOUT_SIGNAL, f64::from(report.groups_without_signal));
    }
}
