//! One problem of a data set.

use std::fmt;
use std::sync::Arc;

use evenkeel_chat::Prompt;
use evenkeel_proto::FieldError;
use serde::Serialize;
use serde_json::{Number, Value};

use crate::demonstration::Demonstration;
use crate::row::{DataRow, RowError};
use crate::verifiers::DATA_SOURCE;
use crate::{EnvironmentTask, Fields, Reason, Rules, Task};

#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Name of the problem in messages.
    pub id: Id,
    /// Source and file of the problem.
    pub origin: ProblemOrigin,
    /// What the row says that it comes from (its column `data_source`), if it does.
    pub data_source: Option<Arc<str>>,
    pub prompt: Prompt,
    /// What tells it from others with the same prompt: a digest of further columns. `None`: nothing else is asked.
    pub context: Option<Arc<str>>,
    /// Text appended to the last user message, in place of the run's.
    pub suffix: Option<Arc<str>>,
    /// What answers are judged against.
    pub task: Task,
    /// The environment that answers the turns; `None` for a problem that is answered in one turn.
    pub environment: Option<EnvironmentTask>,
    /// An answer to imitate, if the data has one.
    pub demonstration: Option<Demonstration>,
    /// What the model knows more as its own teacher, if the data has that and it is asked for.
    pub hint: Option<Arc<str>>,
}

/// The name of a problem: the row's own, or file and row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Id {
    Text(String),
    /// A number, as some data sets have it.
    Number(Number),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Where a problem comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProblemOrigin {
    /// Index of its source in [`Dataset::sources`](crate::Dataset::sources).
    pub source: usize,
    /// Index of its file in [`DataReport::files`](crate::DataReport::files).
    pub file: usize,
}

impl Problem {
    /// The problem of a row, judged by `rules` where the row names none. A row without a name gets `unnamed`. Blank
    /// gold answers next to others are left out.
    ///
    /// # Errors
    /// No prompt, nothing to judge answers against, no gold answer that is not blank.
    pub fn read(
        row: &DataRow,
        fields: &Fields,
        rules: &Rules,
        origin: ProblemOrigin,
        unnamed: impl FnOnce() -> String,
    ) -> Result<Self, RowError> {
        let prompt = fields.prompt(row)?;
        let task = fields.task(row)?.with_rules(rules);
        let some_blank = task.golds().any(is_blank);
        let task = if some_blank {
            task.with_golds(|gold| !is_blank(gold)).ok_or_else(|| {
                RowError::field(Reason::EmptyGold, FieldError::new("the gold answer", "empty", "a text or a number"))
            })?
        } else {
            task
        };
        let id = match fields.id(row) {
            Some(Value::String(id)) if !id.is_empty() => Id::Text(id.clone()),
            Some(Value::Number(id)) => Id::Number(id.clone()),
            _ => Id::Text(unnamed()),
        };
        let data_source = row.get(DATA_SOURCE).and_then(Value::as_str).filter(|name| !name.is_empty()).map(Arc::from);
        let environment = fields.environment(row)?;
        let demonstration = fields.demonstration(row)?;
        if matches!(demonstration, Some(Demonstration::Turns(_))) && environment.is_none() {
            let allowed = "a text: only rows with an environment have several turns";
            return Err(RowError::field(
                Reason::InvalidRow,
                FieldError::new("the demonstration", "a list of turns", allowed),
            ));
        }
        let hint = fields.hint(row)?;
        Ok(Self {
            id,
            origin,
            data_source,
            prompt,
            context: None,
            suffix: None,
            task,
            environment,
            demonstration,
            hint,
        })
    }

    /// What a renderer takes: the prompt, and its suffix where it has one of its own.
    pub fn asked(&self) -> (&Prompt, Option<&str>) {
        (&self.prompt, self.suffix.as_deref())
    }
}

