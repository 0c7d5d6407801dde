//! A gold answer and checks against it.

use std::borrow::Cow;

use evenkeel_errors::FieldError;

use crate::extract::{Extracted, NoAnswer, boxed, extract};
use crate::parse::{ParseError, Side, parse, plain, reading, small_integer, with_letter_as_unit};
use crate::words::Known;
use crate::{
    CheckOutcome, Copied, DecimalComma, Fuel, Marker, Notation, Percent, Reason, Rules, Units, Value, Verdict,
    accounting, choice, copied, equality, others,
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
    /// Its text, whose words an answer may repeat.
    text: String,
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

    /// The parsed value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Whether it was understood as mathematics, as a choice, or as a word or a few; otherwise it is compared as text.
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

    /// Checks one answer to a task whose text is known: its words may stand behind a number, and an unevaluated expression
    /// of it is no answer, unless the rules accept it.
    pub fn check_for<'a>(&self, prompt: Option<&str>, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
        let mut verdict = self.verdict(prompt, submission, rules);
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

    /// The words that may stand behind a number.
    fn known(&self, prompt: Option<&str>, rules: &Rules) -> Known {
        let mut known = Known::default();
        known.add(&self.text);
        match prompt {
            Some(prompt) => known.add(prompt),
            // Word problems without their text: one noun.
            None if rules.units == Units::Ignore => known.others = 1,
            None => {}
        }
        known
    }

    /// The verdict, except for copies.
    fn verdict<'a>(&self, prompt: Option<&str>, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
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
        // Equal integers need no more.
        if let (Ok(answer @ Value::Number(number)), Value::Number(gold)) = (&value, &self.value)
            && gold == number
        {
            let reason = equality::compare(&self.value, answer, rules, &mut fuel);
            return Verdict { extracted: Some(extracted), value: value.ok(), ..Verdict::without_answer(reason) };
        }
        let choices = self.choice.is_some().then(|| self.known(prompt, rules));
        let chosen = |answer: &str| self.compare_choice(answer, prompt, choices.as_ref()?);
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                // A choice letter may precede text that cannot be parsed.
                let reason = chosen(&extracted).unwrap_or(unreadable(error));
                return Verdict { extracted: Some(extracted), ..Verdict::without_answer(reason) };
            }
        };
        // A box without a letter, and then "Answer: D": the letter answers a choice.
        if let (Some(gold), CheckInput::Completion(text)) = (self.choice, submission)
            && choice::of_answer(&extracted, &Known::default()).is_none()
            && rules.markers.contains(&Marker::AnswerLine)
            && let Ok(Extracted::One(line)) =
                extract(text, &Rules { markers: vec![Marker::AnswerLine], ..rules.clone() })
            && let Some(chosen) = choice::of_answer(line, &Known::default())
        {
            let reason = if chosen == gold { Reason::EqualChoice } else { Reason::DifferentChoice };
            return Verdict { extracted: Some(Cow::Borrowed(line)), ..Verdict::without_answer(reason) };
        }
        let mut reason = match chosen(&extracted) {
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
        let is_open = |reason: Reason| {
            let is_final = matches!(
                reason,
                Reason::EqualChoice | Reason::DifferentChoice | Reason::MissingUnit | Reason::OutOfFuel
            );
            reason.outcome() != CheckOutcome::Equal && !is_final
        };
        if reason != Reason::EqualChoice {
            reason = self.accounted(reason, (&extracted, &value), prompt, rules);
        }
        if is_open(reason)
            && let Some((by_reading, read)) = self.by_other_readings(&extracted, &value, prompt, rules, &mut fuel)
        {
            (reason, value) = (by_reading, read);
        }
        Verdict { extracted: Some(extracted), value: Some(value), ..Verdict::without_answer(reason) }
    }

    /// The reason, unless a part of the answer is not accounted for.
    fn accounted(
        &self,
        reason: Reason,
        (answer, value): (&str, &Value),
        prompt: Option<&str>,
        rules: &Rules,
    ) -> Reason {
        // As a word, percent is a hundredth.
        if reason == Reason::EqualPercent && rules.percent == Percent::Either && says_percent(answer) {
            let rules = Rules { percent: Percent::Hundredth, ..rules.clone() };
            let exactly = equality::compare(&self.value, value, &rules, &mut Fuel::new(rules.limits.fuel));
            return if exactly.outcome() == CheckOutcome::Equal { reason } else { Reason::NotUnderstood };
        }
        match reason.outcome() {
            // The gold answer itself, whatever it says.
            CheckOutcome::Equal if *value == self.value => reason,
            CheckOutcome::Equal if accounting::has_words(value) => {
                if accounting::is_accounted(value, &self.known(prompt, rules)) { reason } else { Reason::NotUnderstood }
            }
            // What is not mathematics was not compared with a formula.
            CheckOutcome::NotEqual
                if value.has_text() && !self.value.has_text() && self.choice.is_none() && self.choices.is_none() =>
            {
                Reason::NotUnderstood
            }
            _ => reason,
        }
    }

    /// The verdict as multiple choice. `None` unless both answers are choices.
    fn compare_choice(&self, answer: &str, prompt: Option<&str>, known: &Known) -> Option<Reason> {
        let gold = self.choice?;
        let chosen =
            choice::of_answer(answer, known).or_else(|| choice::in_lower_case(answer).filter(|letter| *letter == gold));
        let content = |text: &str| choice::by_content(text, prompt?);
        let chosen = chosen.or_else(|| content(answer))?;
        // `(C) Bob` where Bob is another choice.
        if let Some(stated) = choice::content(answer).and_then(|stated| content(&stated))
            && stated != chosen
        {
            return Some(Reason::NotUnderstood);
        }
        Some(if chosen == gold { Reason::EqualChoice } else { Reason::DifferentChoice })
    }

    /// The verdict on other readings of both sides that is *equal*.
    fn by_other_readings(
        &self,
        answer: &str,
        value: &Value,
        prompt: Option<&str>,
        rules: &Rules,
        fuel: &mut Fuel,
    ) -> Option<(Reason, Value)> {
        if rules.equations == crate::Equations::Strict && rules.text_case == crate::TextCase::Exact {
            // The strict profile takes answers as written.
            return None;
        }
        // Two numbers have no other readings.
        let is_bare = |text: &str| !text.bytes().any(|byte| byte.is_ascii_alphabetic());
        if matches!((&self.value, value), (Value::Number(_), Value::Number(_))) && is_bare(answer) {
            return None;
        }
        let equal = |gold: &Value, read: &Value, fuel: &mut Fuel| {
            let reason = equality::compare(gold, read, rules, fuel);
            let reason = self.accounted(reason, (answer, read), prompt, rules);
            (reason.outcome() == CheckOutcome::Equal).then(|| (reason, read.clone()))
        };
        // `A: B` for the choice B.
        let is_choice = self.choice.is_some() && choice::content(answer).is_some();
        if is_choice {
            return None;
        }
        // The letter of a choice that the task has, for its content.
        if let Some(prompt) = prompt
            && self.choice.is_none()
            && let Some(content) = choice::of_answer(answer, &self.known(None, rules))
                .and_then(|letter| choice::content_in(prompt, letter))
            && let Ok(content) = parse(&content, fuel)
            && let Some(found) = equal(&self.value, &content, fuel)
        {
            return Some(found);
        }
        let readings = if value.has_text() || accounting::has_words(value) || choice::content(answer).is_some() {
            in_words(answer, value, Side::Answer, &self.known(prompt, rules), fuel)
        } else {
            Vec::new()
        };
        let golds = std::iter::once(&self.value).chain(&self.others);
        for (index, gold) in golds.enumerate() {
            // Both first readings were compared already.
            for read in std::iter::once(value).chain(&readings).skip(usize::from(index == 0)) {
                if let Some(found) = equal(gold, read, fuel) {
                    return Some(found);
                }
            }
        }
        others::of_formulas(&self.value, value)
            .into_iter()
            .find_map(|(gold, read)| equal(&gold, &read, fuel))
            .or_else(|| {
                let is_quantity = matches!(value, Value::Quantity(_));
                let is_open = matches!(self.value, Value::Expr(_) | Value::Relation(_));
                let gold = (is_quantity && is_open).then(|| with_letter_as_unit(&self.text, fuel)).flatten()?;
                equal(&gold, value, fuel)
            })
            .or_else(|| {
                // A last letter is a unit where the gold answer has no letters of its own.
                let is_open = matches!(value, Value::Expr(_) | Value::Relation(_) | Value::Quantity(_));
                let unit = (is_open && matches!(self.value, Value::Number(_) | Value::Quantity(_)))
                    .then(|| with_letter_as_unit(answer, fuel))
                    .flatten()?;
                equal(&self.value, &unit, fuel)
            })
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

fn says_percent(answer: &str) -> bool {
    let lower = answer.to_lowercase();
    ["percent", "per cent", "pct"].iter().any(|word| lower.contains(word))
}

/// Other readings of an answer that is text, or that a choice's letter stands before: without the words of the table.
fn in_words(answer: &str, first: &Value, side: Side, known: &Known, fuel: &mut Fuel) -> Vec<Value> {
    let mut found =
        if first.has_text() || accounting::has_words(first) { reading(answer, side, known, fuel) } else { Vec::new() };
    if let Some(content) = choice::content(answer)
        && let Ok(value) = parse(&content, fuel)
        && !value.has_text()
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
