//! Errors of rendering in the words of Python, where minijinja's allow it.

use minijinja::{Error, ErrorKind};

use super::RenderError;
use crate::python::{Exception, is_exhausted};

/// An exception in its own words; otherwise what Jinja says in the same place, or minijinja with the place.
///
/// The engine names the expression that is undefined where it runs in debug mode.
pub(super) fn failure(error: &Error) -> RenderError {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(Exception(message)) = inner.downcast_ref() {
            return RenderError::new(message);
        }
        source = inner.source();
    }
    if is_exhausted(error) {
        return RenderError::new(
            "the template does not end: it has used up its fuel (docs/data.md, limits of templates)",
        );
    }
    let detail = error.detail().unwrap_or_default();
    let in_python = match error.kind() {
        ErrorKind::UnknownFunction => detail.strip_suffix(" is unknown").map(|name| format!("'{name}' is undefined")),
        ErrorKind::UnknownFilter => named(detail, "filter"),
        ErrorKind::UnknownTest => named(detail, "test"),
        _ => undefined(detail).or_else(|| addition(detail)),
    };
    RenderError(in_python.unwrap_or_else(|| error.to_string()))
}

/// Jinja's words for a filter or a test that it does not know: `filter x is unknown`.
fn named(detail: &str, what: &str) -> Option<String> {
    let name = detail.strip_prefix(what)?.strip_suffix("is unknown")?.trim();
    Some(format!("No {what} named '{name}'."))
}

/// Jinja's words for an undefined expression. Names are looked up on dictionaries and numbers on lists, in any
/// conversation that a template is meant for.
fn undefined(detail: &str) -> Option<String> {
    let (before, _) = detail.split_once("` is undefined")?;
    let (_, expression) = before.rsplit_once('`')?;
    if let Some((_, key)) = expression.strip_suffix(']').and_then(|inner| inner.rsplit_once('[')) {
        return match key.trim_matches(['"', '\'']) {
            "..." => None,
            name if name != key => Some(format!("'dict object' has no attribute '{name}'")),
            index => Some(format!("list object has no element {index}")),
        };
    }
    match expression.rsplit_once('.') {
        Some((_, name)) => Some(format!("'dict object' has no attribute '{name}'")),
        None => Some(format!("'{expression}' is undefined")),
    }
}

/// Python's words for `+` between types that cannot be added.
fn addition(detail: &str) -> Option<String> {
    let types = detail.strip_prefix("tried to use + operator on unsupported types ")?;
    let (left, right) = types.split_once(" and ")?;
    let name = |kind| match kind {
        "string" => Some("str"),
        "sequence" => Some("list"),
        "map" => Some("dict"),
        "none" => Some("NoneType"),
        "bool" => Some("bool"),
        // A number may be of two types.
        _ => None,
    };
    match (name(left)?, name(right)?) {
        (left @ ("str" | "list"), right) => Some(format!("can only concatenate {left} (not \"{right}\") to {left}")),
        (left, right) => Some(format!("unsupported operand type(s) for +: '{left}' and '{right}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_expressions_are_named_as_jinja_names_them() {
        let expected = [
            ("no matter (`message.content` is undefined)", Some("'dict object' has no attribute 'content'")),
            ("`messages[0][\"role\"]` is undefined (from line 3)", Some("'dict object' has no attribute 'role'")),
            ("`messages[3]` is undefined", Some("list object has no element 3")),
            ("`name` is undefined", Some("'name' is undefined")),
            ("`names[...]` is undefined", None),
        ];
        for (detail, words) in expected {
            assert_eq!(undefined(detail).as_deref(), words, "{detail}");
        }
    }

    #[test]
    fn sums_of_other_types_are_refused_as_in_python() {
        let found = |types: &str| addition(&format!("tried to use + operator on unsupported types {types}"));
        assert_eq!(found("string and sequence").unwrap(), "can only concatenate str (not \"list\") to str");
        assert_eq!(found("none and string").unwrap(), "unsupported operand type(s) for +: 'NoneType' and 'str'");
        assert_eq!(found("string and number"), None);
    }
}
