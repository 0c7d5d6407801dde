//! What files make of messages, and chat templates do not expect: keys with null, rounded numbers, arguments as text.

use serde_json::Value;

/// Takes out keys without a value, at every depth: a table has every key in every message and in every call, a template
/// asks whether a key exists, and a row asks the same in every kind of file.
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

/// A whole number of JSON that 64 bits do not hold, as it is written. Reading it would round it.
pub(crate) fn beyond_64_bits(json: &str) -> Option<&str> {
    let mut rest = json;
    while let Some(at) = rest.find(|found: char| found == '"' || found == '-' || found.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = after_text(text);
            continue;
        }
        let end = rest.find(|found: char| !matches!(found, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let (number, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let is_whole = !number.contains(['.', 'e', 'E']);
        if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            return Some(number);
        }
        rest = behind;
    }
    None
}

/// What follows the end of a text of JSON.
fn after_text(text: &str) -> &str {
    let mut is_escaped = false;
    let end = text.find(|found: char| {
        let ends = found == '"' && !is_escaped;
        is_escaped = found == '\\' && !is_escaped;
        ends
    });
    end.map_or("", |end| &text[end + 1..])
}

/// Whether a value has a number that may have been rounded.
pub(crate) fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(values) => values.iter().any(has_float),
        Value::Object(keys) => keys.values().any(has_float),
        _ => false,
    }
}

/// Reads the arguments of calls that are the text of a JSON object, as OpenAI's API writes them: a template would
/// write that text as JSON once more.
///
/// # Errors
/// A whole number in them that 64 bits do not hold, as it is written.
pub(crate) fn read_arguments(messages: &mut Value) -> Result<(), String> {
    let messages = messages.as_array_mut().into_iter().flatten();
    for call in messages.filter_map(|message| message.get_mut("tool_calls")?.as_array_mut()).flatten() {
        let arguments = match call.get_mut("function") {
            Some(function) => function.get_mut("arguments"),
            None => call.get_mut("arguments"),
        };
        if let Some(arguments) = arguments
            && let Some(text) = arguments.as_str()
            && let Ok(object @ Value::Object(_)) = serde_json::from_str(text)
        {
            if let Some(number) = beyond_64_bits(text) {
                return Err(number.to_owned());
            }
            *arguments = object;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use evenkeel_chat::Prompt;
    use serde_json::json;

    use super::*;
    use crate::{DataRow, Fields, RowLocation};

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
            assert_eq!(read_arguments(&mut messages), Ok(()));
            assert_eq!(messages, call(expected));
        }
    }

    fn line(arguments: &str) -> DataRow {
        let json = format!(
            r#"{{"prompt": [{{"role": "user", "content": "a", "name": null}}, {{"role": "assistant", "tool_calls":
            [{{"function": {{"name": "f", "arguments": {arguments}}}}}]}}]}}"#
        );
        DataRow::parse(1, json).unwrap()
    }

    fn asked(row: &DataRow) -> Result<Prompt, String> {
        Fields::default().prompt(row).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_and_tables_give_the_same_messages_without_keys_that_have_null() {
        let line = line(r#"{"n": 1.5, "unit": null, "all": [null, {"x": null}]}"#);
        let values = json!({"prompt": line.get("prompt").unwrap()}).as_object().unwrap().clone();
        let table = DataRow::of_table(RowLocation::Row(1), values, "prompt".into());
        assert_eq!(asked(&line), asked(&table));
        let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls":
            [{"function": {"name": "f", "arguments": {"n": 1.5, "all": [null, {}]}}}]}]);
        assert_eq!(asked(&line), Ok(Prompt::new("prompt", messages).unwrap()));
    }

    #[test]
    fn a_whole_number_that_64_bits_do_not_hold_is_refused_and_not_rounded() {
        let said = "`prompt` is messages with the number 123456789012345678901, allowed: whole numbers of at most 64 \
                    bits; write a longer one as a text";
        for arguments in [r#"{"n": [123456789012345678901]}"#, r#""{\"n\": 123456789012345678901}""#] {
            assert_eq!(asked(&line(arguments)), Err(said.to_owned()), "{arguments}");
        }
        for arguments in [
            r#"{"n": [18446744073709551615, -9223372036854775808, 1e30, 0.12345678901234567890123]}"#,
            r#"{"n": "123456789012345678901", "a\"-99999999999999999999": 1.5}"#,
        ] {
            assert!(asked(&line(arguments)).is_ok(), "{arguments}");
        }
        assert_eq!(beyond_64_bits("[-9223372036854775809]"), Some("-9223372036854775809"));
    }
}
