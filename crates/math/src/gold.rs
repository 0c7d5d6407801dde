//! A gold answer and checks against it.

use std::borrow::Cow;

use evenkeel_errors::FieldError;

use crate::extract::{Extracted, NoAnswer, boxed, extract};
use crate::parse::{ParseError, Side, parse, plain, reading, small_integer};
use crate::{
    CheckOutcome, Copied, DecimalComma, Fuel, Marker, Notation, Reason, Rules, Value, Verdict, choice, copied, equality,
};

/// What is checked.
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
}

/// A gold answer that cannot be used: a defect of the data set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGold {
    /// It is empty.
    #[error("the gold answer is empty")]
    Empty,
    /// It is longer than the rules' limit.
    #[error(transparent)]
    TooLong(#[from] FieldError),
    /// It has unbalanced braces.
    #[error("the gold answer has an unmatched brace")]
    Unbalanced,
    /// It divides by zero.
    #[error("the gold answer divides by zero")]
    Undefined,
    /// An invisible character, or one that changes the direction of text.
    #[error("the gold answer contains the hidden character U+{:04X}", u32::from(*.0))]
    HiddenCharacter(char),
    /// A digit of an unsupported script, or a combining mark on a digit.
    #[error(
        "the gold answer contains U+{:04X}, a digit of another script or a combining mark on a digit",
        u32::from(*.0)
    )]
    UnreadableDigit(char),
    /// Reading it exceeds the steps of a check.
    #[error("the gold answer cannot be read within the fuel of a check")]
    OutOfFuel,
}

impl BadGold {
    /// The reason of verdicts against it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Empty => Reason::GoldEmpty,
            Self::TooLong(_) => Reason::GoldTooLong,
            Self::Unbalanced => Reason::GoldUnbalanced,
            Self::Undefined => Reason::GoldUndefined,
            Self::HiddenCharacter(_) => Reason::GoldHiddenCharacters,
            Self::UnreadableDigit(_) => Reason::GoldUnreadableDigits,
            Self::OutOfFuel => Reason::GoldOutOfFuel,
        }
    }
}

impl From<ParseError> for BadGold {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Empty => Self::Empty,
            ParseError::Unbalanced => Self::Unbalanced,
            ParseError::Undefined => Self::Undefined,
            ParseError::HiddenCharacter(character) => Self::HiddenCharacter(character),
            ParseError::UnreadableDigit(character) => Self::UnreadableDigit(character),
            ParseError::OutOfFuel => Self::OutOfFuel,
        }
    }
}

