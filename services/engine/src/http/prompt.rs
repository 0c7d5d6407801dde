//! The `prompt` of a request: a text, several, ids, or several lists of ids.

use evenkeel_errors::FieldError;
use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::FromJson;

/// Maximum number of prompts in one request, as in vLLM.
const MAX_PROMPTS: usize = 1024;

/// The prompts of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prompts {
    Texts(Vec<String>),
    Ids(Vec<Vec<u64>>),
}

impl Prompts {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Ids(lists) => lists.len(),
        }
    }

    /// Parses the raw JSON directly, without an intermediate tree: prompts are most of a request. The list may be
    /// empty.
    pub(crate) fn read(raw: Option<&RawValue>) -> Result<Self, FieldError> {
        let text = raw.map_or("null", RawValue::get).trim_start();
        let prompts = if let Some(rest) = text.strip_prefix('[') {
            match rest.trim_start().chars().next() {
                Some(']') => Some(Self::Texts(Vec::new())),
                Some('[') => serde_json::from_str(text).ok().map(Self::Ids),
                Some('"') => serde_json::from_str(text).ok().map(Self::Texts),
                _ => serde_json::from_str(text).ok().map(|ids| Self::Ids(vec![ids])),
            }
        } else if text.starts_with('"') {
            serde_json::from_str(text).ok().map(|text| Self::Texts(vec![text]))
        } else {
            None
        };
        match prompts {
            Some(prompts) => prompts.within_limits(),
            None => {
                let value = serde_json::from_str(text).unwrap_or(Value::Null);
                Self::lax(&value)?.within_limits()
            }
        }
    }

    fn within_limits(self) -> Result<Self, FieldError> {
        if self == Self::Texts(vec![String::new()]) {
            return Err(FieldError::quoted("prompt", "", "a text that is not empty"));
        }
        let count = self.len();
        let allowed = format!("at most {MAX_PROMPTS}");
        FieldError::ensure(count <= MAX_PROMPTS, "prompt", format_args!("{count} prompts"), allowed)?;
        Ok(self)
    }

    /// Ids written as strings or as 1.0; anything else is refused by its position.
    fn lax(value: &Value) -> Result<Self, FieldError> {
        let Value::Array(values) = value else { return Err(refuse("prompt", value)) };
        if values.iter().all(Value::is_array) {
            let lists = values.iter().enumerate().map(|(at, list)| ids(list, &format!("prompt[{at}]")));
            return lists.collect::<Result<_, _>>().map(Self::Ids);
        }
        ids(value, "prompt").map(|ids| Self::Ids(vec![ids]))
    }
}

fn ids(value: &Value, path: &str) -> Result<Vec<u64>, FieldError> {
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let id = |(at, value): (usize, &Value)| {
        let id = i64::from_json(value).and_then(|id| u64::try_from(id).ok());
        id.ok_or_else(|| refuse(&format!("{path}[{at}]"), value))
    };
    values.iter().enumerate().map(id).collect()
}

fn refuse(path: &str, value: &Value) -> FieldError {
    let allowed = "a string, a list of strings, a list of token ids (0 or above), or a list of such lists";
    FieldError::new(path, value, allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Prompts, FieldError> {
        Prompts::read(Some(&RawValue::from_string(json.to_owned()).unwrap()))
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(read("\"ab\""), Ok(Prompts::Texts(vec!["ab".into()])));
        assert_eq!(read(" [ \"a\", \"b\"]"), Ok(Prompts::Texts(vec!["a".into(), "b".into()])));
        assert_eq!(read("[1, 2]"), Ok(Prompts::Ids(vec![vec![1, 2]])));
        assert_eq!(read("[[1], [2, 3]]"), Ok(Prompts::Ids(vec![vec![1], vec![2, 3]])));
        assert_eq!(read("[]"), Ok(Prompts::Texts(vec![])));
        assert_eq!(read("[[]]"), Ok(Prompts::Ids(vec![vec![]])));
        assert_eq!(read("[true, 2.0]"), Ok(Prompts::Ids(vec![vec![1, 2]])));
    }

    #[test]
    fn errors_are_reported_by_position() {
        for (json, field) in [
            ("null", "prompt"),
            ("\"\"", "prompt"),
            ("5", "prompt"),
            ("{}", "prompt"),
            ("[1, \"a\"]", "prompt[1]"),
            ("[-1]", "prompt[0]"),
            ("[1.5]", "prompt[0]"),
            ("[[1], [2, -3]]", "prompt[1][1]"),
            ("[\"a\", 1]", "prompt[0]"),
        ] {
            assert_eq!(read(json).unwrap_err().field, field, "{json}");
        }
        let many = format!("[{}\"a\"]", "\"a\",".repeat(MAX_PROMPTS));
        assert_eq!(read(&many).unwrap_err().value, "1025 prompts");
        assert_eq!(Prompts::read(None).unwrap_err().field, "prompt");
    }
}
