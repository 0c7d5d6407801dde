//! Keys of JSON objects that have null.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The keys and values of an object, in their order.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject;

        impl<'de> Visitor<'de> for OfObject {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(OfObject)
    }
}

/// JSON without the keys that have null, at any depth. An element of a list stays, and numbers keep all of their digits.
/// `None` for text that is not JSON.
pub(crate) fn without_null_keys(json: &str) -> Option<String> {
    if !json.contains("null") {
        return Some(json.to_owned());
    }
    if json.starts_with('{') {
        let Entries(entries) = serde_json::from_str(json).ok()?;
        let kept = entries.into_iter().filter(|(_, value)| value.get() != "null");
        let written = kept
            .map(|(key, value)| {
                Some(format!("{}: {}", serde_json::to_string(&key).ok()?, without_null_keys(value.get())?))
            })
            .collect::<Option<Vec<_>>>()?;
        return Some(format!("{{{}}}", written.join(", ")));
    }
    if json.starts_with('[') {
        let values: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        let written = values.into_iter().map(|value| without_null_keys(value.get())).collect::<Option<Vec<_>>>()?;
        return Some(format!("[{}]", written.join(", ")));
    }
    Some(json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_null_are_gone_at_any_depth_and_nothing_else_changes() {
        for (json, without) in [
            (r#"{"a": null}"#, "{}"),
            (
                r#"{"z": 1.50, "a": null, "\u00e9": {"b": null, "c": [null, {"d": null}, 123456789012345678901]}}"#,
                r#"{"z": 1.50, "é": {"c": [null, {}, 123456789012345678901]}}"#,
            ),
            (r#"["null", null]"#, r#"["null", null]"#),
            (r#""null""#, r#""null""#),
            (r#"{"a":  1e400}"#, r#"{"a":  1e400}"#),
        ] {
            assert_eq!(without_null_keys(json).as_deref(), Some(without), "{json}");
        }
        assert_eq!(without_null_keys("{null"), None);
    }
}