fn is_blank(gold: &str) -> bool {
    gold.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Problem, RowError> {
        let row = DataRow::parse(1, json).unwrap();
        Problem::read(&row, &Fields::default(), &Rules::default(), ProblemOrigin::default(), || "rows#0".to_owned())
    }

    #[test]
    fn a_problem_has_the_rows_own_name_or_that_of_file_and_row() {
        let id = |json: &str| serde_json::to_value(read(json).unwrap().id).unwrap();
        assert_eq!(id(r#"{"id": "a", "prompt": "1?", "answer": "1"}"#), "a");
        assert_eq!(id(r#"{"id": 7, "prompt": "1?", "answer": "1"}"#), 7);
        assert_eq!(id(r#"{"question_id": "q", "prompt": "1?", "answer": "1"}"#), "q");
        assert_eq!(id(r#"{"id": "", "prompt": "1?", "answer": "1"}"#), "rows#0");
    }

    #[test]
    fn a_demonstration_is_a_text_or_turn_by_turn_what_is_said_in_an_environment() {
        let fields = Fields::default().with_environments(crate::Environments::new(vec![], "calculator"));
        let demonstration_of = |fields: &Fields, demonstration: &str| {
            let json = format!(r#"{{"prompt": "1?", "answer": "1", "demonstration": {demonstration}}}"#);
            let row = DataRow::parse(1, &json).unwrap();
            let problem = Problem::read(&row, fields, &Rules::default(), ProblemOrigin::default(), String::new);
            problem.map(|problem| problem.demonstration).map_err(|error| error.to_string())
        };
        let turns = Demonstration::Turns(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(demonstration_of(&fields, r#"["a", "b"]"#), Ok(Some(turns)));
        assert_eq!(demonstration_of(&fields, r#""a""#), Ok(Some(Demonstration::Written("a".to_owned()))));
        for (demonstration, words) in [("[]", "empty"), (r#"["a", ""]"#, "empty"), (r#"["a", 1]"#, "a number")] {
            let error = demonstration_of(&fields, demonstration).unwrap_err();
            assert!(error.contains("demonstration") && error.contains(words), "{error}");
        }
        let error = demonstration_of(&Fields::default(), r#"["a", "b"]"#).unwrap_err();
        assert!(error.contains("only rows with an environment"), "{error}");
    }

    #[test]
    fn a_hint_is_read_where_hints_are_asked_for() {
        let hint_of = |fields: &Fields, hint: &str| {
            let row = DataRow::parse(1, format!(r#"{{"prompt": "1?", "answer": "1", "hint": {hint}}}"#)).unwrap();
            let problem = Problem::read(&row, fields, &Rules::default(), ProblemOrigin::default(), String::new);
            problem.map(|problem| problem.hint.map(|hint| hint.to_string())).map_err(|error| error.to_string())
        };
        let fields = Fields::default().with_hints(true);
        assert_eq!(hint_of(&fields, "\"count\""), Ok(Some("count".to_owned())));
        for absent in ["null", "\"\""] {
            assert_eq!(hint_of(&fields, absent), Ok(None));
        }
        let error = hint_of(&fields, "[1]").unwrap_err();
        assert!(error.contains("`hint` is a list, allowed: a text"), "{error}");
        assert_eq!(hint_of(&Fields::default(), "[1]"), Ok(None));
    }

    #[test]
    fn only_a_row_without_any_gold_answer_is_refused() {
        let golds = |json: &str| match read(json) {
            Ok(problem) => Ok(problem.task.golds().map(str::to_owned).collect::<Vec<_>>()),
            Err(error) => Err(error.reason),
        };
        assert_eq!(golds(r#"{"prompt": "1?", "answer": ["", "1", null, " ", "2"]}"#).unwrap(), ["1", "2"]);
        for json in [r#""""#, r#"" \n""#, "null", "[]", "[null]", r#"["", " "]"#] {
            let error = golds(&format!(r#"{{"prompt": "1?", "answer": {json}}}"#)).unwrap_err();
            assert_eq!(error, Reason::EmptyGold, "{json}");
        }
        assert_eq!(golds(r#"{"prompt": "1?", "answer": {}}"#).unwrap_err(), Reason::UnreadableGold);
        assert_eq!(golds(r#"{"prompt": "1?"}"#).unwrap_err(), Reason::MissingGold);
    }
}
