//! Which rows are done in several turns, in an environment.

use std::sync::Arc;

use serde_json::Value;

use crate::Reason;
use crate::row::{DataRow, RowError, refused};

/// Names the environment of a row.
pub(crate) const ENVIRONMENT: &str = "environment";

/// A task as an environment gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentTask {
    /// The name of the environment.
    pub environment: Arc<str>,
    /// Input of the environment: a JSON object of the row's columns.
    pub payload: Arc<[u8]>,
}

impl EnvironmentTask {
    /// A task without a row.
    pub fn new(environment: &str) -> Self {
        Self { environment: environment.into(), payload: Arc::from(*b"{}") }
    }
}

/// The environments that rows may name, and that of rows that name none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environments {
    names: Vec<String>,
    otherwise: String,
    /// Names of the environments that leave the score to the verifier of the row.
    without_score: Vec<String>,
}

impl Environments {
    /// The environments that rows may name in their column `environment`, which counts only where there are any,
    /// and that of rows that name none; empty for a single answer.
    pub fn new(names: Vec<String>, otherwise: &str) -> Self {
        Self { names, otherwise: otherwise.to_owned(), without_score: Vec::new() }
    }

    /// Declares environments that have no score of their own: the verifier of the row judges the last turn.
    #[must_use]
    pub fn without_score(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { without_score: names.into_iter().collect(), ..self }
    }

    /// Whether the environment of a row may have a score of its own.
    pub(crate) fn scores(&self, row: &DataRow) -> bool {
        self.name(row).is_ok_and(|name| !name.is_empty() && !self.without_score.iter().any(|other| other == name))
    }

    /// Whether every row is answered in a single turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.otherwise.is_empty()
    }

    /// The environment of a row and its task, which `payload` makes.
    ///
    /// # Errors
    /// An environment that nobody declared, or that is not a name.
    pub(crate) fn task(
        &self,
        row: &DataRow,
        payload: impl FnOnce() -> String,
    ) -> Result<Option<EnvironmentTask>, RowError> {
        let name = self.name(row)?;
        let task = || EnvironmentTask { environment: name.into(), payload: payload().into_bytes().into() };
        Ok((!name.is_empty()).then(task))
    }

    /// The name of a row's environment; empty for a single answer.
    fn name<'a>(&'a self, row: &'a DataRow) -> Result<&'a str, RowError> {
        let named = if self.names.is_empty() { None } else { row.get(ENVIRONMENT) };
        match named {
            None => Ok(&self.otherwise),
            Some(Value::String(name)) if name.is_empty() => Ok(&self.otherwise),
            Some(Value::String(name)) if self.names.contains(name) || *name == self.otherwise => Ok(name),
            Some(other) => {
                let found = other.as_str().map_or_else(|| other.to_string(), |name| format!("`{name}`"));
                let allowed = format!("one of {} (data.environments)", self.names.join(", "));
                Err(RowError::field(Reason::UnknownEnvironment, refused(ENVIRONMENT, found, allowed)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_done_in_the_environment_that_it_names_or_in_that_of_the_settings() {
        let environment = |environments: &Environments, json: &str| {
            let row = DataRow::parse(1, json).unwrap();
            let task = environments.task(&row, || "{}".to_owned());
            task.map(|task| task.map(|task| task.environment.to_string())).map_err(|error| error.to_string())
        };
        let named = Environments::new(vec!["game".into(), "calculator".into()], "");
        assert_eq!(environment(&named, r#"{"environment": "game"}"#), Ok(Some("game".into())));
        assert_eq!(environment(&named, r#"{"environment": ""}"#), Ok(None));
        assert_eq!(environment(&named, "{}"), Ok(None));
        let error = environment(&named, r#"{"environment": "gmae"}"#).unwrap_err();
        assert_eq!(error, "`environment` is `gmae`, allowed: one of game, calculator (data.environments)");
        let one = Environments::new(vec![], "calculator");
        assert_eq!(
            environment(&one, r#"{"environment": "production"}"#),
            Ok(Some("calculator".into())),
            "nobody asked for the column"
        );
        assert_eq!(environment(&Environments::default(), r#"{"environment": "game"}"#), Ok(None));
        assert!(environment(&named, r#"{"environment": 3}"#).unwrap_err().starts_with("`environment` is 3"));
    }
}
