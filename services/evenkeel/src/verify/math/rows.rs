//! Rows of answers as data sets write them.

use anyhow::{Context, Result, bail};
use evenkeel_proto::v1::{MathTask, Outcome, Verdict, VerifyItem, verify_item::Answer, verify_item::Task};
use serde_json::Value;

/// Where a gold answer may stand, the first that is there: this program's own name, then those of published data sets.
const GOLD: &[&str] = &["gold", "reward_model.ground_truth", "final_answer", "answer", "label"];

/// Which fields of a row are read.
pub(super) struct Fields {
    gold: Vec<String>,
}

impl Fields {
    /// The gold answer in this field (a path of names between dots), or in the first usual one.
    pub(super) fn with(gold: Option<String>) -> Self {
        Self { gold: gold.map_or_else(|| GOLD.iter().map(|&name| name.into()).collect(), |name| vec![name]) }
    }
}

/// One answer to be judged.
pub(super) struct Row {
    /// As the row has it, or the line's number.
    pub(super) id: Value,
    /// What is asked of the verifier: the answer against each gold answer of the row.
    pub(super) items: Vec<VerifyItem>,
    /// What the row says should come out.
    pub(super) expected: Option<bool>,
}

impl Row {
    /// Reads `{"id", "gold", "prediction" or "completion", "profile", "expected"}`; the last two may be absent.
    pub(super) fn read(line: &str, number: usize, fields: &Fields, profile: &str) -> Result<Self> {
        let row: Value = serde_json::from_str(line).context("no JSON")?;
        if !row.is_object() {
            bail!("a JSON object is expected, as {{\"id\": 1, \"gold\": \"2\", \"completion\": \"...\"}}");
        }
        let completion = |row: &Value| row.get("form").and_then(Value::as_str) == Some("completion");
        let answer = match (row.get("completion"), row.get("prediction").or_else(|| row.get("pred"))) {
            (Some(text), _) => Answer::Completion(string(text, "completion")?),
            (None, Some(text)) if completion(&row) => Answer::Completion(string(text, "prediction")?),
            (None, Some(text)) => Answer::Extracted(string(text, "prediction")?),
            (None, None) => {
                bail!("no answer, allowed: `prediction` (the answer alone) or `completion` (a whole output)")
            }
        };
        let profile = match row.get("profile") {
            Some(name) => string(name, "profile")?,
            None => profile.to_owned(),
        };
        let item = |(index, gold): (usize, String)| VerifyItem {
            // Ids of rows need not be unique; those of items in work must be.
            id: format!("line {number} gold {index}"),
            answer: Some(answer.clone()),
            task: Some(Task::Math(MathTask { gold, profile: profile.clone(), settings: None })),
            ..VerifyItem::default()
        };
        let items: Vec<_> = golds(&row, fields)?.into_iter().enumerate().map(item).collect();
        if items.is_empty() {
            bail!("there is no gold answer in the list, allowed: one or more");
        }
        let id = row.get("id").cloned().unwrap_or_else(|| number.into());
        Ok(Self { id, items, expected: row.get("expected").and_then(Value::as_bool) })
    }

    /// The verdict on the row, of those on its items: any of several gold answers will do.
    pub(super) fn verdict(verdicts: Vec<Verdict>) -> Option<Verdict> {
        verdicts.into_iter().min_by_key(|verdict| match verdict.outcome() {
            Outcome::Correct => 0,
            Outcome::Invalid => 2,
            _ => 1,
        })
    }
}

/// All gold answers of a row: some sets list several that will do.
pub(super) fn golds(row: &Value, fields: &Fields) -> Result<Vec<String>> {
    for name in &fields.gold {
        if let Some(value) = name.split('.').try_fold(row, |value, part| value.get(part)) {
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            return values.iter().map(|value| string(value, name)).collect();
        }
    }
    bail!("no gold answer, allowed: one of {}", fields.gold.join(", "))
}

fn string(value: &Value, field: &str) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => bail!("`{field}` is {other}, allowed: a text or a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Row, String> {
        Row::read(line, 7, &Fields::with(None), "default").map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_an_answer_alone_or_a_whole_output() {
        let row = read(r#"{"id": "a", "gold": "2", "prediction": "4/2", "expected": true}"#).unwrap();
        assert_eq!((row.id, row.expected), ("a".into(), Some(true)));
        assert_eq!(row.items[0].answer, Some(Answer::Extracted("4/2".into())));
        let row = read(r#"{"reward_model": {"ground_truth": 2.5}, "completion": "so \\boxed{5/2}"}"#).unwrap();
        assert_eq!(row.id, 7);
        assert_eq!(row.items[0].answer, Some(Answer::Completion("so \\boxed{5/2}".into())));
        assert!(
            matches!(&row.items[0].task, Some(Task::Math(task)) if task.gold == "2.5" && task.profile == "default")
        );
        let row = read(r#"{"gold": "2", "pred": "I say \\boxed{2}", "form": "completion"}"#).unwrap();
        assert!(matches!(row.items[0].answer, Some(Answer::Completion(_))));
    }

    #[test]
    fn any_of_several_gold_answers_will_do() {
        let row = read(r#"{"gold": ["2", "3"], "prediction": "3"}"#).unwrap();
        assert_eq!(row.items.len(), 2);
        let wrong = Verdict::judged("a", Outcome::Incorrect, "different_number", 0.0);
        let right = Verdict::judged("b", Outcome::Correct, "equal_integer", 1.0);
        assert_eq!(Row::verdict(vec![wrong, right]).map(|verdict| verdict.id), Some("b".into()));
    }

    #[test]
    fn rows_without_what_is_needed_are_refused_by_field() {
        for (line, words) in [
            ("[1]", "a JSON object"),
            ("{", "no JSON"),
            (r#"{"gold": "2"}"#, "`prediction`"),
            (r#"{"prediction": "2"}"#, "one of gold, reward_model.ground_truth"),
            (r#"{"gold": null, "prediction": "2"}"#, "`gold` is null"),
            (r#"{"gold": [], "prediction": "2"}"#, "no gold answer in the list"),
            (r#"{"gold": "1", "completion": ["2"]}"#, "`completion` is [\"2\"]"),
        ] {
            let error = read(line).err().expect("refused");
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
