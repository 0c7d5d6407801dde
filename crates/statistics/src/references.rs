//! The references that `tests/golden/make_references.py` computes.

use serde_json::Value;

/// The cases of a section.
pub(crate) fn section(name: &str) -> Vec<Value> {
    let references: Value = serde_json::from_str(include_str!("../tests/golden/references.json")).unwrap();
    references[name].as_array().unwrap().clone()
}

/// An array of numbers.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// An array of arrays of numbers.
pub(crate) fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}
