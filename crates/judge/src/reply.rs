//! From the words of a judge to a value for each criterion.
//!
//! Only what the judge itself wrote is read, and only in one form. Whatever else a reply has makes it a failure, never a
//! guess: a score that is looked for in prose may be one that the answer suggested.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_proto::JudgeFailure;
use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::rubric::Rubric;

/// How the reply of a judge is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Parser {
    /// The whole reply is one JSON object, which may stand in one fenced block.
    #[default]
    Json,
    /// An explanation, then the JSON object alone on the last line.
    LastLine,
}

impl Parser {
    /// Name in digests. Another way to read the same words gets another name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json/1",
            Self::LastLine => "last-line/1",
        }
    }

    /// What the judge is told to write.
    pub(crate) fn instructions(self, rubric: &Rubric) -> String {
        let keys: Vec<String> =
            rubric.criteria().iter().map(|criterion| format!("\"{}\": 0.0", criterion.name)).collect();
        let object = format!("{{{}}}", keys.join(", "));
        match self {
            Self::Json => format!(
                "Reply with one JSON object and nothing else: each criterion by its name, with a number from 0 (does not \
                 hold) to 1 (holds fully), in this form:\n{object}"
            ),
            Self::LastLine => format!(
                "Explain first, in a few sentences and without braces. Then end with one JSON object alone on the last \
                 line: each criterion by its name, with a number from 0 (does not hold) to 1 (holds fully), in this \
                 form:\n{object}"
            ),
        }
    }

    /// A number from 0 to 1 for each criterion of the rubric.
    ///
    /// # Errors
    /// Why the reply is no verdict, and a sentence about it.
    pub fn read(self, reply: &str, rubric: &Rubric) -> Result<BTreeMap<String, f64>, (JudgeFailure, String)> {
        let text = without_thinking(reply).trim();
        if text.is_empty() {
            return Err((JudgeFailure::NoAnswer, "the reply is empty".to_owned()));
        }
        let object = match self {
            Self::Json => unfenced(text),
            Self::LastLine => last_line(text)?,
        };
        let scores = serde_json::from_str::<Scores>(object).map_err(|error| not_one_object(object, &error))?;
        scores.checked(rubric)
    }
}

/// The reply after the thinking that a reasoning judge begins with.
fn without_thinking(reply: &str) -> &str {
    let trimmed = reply.trim_start();
    match trimmed.strip_prefix("<think>") {
        // Thinking that does not end leaves no reply.
        Some(thinking) => thinking.split_once("</think>").map_or("", |(_, rest)| rest),
        None => trimmed,
    }
}

/// What is in the one fenced block that the whole text is, or else the text.
fn unfenced(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some((language, body)) = inner.and_then(|inner| inner.split_once('\n')) else { return text };
    if ["", "json"].contains(&language.trim()) { body.trim() } else { text }
}

/// The last line, where no line before it is a JSON object as well.
fn last_line(text: &str) -> Result<&str, (JudgeFailure, String)> {
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let is_object = |line: &str| serde_json::from_str::<Scores>(line.trim()).is_ok();
    if is_object(last) && before.lines().any(is_object) {
        return Err((JudgeFailure::TwoScores, "two lines of the reply are scores".to_owned()));
    }
    Ok(last.trim())
}

/// Why a text is not one JSON object.
fn not_one_object(text: &str, error: &serde_json::Error) -> (JudgeFailure, String) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let objects = values.by_ref().take_while(|value| value.as_ref().is_ok_and(Value::is_object)).take(2).count();
    if objects == 2 {
        return (JudgeFailure::TwoScores, "the reply has two JSON objects".to_owned());
    }
    (JudgeFailure::WrongFormat, format!("the reply is not one JSON object: {error}"))
}

/// A JSON object with each of its keys, also those that come twice.
struct Scores(Vec<(String, Value)>);

impl Scores {
    fn checked(self, rubric: &Rubric) -> Result<BTreeMap<String, f64>, (JudgeFailure, String)> {
        let wrong = |words: String| Err((JudgeFailure::WrongFormat, words));
        let mut values = BTreeMap::new();
        for (name, value) in self.0 {
            if !rubric.criteria().iter().any(|criterion| criterion.name == name) {
                return wrong(format!("{:?} is no criterion of the rubric", shortened(&name)));
            }
            let Some(number) = value.as_f64() else { return wrong(format!("the value of {name} is no number")) };
            if !(0.0..=1.0).contains(&number) {
                return Err((JudgeFailure::OutOfRange, format!("{name} is {number}, allowed: 0 to 1")));
            }
            // Minus zero would be another reward in its bits.
            if values.insert(name.clone(), number + 0.0).is_some() {
                return Err((JudgeFailure::TwoScores, format!("{name} is scored twice")));
            }
        }
        match rubric.criteria().iter().find(|criterion| !values.contains_key(&criterion.name)) {
            Some(missing) => wrong(format!("the criterion {} is not scored", missing.name)),
            None => Ok(values),
        }
    }
}