/// The reason of the verdict on an unreadable answer.
fn unreadable(error: ParseError) -> Reason {
    match error {
        ParseError::Empty => Reason::EmptyAnswer,
        ParseError::Unbalanced => Reason::UnbalancedAnswer,
        ParseError::Undefined => Reason::UndefinedAnswer,
        ParseError::HiddenCharacter(_) => Reason::HiddenCharacters,
        ParseError::UnreadableDigit(_) => Reason::UnreadableDigits,
        ParseError::OutOfFuel => Reason::OutOfFuel,
    }
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
            return Ok(Self { value: Value::Number(integer), choice, with_point, others: Vec::new(), choices });
        }
        let mut fuel = Fuel::new(rules.limits.fuel);
        let (source, value) = read_answer(text, rules, &mut fuel).map_err(|_| BadGold::Empty)?;
        let with_point = with_point(&source, rules, &mut fuel);
        let value = value?;
        let others = if is_plain(&value) { Vec::new() } else { others(&source, &value, Side::Gold, &mut fuel) };
        let choices = choice::several_of_gold(&source);
        Ok(Self { value, choice: choice::of_gold(&source), with_point, others, choices })
    }

    /// The parsed value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Checks one answer to a task whose text is known: an unevaluated expression of the task is no answer, unless the
    /// rules accept it.
    pub fn check_for<'a>(&self, prompt: Option<&str>, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
        let mut verdict = self.check(submission, rules);
        let Some(prompt) = prompt.filter(|_| rules.copied == Copied::Refuse) else { return verdict };
        verdict.copies_checked = true;
        let is_choice = verdict.reason == Reason::EqualChoice;
        if verdict.is_equal()
            && !is_choice
            && verdict.value.as_ref().is_some_and(|answer| copied::is_copied(answer, &self.value, prompt, rules))
        {
            verdict.reason = Reason::Copied;
        }
        verdict
    }

    /// Checks one answer.
    pub fn check<'a>(&self, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
        let mut fuel = Fuel::new(rules.limits.fuel);
        let max = rules.limits.max_answer_bytes;
        let read = match submission {
            CheckInput::Extracted(answer) if answer.len() > max => {
                return Verdict::without_answer(Reason::AnswerTooLong);
            }
            CheckInput::Extracted(answer) => read_answer(answer, rules, &mut fuel),
            CheckInput::Completion(text) => match extract(text, rules) {
                Ok(found) if found.bytes() > max => return Verdict::without_answer(Reason::AnswerTooLong),
                found => found.map(|found| read(found, &mut fuel)),
            },
        };
        let (extracted, value) = match read {
            Ok(read) => read,
            Err(none) => return Verdict::without_answer(none.reason()),
        };
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                // A choice letter may precede text that cannot be parsed.
                let reason = self.compare_choice(&extracted).unwrap_or(unreadable(error));
                return Verdict { extracted: Some(extracted), ..Verdict::without_answer(reason) };
            }
        };
        // A box without a letter, and then "Answer: D": the letter answers a choice.
        if let (Some(gold), CheckInput::Completion(text)) = (self.choice, submission)
            && choice::of_answer(&extracted).is_none()
            && rules.markers.contains(&Marker::AnswerLine)
            && let Ok(Extracted::One(line)) =
                extract(text, &Rules { markers: vec![Marker::AnswerLine], ..rules.clone() })
            && let Some(chosen) = choice::of_answer(line)
        {
            let reason = if chosen == gold { Reason::EqualChoice } else { Reason::DifferentChoice };
            return Verdict { extracted: Some(Cow::Borrowed(line)), ..Verdict::without_answer(reason) };
        }
        let mut reason = match self.compare_choice(&extracted) {
            Some(reason) => reason,
            None => equality::compare(&self.value, &value, rules, &mut fuel),
        };
        if reason.outcome() == CheckOutcome::NotEqual
            && let Some(by_point) = self.with_decimal_point(&extracted, &value, rules, &mut fuel)
        {
            reason = by_point;
        }
        if let Some(letters) = &self.choices
            && choice::several(&extracted).as_ref() == Some(letters)
        {
            reason = Reason::EqualChoice;
        }
        let mut value = value;
        if reason.outcome() == CheckOutcome::NotEqual
            && !matches!(reason, Reason::DifferentChoice | Reason::DifferentUnit | Reason::MissingUnit)
            && let Some((by_words, read)) = self.in_words(&extracted, &value, rules, &mut fuel)
        {
            (reason, value) = (by_words, read);
        }
        Verdict { extracted: Some(extracted), value: Some(value), ..Verdict::without_answer(reason) }
    }

    /// The verdict as multiple choice. `None` unless both answers are choices.
    fn compare_choice(&self, answer: &str) -> Option<Reason> {
        let gold = self.choice?;
        let chosen =
            choice::of_answer(answer).or_else(|| choice::in_lower_case(answer).filter(|letter| *letter == gold))?;
        Some(if chosen == gold { Reason::EqualChoice } else { Reason::DifferentChoice })
    }

    /// The verdict on other readings of both sides: without the words around them.
    fn in_words(&self, answer: &str, value: &Value, rules: &Rules, fuel: &mut Fuel) -> Option<(Reason, Value)> {
        if rules.equations == crate::Equations::Strict && rules.text_case == crate::TextCase::Exact {
            // The strict profile takes answers as written.
            return None;
        }
        // `A: B` for the choice B.
        if self.choice.is_some() && choice::content(answer).is_some() {
            return None;
        }
        let answers = if is_plain(value) { Vec::new() } else { others(answer, value, Side::Answer, fuel) };
        let own = std::iter::once(&self.value).chain(&self.others);
        for (index, gold) in own.enumerate() {
            // Both first readings were compared already.
            let skipped = usize::from(index == 0);
            for read in std::iter::once(value).chain(&answers).skip(skipped) {
                let reason = equality::compare(gold, read, rules, fuel);
                if reason.outcome() == CheckOutcome::Equal {
                    return Some((reason, read.clone()));
                }
            }
        }
        None
    }

    /// The verdict with commas between digits read as decimal points, if the other side has a decimal point.
    fn with_decimal_point(&self, answer: &str, value: &Value, rules: &Rules, fuel: &mut Fuel) -> Option<Reason> {
        let is_decimal = |value: &Value| matches!(value, Value::Number(number) if matches!(number.notation, Notation::Decimal { .. }));
        let reason = match (&self.with_point, value) {
            (Some(gold), value) if is_decimal(value) => equality::compare(gold, value, rules, fuel),
            // With a power of ten it is one number, whatever the other side is.
            _ if is_decimal(&self.value) || matches!(self.value, Value::Number(_)) && answer.contains("10^") => {
                equality::compare(&self.value, &with_point(answer, rules, fuel)?, rules, fuel)
            }
            _ => return None,
        };
        (reason.outcome() == CheckOutcome::Equal).then_some(reason)
    }
}

