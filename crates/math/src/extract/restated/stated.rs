//! The numbers that a sentence states, and whether one is another value than an answer.

use dashu_int::UBig;
use dashu_ratio::RBig;

use crate::extract::{beside, number};
use crate::parse::parse;
use crate::slicing::SafeSlice;
use crate::{Fuel, Notation, Number, Value};

/// Longest text that is read as a number, in bytes.
const MAX_NUMBER: usize = 64;
/// Steps for reading one number.
const FUEL: u64 = 10_000;
/// Signs of a computation, a condition or an estimate: a sentence that has one states no value.
const SIGNS: [&str; 20] = [
    "=", "<", ">", "≤", "≥", "≠", "≈", "~", "+", "*", "\\le", "\\ge", "\\ne", "\\lt", "\\gt", "\\cdot", "\\times",
    "approx", "equiv", "\\sim",
];

/// An answer, its number if it is one, and the name before it: `x` of `x = \boxed{2}`.
#[derive(Debug)]
pub(in crate::extract) struct Answered<'a> {
    pub(in crate::extract) text: &'a str,
    number: Option<Number>,
    name: Option<&'a str>,
}

impl<'a> Answered<'a> {
    /// The answer `text` after `before`, which may end with the command of a box.
    pub(in crate::extract) fn new(before: &'a str, text: &'a str) -> Self {
        let before = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_NUMBER)));
        let before = before.trim_end_matches(['{', ' ', '*', '$']);
        let before = ["\\boxed", "\\fbox"].iter().find_map(|command| before.strip_suffix(command)).unwrap_or(before);
        let (inside, value) = match text.split_once('=') {
            Some((name, value)) => (Some(name.trim()), value),
            None => (None, text),
        };
        let name = inside.or_else(|| beside::name_before(before).map(|(_, name)| name));
        Self { text, number: read(value), name }
    }

    /// Whether it was read as a number.
    pub(super) fn is_number(&self) -> bool {
        self.number.is_some()
    }

    /// Whether values which a sentence states are another answer: one other value, or one beside the answer's own where
    /// the sentence offers either.
    pub(super) fn is_another(&self, values: &[Number], offers_either: bool) -> bool {
        match values {
            [value] => self.differs(value),
            values => {
                let count = values.iter().filter(|value| self.differs(value)).count();
                offers_either && count > 0 && count < values.len()
            }
        }
    }

    /// Whether a number is certainly another value: no rounding of the answer, and not its percentage.
    pub(super) fn differs(&self, other: &Number) -> bool {
        let Some(number) = &self.number else { return false };
        let (Some(ours), Some(theirs)) = (number.exact(), other.exact()) else { return false };
        let places = [number, other].into_iter().filter_map(|number| match number.notation {
            Notation::Decimal { places, .. } => Some(places),
            _ => None,
        });
        let unit = places.min().map_or(RBig::ZERO, |places| RBig::ONE / RBig::from(UBig::from(10_u8).pow(places)));
        let is_near = |value: &RBig| {
            let difference = value - theirs;
            let apart = if difference < RBig::ZERO { -difference } else { difference };
            apart == RBig::ZERO || apart < unit
        };
        let hundred = || RBig::from(100);
        let is_percentage =
            number.percent != other.percent && (is_near(&(ours * hundred())) || is_near(&(ours / hundred())));
        !is_near(ours) && !is_percentage
    }
}

/// Whose value `x = 37` is taken for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Names<'a> {
    /// The answer's only if the name is the one before it.
    Own(&'a Answered<'a>),
    /// The answer's if the name is one letter.
    AnyLetter,
}

/// The numbers that stand alone in a sentence; none where it computes, estimates or sets a condition.
pub(super) fn values(sentence: &str, names: Names<'_>) -> Vec<Number> {
    let sentence = ["\\(", "\\)", "\\[", "\\]"]
        .iter()
        .fold(sentence.replace("\\$", ""), |sentence, mark| sentence.replace(mark, "$"));
    let (stated, is_named) = match sentence.split_once('=') {
        None => (sentence.as_str(), false),
        Some((before, value)) if is_name(before, names) => (value, true),
        Some(_) => return Vec::new(),
    };
    if SIGNS.iter().any(|sign| stated.contains(sign)) {
        return Vec::new();
    }
    let marks = stated.matches('$').count();
    // `$18.00` is money, and `37$` the end of `$x = 37$`.
    if marks % 2 == 1 && !is_named {
        return numbers(&stated.replace('$', " "));
    }
    let mut found = Vec::new();
    for (at, part) in stated.split('$').enumerate() {
        if at % 2 == marks % 2 {
            found.extend(numbers(part));
        } else {
            found.extend(read(part.trim().trim_end_matches(['.', ','])));
        }
    }
    found
}

fn is_name(before: &str, names: Names<'_>) -> bool {
    let last = before.trim_end_matches([' ', '$']).rsplit([' ', '$', ',', ':']).next().unwrap_or_default();
    match names {
        _ if last.is_empty() => true,
        Names::Own(answer) => answer.name == Some(last),
        Names::AnyLetter => last.chars().nth(1).is_none() && last.starts_with(char::is_alphabetic),
    }
}

/// The numbers of a text outside of formulas that are no part of a word or a formula.
fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    let mut end = 0;
    for (at, c) in text.char_indices() {
        if at < end || !c.is_ascii_digit() {
            continue;
        }
        let length = number::length(text.suffix_from(at)).unwrap_or(1);
        end = at + length;
        let before = text.prefix_to(at);
        let unsigned = before.trim_end_matches(['-', '\u{2212}']);
        let is_part = |c: char| c.is_ascii_alphanumeric() || "\\_^.,/(){}[-".contains(c);
        let start = if unsigned.is_empty() || unsigned.ends_with(' ') { unsigned.len() } else { at };
        let mut rest = text.suffix_from(end);
        if let Some(next) = rest.strip_prefix("\\%").or_else(|| rest.strip_prefix('%')) {
            end = text.len() - next.len();
            rest = next;
        }
        let goes_on = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "\\_^/({-'".contains(c));
        if !goes_on && !text.prefix_to(start).ends_with(is_part) {
            found.extend(read(text.slice(start..end)));
        }
    }
    found
}

/// A text that is one number, with a unit or without.
fn read(text: &str) -> Option<Number> {
    if text.len() > MAX_NUMBER {
        return None;
    }
    match parse(text, &mut Fuel::new(FUEL)).ok()? {
        Value::Number(number) => Some(number),
        Value::Quantity(quantity) => match *quantity.amount {
            Value::Number(number) => Some(number),
            _ => None,
        },
        _ => None,
    }
}