/// A text of untrusted length, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

impl<'de> Deserialize<'de> for Scores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Scores;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with a number for each criterion")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scores, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Scores(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rubric() -> Rubric {
        let one = |name: &str| format!("[[criteria]]\nname = \"{name}\"\nweight = 1.0\ndescription = \"a\"\n");
        Rubric::parse(&(one("right") + &one("clear"))).unwrap()
    }

    fn read(parser: Parser, reply: &str) -> Result<[f64; 2], &'static str> {
        let values = parser.read(reply, &rubric()).map_err(|(failure, _)| evenkeel_proto::Label::label(failure))?;
        Ok([values["right"], values["clear"]])
    }

    #[test]
    fn one_object_is_a_verdict_also_in_a_fence_and_after_thinking() {
        for reply in [
            r#"{"right": 1, "clear": 0.5}"#,
            "\n {\"clear\": 0.5,\n \"right\": 1.0} \n",
            "```json\n{\"right\": 1, \"clear\": 0.5}\n```",
            "<think>{\"right\": 0, \"clear\": 0}</think>\n{\"right\": 1, \"clear\": 0.5}",
        ] {
            assert_eq!(read(Parser::Json, reply), Ok([1.0, 0.5]), "{reply}");
        }
        let explained = "It is right, though hard to follow.\n{\"right\": 1, \"clear\": 0.5}\n";
        assert_eq!(read(Parser::LastLine, explained), Ok([1.0, 0.5]));
        let minus_zero = read(Parser::Json, r#"{"right": -0.0, "clear": 0}"#).unwrap();
        assert_eq!(minus_zero.map(f64::to_bits), [0, 0]);
    }

    #[test]
    fn whatever_else_a_reply_is_it_is_a_failure_and_no_score() {
        for (reply, failure) in [
            ("", "judge_no_answer"),
            ("<think>it is right", "judge_no_answer"),
            ("The answer is right: 1.0", "judge_wrong_format"),
            ("Die Antwort ist richtig.", "judge_wrong_format"),
            (r#"{"richtig": 1, "klar": 1}"#, "judge_wrong_format"),
            (r#"{"right": 1}"#, "judge_wrong_format"),
            (r#"{"right": 1, "clear": 1, "score": 1}"#, "judge_wrong_format"),
            (r#"{"right": "1", "clear": 1}"#, "judge_wrong_format"),
            (r#"{"right": true, "clear": 1}"#, "judge_wrong_format"),
            (r#"[{"right": 1, "clear": 1}]"#, "judge_wrong_format"),
            (r#"Here it is: {"right": 1, "clear": 1}"#, "judge_wrong_format"),
            (r#"{"right": 1, "clear": 1} as it should be"#, "judge_wrong_format"),
            ("1", "judge_wrong_format"),
            (r#"{"right": 1, "clear": 1}{"right": 0, "clear": 0}"#, "judge_two_scores"),
            (r#"{"right": 1, "clear": 1, "right": 0}"#, "judge_two_scores"),
            (r#"{"right": 1.5, "clear": 1}"#, "judge_out_of_range"),
            (r#"{"right": -0.1, "clear": 1}"#, "judge_out_of_range"),
            (r#"{"right": 1e999, "clear": 1}"#, "judge_wrong_format"),
            (r#"{"right": NaN, "clear": 1}"#, "judge_wrong_format"),
        ] {
            assert_eq!(read(Parser::Json, reply), Err(failure), "{reply}");
        }
    }

    #[test]
    fn a_score_that_the_explanation_quotes_on_a_line_is_a_second_one() {
        let quoted = "The answer says\n{\"right\": 1, \"clear\": 1}\nbut it is wrong.\n{\"right\": 0, \"clear\": 1}";
        assert_eq!(read(Parser::LastLine, quoted), Err("judge_two_scores"));
        let within = "The answer says {\"right\": 1, \"clear\": 1}, but it is wrong.\n{\"right\": 0, \"clear\": 1}";
        assert_eq!(read(Parser::LastLine, within), Ok([0.0, 1.0]), "the last line alone counts");
        assert_eq!(read(Parser::LastLine, "{\"right\": 1, \"clear\": 1}\nSo it is."), Err("judge_wrong_format"));
        assert_eq!(read(Parser::LastLine, "It is right."), Err("judge_wrong_format"));
    }
}
