//! Programming questions that ask for another language than Python, of which no answer could pass.

use evenkeel_proto::FieldError;
use serde_json::Value;

use crate::row::{DataRow, refused};

/// Columns that may name a programming language, besides natural ones.
const COLUMNS: [&str; 3] = ["programming_language", "language", "lang"];
#[rustfmt::skip]
const OTHERS: [&str; 32] = [
    "bash", "c", "c#", "c++", "c++11", "c++14", "c++17", "c++20", "cpp", "csharp", "dart", "elixir", "erlang", "go",
    "golang", "haskell", "java", "javascript", "js", "julia", "kotlin", "lua", "node", "ocaml", "perl", "php", "racket",
    "ruby", "rust", "scala", "swift", "typescript",
];

/// Checks what a row says of its language, and its starter code.
///
/// # Errors
/// The column that asks for another language.
pub(crate) fn check(row: &DataRow, starter_code: Option<&str>) -> Result<(), FieldError> {
    for name in COLUMNS {
        let named = match row.get(name) {
            Some(Value::String(language)) => vec![language.as_str()],
            Some(Value::Array(languages)) => languages.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        if !named.is_empty() && named.iter().all(|language| OTHERS.contains(&language.to_lowercase().as_str())) {
            return Err(refused(name, named.join(", "), "python"));
        }
    }
    match starter_code {
        Some(code) if is_other(code) => Err(refused("starter_code", "in another language", "Python")),
        _ => Ok(()),
    }
}

/// Whether code has the braces of another language and no definition of Python.
fn is_other(code: &str) -> bool {
    let defines =
        |line: &str| ["def ", "async def ", "import ", "from "].iter().any(|word| line.trim_start().starts_with(word));
    code.contains('{') && code.contains('}') && !code.lines().any(defines) || code.contains("#include")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(json: &str) -> Result<(), String> {
        let row = DataRow::parse(1, json).unwrap();
        let starter = row.get("starter_code").and_then(Value::as_str).map(str::to_owned);
        check(&row, starter.as_deref()).map_err(|error| error.to_string())
    }

    #[test]
    fn another_programming_language_is_refused_by_its_column() {
        assert_eq!(checked(r#"{"language": "C++"}"#).unwrap_err(), "`language` is C++, allowed: python");
        assert_eq!(checked(r#"{"lang": ["java", "go"]}"#).unwrap_err(), "`lang` is java, go, allowed: python");
        for code in [
            "class Solution {\npublic:\n    int f(int n) {\n    }\n};",
            "var f = function(n) {\n};",
            "impl Solution { pub fn f(n: i32) -> i32 { } }",
            "#include <iostream>\nint main();",
        ] {
            let json = serde_json::json!({"starter_code": code}).to_string();
            assert!(checked(&json).unwrap_err().starts_with("`starter_code` is in another language"), "{code}");
        }
    }

    #[test]
    fn python_and_natural_languages_are_not() {
        for json in [
            r#"{"language": "python"}"#,
            r#"{"language": "Python 3"}"#,
            r#"{"language": "en"}"#,
            r#"{"lang": ["cpp", "python3"]}"#,
            r#"{"starter_code": "class Solution:\n    def f(self, n: int) -> int:"}"#,
            r#"{"starter_code": "def f(d={}):\n    "}"#,
            r#"{"lang": []}"#,
        ] {
            assert_eq!(checked(json), Ok(()), "{json}");
        }
    }
}