/// Whether a value has no words that could stand around it.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Number(_) | Value::Infinite { .. } | Value::Time(_) | Value::Based(_) => true,
        Value::Quantity(quantity) => is_plain(&quantity.amount),
        Value::Expr(expr) => expr.is_closed(),
        _ => false,
    }
}

/// Other readings of an answer than the first: without words around it, and without the letter of a choice before it.
fn others(answer: &str, first: &Value, side: Side, fuel: &mut Fuel) -> Vec<Value> {
    let mut found = reading(answer, side, fuel);
    if let Some(content) = choice::content(answer)
        && let Ok(value) = parse(&content, fuel)
        && !matches!(value, Value::Text(_))
    {
        found.push(value);
    }
    // Without words it is the same again.
    found.retain(|value| value != first);
    found
}

/// Where a solution marks its answer, apart from boxes.
const SOLUTION: [Marker; 2] = [Marker::Hashes, Marker::AnswerLine];
/// Words above which a text is a solution rather than an answer.
const SOLUTION_WORDS: usize = 8;

fn is_prose(value: &Value) -> bool {
    match value {
        Value::Text(text) => text.as_str().split_whitespace().nth(SOLUTION_WORDS).is_some(),
        Value::List(items) => items.iter().any(is_prose),
        Value::Relation(relation) => relation.members.iter().any(is_prose),
        _ => false,
    }
}

/// Reads an answer given by itself: it may still be in its boxes, and a whole solution marks its answer.
fn read_answer<'a>(
    answer: &'a str,
    rules: &Rules,
    fuel: &mut Fuel,
) -> Result<(Cow<'a, str>, Result<Value, ParseError>), NoAnswer> {
    if let Some(integer) = small_integer(answer.trim()) {
        return Ok((Cow::Borrowed(answer.trim()), Ok(Value::Number(integer))));
    }
    let mut found = Extracted::One(answer);
    if (answer.contains("boxed") || answer.contains("\\fbox"))
        && let Some(boxed) = boxed(answer)?
    {
        found = boxed;
    }
    let (source, value) = read(found, fuel);
    // Hashes at the start of a line mark an answer and are not part of one.
    let hashes = || answer.contains('#') && answer.lines().any(|line| line.trim_start().starts_with("####"));
    if (value.as_ref().is_ok_and(is_prose) || hashes())
        && let Ok(Extracted::One(marked)) = extract(answer, &Rules { markers: SOLUTION.to_vec(), ..rules.clone() })
    {
        return Ok(read(Extracted::One(marked), fuel));
    }
    Ok((source, value))
}

/// Digits, a comma and digits, read as a decimal number.
fn with_point(text: &str, rules: &Rules, fuel: &mut Fuel) -> Option<Value> {
    if rules.decimal_comma == DecimalComma::List {
        return None;
    }
    let plain = plain(text).ok()?;
    let (whole, rest) = plain.trim().trim_matches('$').trim().split_once(',')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, unit) = rest.split_at(digits);
    // `1,5 \\cdot 10^3`, `2,5 cm`: nothing that would be another item.
    if unit.contains(',') || unit.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let unsigned = whole.strip_prefix('-').map_or(whole, str::trim_start);
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // `10,000` is ten thousand, whatever the other side is.
    let is_grouped = fraction.len() == 3 && unsigned.len() <= 3 && !unsigned.starts_with('0');
    if !are_digits(unsigned) || !are_digits(fraction) || is_grouped {
        return None;
    }
    parse(&format!("{whole}.{fraction}{unit}"), fuel).ok()
}

/// Parses an extracted answer; adjacent boxes form one list.
fn read<'a>(found: Extracted<'a>, fuel: &mut Fuel) -> (Cow<'a, str>, Result<Value, ParseError>) {
    let answers = match found {
        Extracted::One(answer) => return (Cow::Borrowed(answer.trim()), parse(answer, fuel)),
        Extracted::Several(answers) => answers,
    };
    let extracted = Cow::Owned(answers.iter().map(|answer| answer.trim()).collect::<Vec<_>>().join(", "));
    let mut items = Vec::with_capacity(answers.len());
    for answer in answers {
        match parse(answer, fuel) {
            Ok(Value::List(more)) => items.extend(more),
            Ok(item) => items.push(item),
            Err(error) => return (extracted, Err(error)),
        }
    }
    (extracted, Ok(Value::List(items)))
}

/// Checks one answer against a gold answer that is used once. An unreadable gold answer is reported as the verdict's
/// reason.
pub fn check<'a>(gold: &str, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
    match Gold::read(gold, rules) {
        Ok(gold) => gold.check(submission, rules),
        Err(bad) => Verdict::without_answer(bad.reason()),
    }
}
