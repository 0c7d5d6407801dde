//! Task and reference of a row, for its question.

use evenkeel_proto::FieldError;
use serde_json::Value;

use crate::question::Question;
use crate::settings::JudgeSettings;

/// Columns with the task's text, and with a reference answer, in the order in which they are looked for.
const PROMPTS: [&str; 3] = ["prompt", "problem", "question"];
const REFERENCES: [&str; 5] = ["reference", "answer", "gold", "solution", "reward_model.ground_truth"];

impl JudgeSettings {
    /// The question about an answer to the task of a row, by the columns of the settings.
    ///
    /// # Errors
    /// A row without the task's text, or without the reference where the settings name its column.
    pub fn question(&self, row: &Value, answer: String) -> Result<Question, FieldError> {
        let column = |named: &str, usual: &[&str]| -> Option<String> {
            let names = if named.is_empty() { usual.to_vec() } else { vec![named] };
            names.into_iter().find_map(|name| text_of(inner(row, name)?))
        };
        let missing = |field: &str, names: &str| {
            FieldError::missing(field, format!("the column {names} (reward.judge.{field}_column)"))
        };
        let Self { prompt_column, reference_column, .. } = self;
        let any = PROMPTS.join(", ");
        let named = if prompt_column.is_empty() { &any } else { prompt_column };
        let prompt = column(prompt_column, &PROMPTS).ok_or_else(|| missing("prompt", named))?;
        let reference = column(reference_column, &REFERENCES);
        if reference.is_none() && !reference_column.is_empty() {
            return Err(missing("reference", reference_column));
        }
        Ok(Question { prompt, reference, answer })
    }
}

/// A column, with dots for inner fields.
fn inner<'a>(row: &'a Value, name: &str) -> Option<&'a Value> {
    let whole = row.get(name);
    whole.or_else(|| name.split('.').try_fold(row, |value, part| value.get(part))).filter(|value| !value.is_null())
}

/// A column as text: a conversation message by message, a list line by line. `None` for an empty one.
fn text_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(part_of).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => match fields.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        },
        other => other.to_string(),
    };
    (!text.trim().is_empty()).then_some(text)
}

/// A message of a conversation with its role, or a part of a list.
fn part_of(part: &Value) -> Option<String> {
    match (part.get("role").and_then(Value::as_str), part.get("content")) {
        (Some(role), Some(content)) => Some(format!("{role}: {}", text_of(content)?)),
        _ => text_of(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_become_texts() {
        let row = json!({
            "prompt": [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": [{"text": "4"}]}],
            "reward_model": {"ground_truth": ["5", "five"]}, "empty": "", "none": null, "number": 5,
        });
        let text = |name: &str| inner(&row, name).and_then(text_of);
        assert_eq!(text("prompt").unwrap(), "user: 2 + 3?\nassistant: 4");
        assert_eq!(text("reward_model.ground_truth").unwrap(), "5\nfive");
        assert_eq!(
            (text("number").as_deref(), text("empty"), text("none"), text("a.b")),
            (Some("5"), None, None, None)
        );
    }

    #[test]
    fn a_question_has_the_usual_columns_or_those_of_the_settings() {
        let row = json!({"problem": "2 + 3?", "answer": "5", "mine": {"task": "six?"}});
        let question = |settings: &JudgeSettings| settings.question(&row, "a".to_owned());
        let usual = question(&JudgeSettings::default()).unwrap();
        assert_eq!((usual.prompt.as_str(), usual.reference.as_deref()), ("2 + 3?", Some("5")));
        let own = JudgeSettings { prompt_column: "mine.task".to_owned(), ..JudgeSettings::default() };
        assert_eq!(question(&own).unwrap().prompt, "six?");
        let absent = JudgeSettings { reference_column: "rating".to_owned(), ..JudgeSettings::default() };
        let error = question(&absent).unwrap_err().to_string();
        assert_eq!(error, "reference is absent, required: the column rating (reward.judge.reference_column)");
        let error = JudgeSettings::default().question(&Value::Null, String::new()).unwrap_err().to_string();
        assert_eq!(
            error,
            "prompt is absent, required: the column prompt, problem, question (reward.judge.prompt_column)"
        );
        let free = JudgeSettings::default().question(&json!({"prompt": "Sing."}), String::new()).unwrap();
        assert_eq!(free.reference, None, "a rubric may need no reference");
    }
}
