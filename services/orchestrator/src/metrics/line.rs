//! One line of metrics and how it is written.

use std::collections::BTreeMap;

use evenkeel_proto::v1::StepKind;
use serde_json::{Map, Number, Value};

/// One line of metrics. As JSON it is flat: `step` and `policy_version`, then every value under its name, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is about; each kind has a file of its own.
    pub kind: StepKind,
    /// Number of the step among those of its kind, from 0. For an evaluation the GRPO steps done before it.
    pub step: u64,
    /// Version of the weights after it.
    pub policy_version: u64,
    /// Finite values only.
    pub values: BTreeMap<String, f64>,
}

impl Line {
    /// A line without values yet.
    pub(crate) fn new(kind: StepKind, step: u64, policy_version: u64) -> Self {
        Self { kind, step, policy_version, values: BTreeMap::new() }
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Sets a value; one that is absent or not finite is left out.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.values.insert(name.into(), value);
        }
    }

    pub(crate) fn spread(&mut self, name: &str, spread: super::Spread) {
        self.set(format!("{name}/mean"), spread.mean());
        self.set(format!("{name}/max"), Some(spread.most).filter(|_| spread.count > 0));
        self.set(format!("{name}/min"), Some(spread.least).filter(|_| spread.count > 0));
    }

    /// The line without its line break.
    pub fn to_json(&self) -> String {
        let mut map = Map::new();
        map.insert("step".to_owned(), self.step.into());
        map.insert("policy_version".to_owned(), self.policy_version.into());
        for (name, value) in &self.values {
            if let Some(number) = number(*value) {
                map.insert(name.clone(), number.into());
            }
        }
        Value::Object(map).to_string()
    }

    /// Reads a line of that kind. `None` where it is none.
    pub fn from_json(kind: StepKind, text: &str) -> Option<Self> {
        let map: Map<String, Value> = serde_json::from_str(text).ok()?;
        let mut line = Self::new(kind, map.get("step")?.as_u64()?, map.get("policy_version")?.as_u64()?);
        for (name, value) in map {
            if name != "step" && name != "policy_version" {
                line.set(name, value.as_f64());
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
    fn a_line_comes_back_to_the_bit() {
        let mut line = Line::new(StepKind::Train, 3, 404);
        for (index, value) in [0.1 + 0.2, 1e-300, -0.0, 256.0, 1.0 / 3.0].into_iter().enumerate() {
            line.set(format!("a/{index}"), value);
        }
        line.set("nothing", None);
        line.set("no/number", f64::NAN);
        let text = line.to_json();
        assert!(text.contains("\"a/3\":256,") && !text.contains("no"), "{text}");
        let again = Line::from_json(StepKind::Train, &text).unwrap();
        assert_eq!(again, line);
        assert!(again.values["a/2"].is_sign_negative());
        assert_eq!(again.to_json(), text);
    }

    #[test]
    fn half_a_line_is_none() {
        assert_eq!(Line::from_json(StepKind::Train, "{\"step\":1,\"policy_ver"), None);
        assert_eq!(Line::from_json(StepKind::Train, "{\"step\":1}"), None);
    }
}
