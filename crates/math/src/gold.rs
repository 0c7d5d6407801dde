//! A gold answer and checks against it.

mod asked;
mod bad;
mod judge;
mod otherwise;
mod reading;

use evenkeel_errors::FieldError;

use crate::parse::{Side, small_integer};
use crate::words::Known;
use crate::{Copied, Fuel, Reason, Rules, Value, Verdict, accounting, choice, copied};
pub use bad::BadGold;
use otherwise::in_words;
use reading::{read_answer, with_point};

/// A text that is checked against a gold answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckInput<'a> {
    /// A whole completion; its final answer is extracted.
    Completion(&'a str),
    /// A final answer alone.
    Extracted(&'a str),
}

/// A parsed gold answer that can be checked against many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    value: Value,
    /// The letter, if it is a multiple-choice answer.
    choice: Option<char>,
    /// The value if a comma in it is read as a decimal point.
    with_point: Option<Value>,
    /// Other readings: without words around it, without the letter of a choice.
    others: Vec<Value>,
    /// The letters, if several choices are right: `ABD`.
    choices: Option<String>,
    /// Text of the gold answer, whose words an answer may repeat.
    text: String,
}

impl Gold {
    /// Reads a gold answer.
    pub fn read(text: &str, rules: &Rules) -> Result<Self, BadGold> {
        let max = rules.limits.max_answer_bytes;
        if text.len() > max {
            let length = format!("{} bytes", text.len());
            let allowed = format!("at most {max} bytes");
            return Err(FieldError::new("the length of the gold answer", length, allowed).into());
        }
        if let Some(integer) = small_integer(text.trim()) {
            let choice = None;
            let with_point = None;
            let choices = None;
            let value = Value::Number(integer);
            return Ok(Self { value, choice, with_point, others: Vec::new(), choices, text: String::new() });
        }
        let mut fuel = Fuel::new(rules.limits.fuel);
        let (source, value) = read_answer(text, rules, &mut fuel).map_err(|_| BadGold::Empty)?;
        let with_point = with_point(&source, rules, &mut fuel);
        let value = value?;
        // Parts of a gold answer are dropped only where the table of words has them.
        let others = in_words(&source, &value, Side::Gold, &Known::default(), &mut fuel);
        let choices = choice::several_of_gold(&source);
        Ok(Self { value, choice: choice::of_gold(&source), with_point, others, choices, text: source.into_owned() })
    }

    /// Value that the gold answer was parsed into.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Whether the gold answer was understood as mathematics, a choice or a few words; if not, it is compared as text.
    pub fn is_understood(&self) -> bool {
        self.choice.is_some()
            || self.choices.is_some()
            || !self.others.is_empty()
            || accounting::is_understood(&self.value)
    }

    /// Checks one answer without the text of its task.
    pub fn check<'a>(&self, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
        self.check_for(None, submission, rules)
    }

    /// Checks one answer to a task whose text is known: its words may stand behind a number, and an unevaluated
    /// expression of it is no answer, unless the rules accept it.
    pub fn check_for<'a>(&self, prompt: Option<&str>, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
        let mut verdict = self.verdict(prompt, submission, rules);
        let Some(prompt) = prompt.filter(|_| rules.copied == Copied::Refuse) else { return verdict };
        verdict.copies_checked = true;
        if verdict.is_equal() && asked::is_of_another(&verdict, submission, prompt) {
            verdict.reason = Reason::NotUnderstood;
        }
        let is_choice = verdict.reason == Reason::EqualChoice;
        if verdict.is_equal()
            && !is_choice
            && verdict.value.as_ref().is_some_and(|answer| copied::is_copied(answer, &self.value, prompt, rules))
        {
            verdict.reason = Reason::Copied;
        }
        verdict
    }
}

/// Checks one answer against a gold answer that is used once. An unreadable gold answer is reported as the verdict's
/// reason.
pub fn check<'a>(gold: &str, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
    match Gold::read(gold, rules) {
        Ok(gold) => gold.check(submission, rules),
        Err(bad) => Verdict::without_answer(bad.reason()),
    }
}
