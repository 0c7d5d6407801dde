//! What files make of messages, and a chat template does not expect.

use serde_json::Value;

/// Takes out keys without a value, at every depth: a table has every key in every message and in every call, and a
/// template asks whether a key exists.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            keys.retain(|_, key| !key.is_null());
            keys.values_mut().for_each(drop_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Reads the arguments of calls that are the text of a JSON object, as OpenAI's API writes them: a template would
/// write that text as JSON once more.
pub(crate) fn read_arguments(messages: &mut Value) {
    let messages = messages.as_array_mut().into_iter().flatten();
    for call in messages.filter_map(|message| message.get_mut("tool_calls")?.as_array_mut()).flatten() {
        let arguments = match call.get_mut("function") {
            Some(function) => function.get_mut("arguments"),
            None => call.get_mut("arguments"),
        };
        if let Some(arguments) = arguments
            && let Some(object @ Value::Object(_)) = arguments.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *arguments = object;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_the_text_of_an_object_are_read() {
        let call =
            |arguments: Value| json!([{"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}]}]);
        for (found, expected) in [
            (json!("{\"city\": \"Paris\"}"), json!({"city": "Paris"})),
            (json!({"city": "Paris"}), json!({"city": "Paris"})),
            (json!("Paris"), json!("Paris")),
            (json!("[1]"), json!("[1]")),
        ] {
            let mut messages = call(found);
            read_arguments(&mut messages);
            assert_eq!(messages, call(expected));
        }
    }
}
