//! Rows with mathematical answers, in the formats of published data sets.

use anyhow::Result;
use evenkeel_data::{DataRow as Columns, Fields, Rules, TaskKind};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{VerifyItem, verify_item::Answer};
use serde_json::Value;

/// An answer to judge.
pub(super) struct AnswerRow {
    /// The id of the row, or the line number.
    pub(super) id: Value,
    /// The item for the verifier.
    pub(super) item: VerifyItem,
    /// The expectation in the row.
    pub(super) expected: Option<bool>,
}

impl AnswerRow {
    /// Reads a row with `prediction` or `completion`, and optionally `expected`.
    pub(super) fn read(row: &Columns, fields: &Fields, rules: &Rules) -> Result<Self> {
        let completion = row.get("form").and_then(Value::as_str) == Some("completion");
        let answer = match (row.get("completion"), row.get("prediction").or_else(|| row.get("pred"))) {
            (Some(text), _) => Answer::Completion(string(text, "completion")?),
            (None, Some(text)) if completion => Answer::Completion(string(text, "prediction")?),
            (None, Some(text)) => Answer::Extracted(string(text, "prediction")?),
            (None, None) => {
                let allowed = "`prediction` (the answer alone) or `completion` (a whole output)";
                return Err(FieldError::missing("the answer", allowed).into());
            }
        };
        let task = fields.task(row)?;
        if task.kind() != TaskKind::Math {
            let allowed = "one with a gold answer (see `evenkeel verify math --help`)";
            return Err(FieldError::new("the row", format_args!("a {} task", task.kind().name()), allowed).into());
        }
        let number = row.number();
        // Ids of rows need not be unique, but those of pending items must be.
        let item = task.with_rules(rules).verify_item(format!("line {number}"), answer);
        let id = fields.id(row).cloned().unwrap_or_else(|| number.into());
        Ok(Self { id, item, expected: row.get("expected").and_then(Value::as_bool) })
    }
}

fn string(value: &Value, field: &str) -> Result<String, FieldError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(FieldError::new(field, other, "a text or a number")),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::verify_item::Task;

    use super::*;

    fn read(line: &str) -> Result<AnswerRow, String> {
        let rules = Rules { math_profile: "default".into(), ..Rules::default() };
        let row = Columns::parse(7, line).map_err(|error| error.to_string())?;
        AnswerRow::read(&row, &Fields::default(), &rules).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_an_answer_alone_or_a_whole_output() {
        let row = read(r#"{"id": "a", "gold": "2", "prediction": "4/2", "expected": true}"#).unwrap();
        assert_eq!((row.id, row.expected), ("a".into(), Some(true)));
        assert_eq!(row.item.answer, Some(Answer::Extracted("4/2".into())));
        let row = read(r#"{"reward_model": {"ground_truth": 2.5}, "completion": "so \\boxed{5/2}"}"#).unwrap();
        assert_eq!(row.id, 7);
        assert_eq!(row.item.answer, Some(Answer::Completion("so \\boxed{5/2}".into())));
        assert!(matches!(&row.item.task, Some(Task::Math(task)) if task.gold == "2.5" && task.profile == "default"));
        let row = read(r#"{"gold": "2", "pred": "I say \\boxed{2}", "form": "completion"}"#).unwrap();
        assert!(matches!(row.item.answer, Some(Answer::Completion(_))));
    }

    #[test]
    fn any_of_several_gold_answers_is_accepted() {
        let row = read(r#"{"gold": ["2", "3"], "prediction": "3"}"#).unwrap();
        assert!(matches!(&row.item.task, Some(Task::Math(task)) if task.gold == "2" && task.alternatives == ["3"]));
    }

    #[test]
    fn incomplete_rows_are_refused_by_field() {
        for (line, words) in [
            ("[1]", "a JSON object"),
            ("{", "not JSON"),
            (r#"{"gold": "2"}"#, "`prediction`"),
            (r#"{"prediction": "2"}"#, "one of gold, reward_model.ground_truth"),
            (r#"{"gold": null, "prediction": "2"}"#, "`gold` is null"),
            (r#"{"gold": [], "prediction": "2"}"#, "the list of gold answers is empty"),
            (r#"{"gold": "1", "completion": ["2"]}"#, "completion is [\"2\"]"),
            (r#"{"public_test_cases": [{"input": "1", "output": "2"}], "completion": "2"}"#, "the row is a code task"),
        ] {
            let error = read(line).err().expect("refused");
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
