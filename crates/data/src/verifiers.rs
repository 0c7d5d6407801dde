//! Which rows go to custom verifiers.

use serde_json::Value;

use crate::Reason;
use crate::row::{DataRow, RowError, refused};

/// Names a verifier in a row.
pub(crate) const VERIFIER: &str = "verifier";
/// May have the name of a verifier (`endpoint`), and a payload for it.
pub(crate) const CUSTOM: &str = "custom";
/// Says where a row comes from.
pub(crate) const DATA_SOURCE: &str = "data_source";

/// What judges a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerifierChoice<'a> {
    /// What its columns say: tests, or a gold answer.
    Columns,
    /// The gold answer judges the row, whatever else the row has.
    Math,
    Code,
    /// Nothing: the row is for learning from a teacher alone.
    Unjudged,
    /// A custom verifier, by its name.
    Custom(&'a str),
}

/// The verifiers that rows may go to, besides those for mathematics and programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verifiers {
    names: Vec<String>,
    /// Values of the column `data_source`, or what they begin with (a trailing `*`), each with its verifier.
    data_sources: Vec<(String, String)>,
    /// The verifier of rows that choose none; empty for the one that their columns say.
    otherwise: String,
}

impl Verifiers {
    /// Names that rows and settings may choose without declaring them.
    pub const BUILT_IN: [&'static str; 3] = ["math", "code", "none"];

    /// Verifiers by name, each with the values of the column `data_source` whose rows it judges: the whole value, or
    /// what it begins with and a `*`. Rows that neither name a verifier nor have such a value go to `otherwise`; if
    /// that is empty, their columns decide.
    pub fn new<N, S>(verifiers: impl IntoIterator<Item = (N, Vec<S>)>, otherwise: &str) -> Self
    where
        N: Into<String>,
        S: Into<String>,
    {
        let mut names = Vec::new();
        let mut data_sources = Vec::new();
        for (name, sources) in verifiers {
            let name = name.into();
            data_sources.extend(sources.into_iter().map(|source| (source.into(), name.clone())));
            names.push(name);
        }
        // The whole value before any beginning, long beginnings before short ones.
        data_sources.sort_by_key(|(source, _)| (source.ends_with('*'), std::cmp::Reverse(source.len())));
        Self { names, data_sources, otherwise: otherwise.to_owned() }
    }

    /// Whether any row may go to a custom verifier.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What judges a row. The row's column `custom` counts only if `custom` is true.
    ///
    /// # Errors
    /// A verifier that nobody declared, or that is not a name.
    pub(crate) fn choose(&self, row: &DataRow, custom: bool) -> Result<VerifierChoice<'_>, RowError> {
        let named = |field: &str, value: &Value| match value {
            Value::String(name) if name.is_empty() => Ok(None),
            Value::String(name) => self.named(field, name).map(Some),
            other => Err(RowError::kind(Reason::UnknownVerifier, field, other, "the name of a verifier")),
        };
        if let Some(value) = row.get(VERIFIER)
            && let Some(choice) = named(VERIFIER, value)?
        {
            return Ok(choice);
        }
        if custom && let Some(object @ Value::Object(_)) = row.get(CUSTOM) {
            let absent = || {
                let error = refused("custom.endpoint", "absent", "the name of a verifier");
                RowError::field(Reason::InvalidRow, error)
            };
            let endpoint = object.get("endpoint").ok_or_else(absent)?;
            return named("custom.endpoint", endpoint)?.ok_or_else(absent);
        }
        self.by_source(row)
    }

    /// The verifier of that name, which stands in a field of a row or of the settings.
    fn named(&self, field: &str, name: &str) -> Result<VerifierChoice<'_>, RowError> {
        match name {
            "" => Ok(VerifierChoice::Columns),
            "math" => Ok(VerifierChoice::Math),
            "code" => Ok(VerifierChoice::Code),
            "none" => Ok(VerifierChoice::Unjudged),
            _ => self.names.iter().find(|known| *known == name).map(|known| VerifierChoice::Custom(known)).ok_or_else(
                || {
                    let known = self.names.iter().map(String::as_str).chain(Self::BUILT_IN);
                    let allowed = known.collect::<Vec<_>>().join(", ");
                    let allowed = format!("{allowed} (data.verifiers has verifiers of your own)");
                    RowError::field(Reason::UnknownVerifier, refused(field, format_args!("`{name}`"), allowed))
                },
            ),
        }
    }

    fn by_source(&self, row: &DataRow) -> Result<VerifierChoice<'_>, RowError> {
        let source = row.get(DATA_SOURCE).and_then(Value::as_str);
        let found = source.and_then(|source| {
            self.data_sources.iter().find(|(pattern, _)| match pattern.strip_suffix('*') {
                Some(beginning) => source.starts_with(beginning),
                None => source == pattern,
            })
        });
        match found {
            Some((_, name)) => Ok(VerifierChoice::Custom(name)),
            None => self.named("data.verifier", &self.otherwise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verifiers(otherwise: &str) -> Verifiers {
        Verifiers::new(
            [("games", vec!["game/*", "puzzle"]), ("chess", vec!["game/chess*"]), ("go", vec!["game/chess/go"])],
            otherwise,
        )
    }

    fn choice(otherwise: &str, json: &str) -> Result<String, String> {
        let row = DataRow::parse(1, json).unwrap();
        let verifiers = verifiers(otherwise);
        verifiers.choose(&row, true).map(|choice| format!("{choice:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_goes_to_the_verifier_that_it_names_or_that_its_data_source_has() {
        for (json, expected) in [
            (r#"{"data_source": "puzzle"}"#, r#"Custom("games")"#),
            (r#"{"data_source": "puzzles"}"#, "Columns"),
            (r#"{"data_source": "game/dice"}"#, r#"Custom("games")"#),
            (r#"{"data_source": "game/chess/960"}"#, r#"Custom("chess")"#),
            (r#"{"data_source": "game/chess/go"}"#, r#"Custom("go")"#),
            (r#"{"data_source": "puzzle", "verifier": "chess"}"#, r#"Custom("chess")"#),
            (r#"{"data_source": "puzzle", "verifier": "math"}"#, "Math"),
            (r#"{"verifier": "code"}"#, "Code"),
            (r#"{"verifier": "", "data_source": "puzzle"}"#, r#"Custom("games")"#),
            (r#"{"verifier": null}"#, "Columns"),
        ] {
            assert_eq!(choice("", json).unwrap(), expected, "{json}");
        }
        assert_eq!(choice("go", r#"{"data_source": "else"}"#).unwrap(), r#"Custom("go")"#);
        let own = r#"{"custom": {"endpoint": "chess"}, "data_source": "puzzle"}"#;
        assert_eq!(choice("go", own).unwrap(), r#"Custom("chess")"#);
    }

    #[test]
    fn an_unknown_verifier_is_refused_by_its_name() {
        let error = choice("", r#"{"verifier": "checkers"}"#).unwrap_err();
        assert!(error.starts_with("`verifier` is `checkers`, allowed: games, chess, go, math, code"), "{error}");
        let error = choice("", r#"{"verifier": 3}"#).unwrap_err();
        assert_eq!(error, "`verifier` is a number, allowed: the name of a verifier");
    }
}
