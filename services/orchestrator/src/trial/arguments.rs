//! Arguments of a tool that fit its schema.

use serde_json::{Map, Value, json};

/// Deepest part of a schema that is looked at.
const DEPTH: u32 = 8;

/// An object that a schema allows; `None` where it does not say enough to make one.
pub(super) fn arguments(schema: &Value) -> Option<Value> {
    example(schema, DEPTH)
}

fn example(schema: &Value, depth: u32) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|values| values.first()).cloned();
    let fixed = [schema.get("const").cloned(), schema.get("default").cloned(), first("enum"), first("examples")];
    if let Some(value) = fixed.into_iter().flatten().next() {
        return Some(value);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            return choices.iter().find_map(|choice| example(choice, depth));
        }
    }
    let kind = match schema.get("type")? {
        Value::Array(kinds) => kinds.iter().find_map(|kind| kind.as_str().filter(|kind| *kind != "null"))?,
        kind => kind.as_str()?,
    };
    let number = |key: &str| schema.get(key).and_then(Value::as_i64);
    Some(match kind {
        "string" => Value::String("a".repeat(usize::try_from(number("minLength").unwrap_or(1).clamp(1, 64)).ok()?)),
        "integer" | "number" => json!(number("minimum").unwrap_or(1.min(number("maximum").unwrap_or(1)))),
        "boolean" => Value::Bool(true),
        "null" => Value::Null,
        "array" => match schema.get("items") {
            Some(items) => Value::Array(vec![example(items, depth)?]),
            None => json!([]),
        },
        "object" => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let mut object = Map::new();
            for name in required.filter_map(Value::as_str) {
                object.insert(name.to_owned(), example(properties?.get(name)?, depth)?);
            }
            Value::Object(object)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_requires_is_filled_in_and_what_it_does_not_say_is_not_guessed() {
        let filled = |properties: Value| {
            let required: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
            arguments(&json!({"type": "object", "properties": properties, "required": required}))
        };
        let all = json!({
            "item": {"type": "string"}, "size": {"enum": ["small", "large"]}, "price": {"type": "integer", "minimum": 3},
            "ids": {"type": "array", "items": {"type": "integer"}}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "is_new": {"type": ["null", "boolean"]},
        });
        let made = json!({"item": "a", "size": "small", "price": 3, "ids": [1], "note": "a", "is_new": true});
        assert_eq!(filled(all), Some(made));
        assert_eq!(filled(json!({"item": {}})), None, "a parameter without a type");
        assert_eq!(filled(json!({"item": {"$ref": "#/x"}})), None);
        assert_eq!(arguments(&json!({"type": "object", "properties": {"item": {}}})), Some(json!({})), "optional");
    }
}
