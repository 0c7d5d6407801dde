//! Reads an answer, given by itself or extracted.

use std::borrow::Cow;

use crate::extract::{Extracted, NoAnswer, boxed, extract};
use crate::parse::{ParseError, parse, plain, small_integer};
use crate::{DecimalComma, Fuel, Marker, Number, Rules, Value};

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
pub(super) fn read_answer<'a>(
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
pub(super) fn with_point(text: &str, rules: &Rules, fuel: &mut Fuel) -> Option<Value> {
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
pub(super) fn read<'a>(found: Extracted<'a>, fuel: &mut Fuel) -> (Cow<'a, str>, Result<Value, ParseError>) {
    let (answers, alternatives) = match found {
        Extracted::One(answer) => return (Cow::Borrowed(answer.trim()), parse(answer, fuel)),
        Extracted::Several { answers, alternatives } => (answers, alternatives),
    };
    let separator = if alternatives { " or " } else { ", " };
    let extracted = Cow::Owned(answers.iter().map(|answer| answer.trim()).collect::<Vec<_>>().join(separator));
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

/// Parses a number that a percent sign follows. `None` for anything else.
pub(super) fn read_percent<'a>(answer: &'a str, fuel: &mut Fuel) -> Option<(Cow<'a, str>, Result<Value, ParseError>)> {
    match parse(answer, fuel) {
        Ok(Value::Number(number)) if number.is_bare() => {
            Some((Cow::Borrowed(answer.trim()), Ok(Value::Number(Number { percent: true, ..number }))))
        }
        _ => None,
    }
}
