//! One line of metrics and its JSON.

use std::collections::BTreeMap;

use crate::metric::MetricName;
use evenkeel_proto::Label;
use evenkeel_proto::v1::StepKind;
use serde_json::{Map, Number, Value};

use super::Statistics;

/// Keys of a line that are no values.
const HEAD: [&str; 3] = ["kind", "policy_version", "step"];

/// One line of metrics. As JSON it is flat: `kind`, `step` and `policy_version`, and every value under its name,
/// sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsLine {
    /// Kind of the line: a warm-start step, a GRPO step or an evaluation. Each kind has its own file.
    pub kind: StepKind,
    /// Number of the step among those of its kind, from 1. For an evaluation the GRPO steps done before it.
    pub step: u64,
    /// Version of the weights after the step.
    pub policy_version: u64,
    pub values: BTreeMap<String, f64>,
}

impl MetricsLine {
    /// A line without values yet.
    pub fn new(kind: StepKind, step: u64, policy_version: u64) -> Self {
        Self { kind, step, policy_version, values: BTreeMap::new() }
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Sets the value of a metric; one that is absent or not finite is left out.
    pub fn set(&mut self, metric: impl Into<MetricName>, value: impl Into<Option<f64>>) {
        self.set_named(metric.into(), value);
    }

    /// Sets mean, maximum and minimum of a metric that is named `.../{mean,max,min}`: `of` makes the name with one of
    /// them.
    pub fn set_statistics(&mut self, of: impl Fn(&str) -> MetricName, statistics: Statistics) {
        self.set(of("mean"), statistics.mean());
        self.set(of("max"), statistics.max());
        self.set(of("min"), statistics.min());
    }

    /// Sets a value under a name from elsewhere: a learner reports what it measures, and files have lines
    /// of other versions.
    pub fn set_named(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.values.insert(name.into(), value);
        }
    }

    /// The line without its line break.
    pub fn to_json(&self) -> String {
        let mut map = Map::new();
        map.insert("kind".to_owned(), self.kind.label().into());
        map.insert("step".to_owned(), self.step.into());
        map.insert("policy_version".to_owned(), self.policy_version.into());
        for (name, value) in &self.values {
            if let Some(number) = number(*value) {
                map.insert(name.clone(), number.into());
            }
        }
        Value::Object(map).to_string()
    }

    /// Reads a line from a file of that kind. `None` where it is no line, or one of another kind.
    pub fn from_json(kind: StepKind, text: &str) -> Option<Self> {
        let map: Map<String, Value> = serde_json::from_str(text).ok()?;
        if map.get("kind")?.as_str() != Some(kind.label()) {
            return None;
        }
        let mut line = Self::new(kind, map.get("step")?.as_u64()?, map.get("policy_version")?.as_u64()?);
        for (name, value) in map {
            if !HEAD.contains(&name.as_str()) {
                line.set_named(name, value.as_f64());
            }
        }
        Some(line)
    }
}

/// Whole numbers without a fraction, so that counts read as counts.
fn number(value: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT && !(value == 0.0 && value.is_sign_negative()) {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_to_the_bit() {
        let mut line = MetricsLine::new(StepKind::Train, 3, 404);
        for (index, value) in [0.1 + 0.2, 1e-300, -0.0, 256.0, 1.0 / 3.0].into_iter().enumerate() {
            line.set_named(format!("a/{index}"), value);
        }
        line.set_named("nothing", None);
        line.set_named("no/number", f64::NAN);
        let text = line.to_json();
        assert!(text.contains("\"a/3\":256,") && !text.contains("no"), "{text}");
        assert!(text.contains("\"kind\":\"train\""), "{text}");
        let again = MetricsLine::from_json(StepKind::Train, &text).unwrap();
        assert_eq!(again, line);
        assert!(again.values["a/2"].is_sign_negative());
        assert_eq!(again.to_json(), text);
    }

    #[test]
    fn half_a_line_is_no_line() {
        assert_eq!(MetricsLine::from_json(StepKind::Train, "{\"kind\":\"train\",\"step\":1,\"policy_ver"), None);
        assert_eq!(MetricsLine::from_json(StepKind::Train, "{\"kind\":\"train\",\"step\":1}"), None);
    }

    #[test]
    fn a_line_of_another_kind_is_none_of_the_file() {
        let text = MetricsLine::new(StepKind::Evaluation, 1, 2).to_json();
        assert!(MetricsLine::from_json(StepKind::Evaluation, &text).is_some());
        assert_eq!(MetricsLine::from_json(StepKind::Train, &text), None);
        assert_eq!(MetricsLine::from_json(StepKind::Train, r#"{"policy_version":2,"step":1}"#), None, "it says none");
    }
}
