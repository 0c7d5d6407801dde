//! What reward functions and environments get of a row: all of its columns with their types, as a JSON object.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::digest::Digest;
use crate::null_keys::without_null_keys;
use crate::row::{DataRow, RowError, refused};
use crate::verifiers::CUSTOM;
use crate::{Reason, Task};

/// A task of verifiers, whose own model reads it: there null and absent differ.
const WHOLE: &str = "environment_task";
/// May also hold columns such as `index` and `split`.
const EXTRA_INFO: &str = "extra_info";
/// Parts of `extra_info` that only say where a row stands in its file. Rows that differ in nothing else are equal.
const PLACE: &[&str] = &["index", "split"];

/// The columns of a row that are not null, each as JSON without the keys that have null. Numbers keep all of their digits.
#[derive(Debug)]
pub(crate) struct Payload {
    columns: BTreeMap<String, Box<RawValue>>,
    /// What the row itself says that its verifier gets, instead of its columns.
    own: Option<String>,
}

impl Payload {
    pub(crate) fn of(row: &DataRow) -> Self {
        let payload = row.get(CUSTOM).and_then(|custom| custom.get("payload")).filter(|payload| !payload.is_null());
        let own = payload.map(|payload| match payload {
            Value::String(text) => text.clone(),
            other => row.json("custom.payload").unwrap_or_else(|| other.to_string()),
        });
        let mut columns = row.written_columns();
        // A table has every key in every row, so that null in an object can only mean that it is absent.
        for (_, value) in columns.iter_mut().filter(|(name, value)| *name != WHOLE && value.get().contains("null")) {
            if let Some(json) = without_null_keys(value.get()).and_then(|json| RawValue::from_string(json).ok()) {
                *value = json;
            }
        }
        Self { columns, own }
    }

    /// The payload as a verifier or an environment reads it.
    pub(crate) fn json(&self) -> String {
        match &self.own {
            Some(own) => own.clone(),
            // A map of JSON values is always JSON.
            None => serde_json::to_string(&self.columns).unwrap_or_default(),
        }
    }

    /// The task of the row for the verifier of that name.
    pub(crate) fn task(&self, verifier: &str) -> Task {
        Task::custom(verifier, self.json())
    }

    /// Tells rows apart that have the same prompt: a digest of all columns but those `without`, and of where the row
    /// stands in its file.
    pub(crate) fn digest(&self, without: &[&str]) -> Digest {
        if let Some(own) = &self.own {
            return Digest::of_texts([own.as_str()]);
        }
        let mut texts = Vec::new();
        for (name, value) in self.columns.iter().filter(|(name, _)| !without.contains(&name.as_str())) {
            texts.push(name.clone());
            texts.push(without_place(name, value));
        }
        Digest::of_texts(texts.iter().map(String::as_str))
    }

    /// Refuses columns that are longer than `most` bytes together, those `without` not counted.
    ///
    /// # Errors
    /// The longest column and its length.
    pub(crate) fn require_short(&self, without: &[&str], most: usize) -> Result<(), RowError> {
        let others = self.columns.iter().filter(|(name, _)| !without.contains(&name.as_str()));
        let lengths: Vec<_> = others.map(|(name, value)| (name, value.get().len())).collect();
        let total: usize = lengths.iter().map(|(_, length)| length).sum();
        match lengths.iter().max_by_key(|(_, length)| *length) {
            Some((name, length)) if total > most => {
                let value = format!("{length} bytes long, and the row's columns {total} bytes");
                let allowed = format!("{most} bytes besides prompt, gold answer and tests (data.max_columns)");
                Err(RowError::field(Reason::InvalidRow, refused(name, value, allowed)))
            }
            _ => Ok(()),
        }
    }
}

/// A column without the parts that say where the row stands.
fn without_place(name: &str, value: &RawValue) -> String {
    if name == EXTRA_INFO
        && let Ok(mut parts) = serde_json::from_str::<BTreeMap<&str, &RawValue>>(value.get())
    {
        parts.retain(|part, _| !PLACE.contains(part));
        return serde_json::to_string(&parts).unwrap_or_default();
    }
    value.get().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(json: &str) -> Payload {
        Payload::of(&DataRow::parse(1, json).unwrap())
    }

    #[test]
    fn every_column_is_there_as_it_is_written_and_null_is_absent_at_any_depth() {
        let json = r#"{"prompt": "a", "answer": 1.50, "items": [1, {"b": null}], "id": 9007199254740993, "big": 123456789012345678901234567890, "none": null, "level": {"x": true}, "environment_task": {"x": null}}"#;
        let expected = r#"{"answer":1.50,"big":123456789012345678901234567890,"environment_task":{"x": null},"id":9007199254740993,"items":[1, {}],"level":{"x": true},"prompt":"a"}"#;
        assert_eq!(payload(json).json(), expected);
        assert_eq!(
            payload(r#"{"custom": {"payload": {"n": 18446744073709551617}}}"#).json(),
            r#"{"n": 18446744073709551617}"#
        );
        assert_eq!(payload(r#"{"custom": {"payload": "as it is"}}"#).json(), "as it is");
    }

    #[test]
    fn rows_differ_where_a_column_does_and_not_where_they_stand() {
        let digest = |json: &str| payload(json).digest(&["prompt", "id"]);
        let row = |place: u32, board: &str| {
            format!(
                r#"{{"prompt": "{place}", "id": {place}, "extra_info": {{"index": {place}, "split": "s{place}", "board": "{board}"}}}}"#
            )
        };
        assert_eq!(digest(&row(1, "x")), digest(&row(2, "x")));
        assert_ne!(digest(&row(1, "x")), digest(&row(1, "y")));
        assert_ne!(digest(r#"{"money": 1}"#), digest(r#"{"money": 2}"#));
    }

    #[test]
    fn columns_that_are_too_long_are_refused_by_the_longest() {
        let row = payload(r#"{"prompt": "aaaaaaaaaaaaaaaaaaaa", "b": "bbbbbbbb", "c": 1}"#);
        assert_eq!(row.require_short(&["prompt"], 11), Ok(()));
        let error = row.require_short(&["prompt"], 10).unwrap_err().to_string();
        assert_eq!(
            error,
            "`b` is 10 bytes long, and the row's columns 11 bytes, allowed: 10 bytes besides prompt, gold answer and \
             tests (data.max_columns)"
        );
    }
}
