//! The numbers that a sentence states, and whether one is another value than an answer.

use dashu_int::UBig;
use dashu_ratio::RBig;

use crate::extract::{beside, number};
use crate::parse::parse;
use crate::slicing::SafeSlice;
use crate::words::Known;
use crate::{CheckOutcome, Fuel, Notation, Number, Rules, Value, choice, equality};

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
    choice: Option<char>,
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
        // `36 (final answer)`
        let remark = value.trim_end().strip_suffix(')').and_then(|value| value.rsplit_once(" ("));
        let is_harmless = |remark: &str| remark.chars().all(|c| c.is_alphabetic() || c == ' ');
        let value = remark.filter(|(_, remark)| is_harmless(remark)).map_or(value, |(value, _)| value);
        let words = without_words(value);
        let value = words.as_deref().unwrap_or(value);
        let number = read(value);
        let is_letter = number.is_none() && text.len() <= MAX_NUMBER;
        let letter = words.as_deref().unwrap_or(text);
        let choice = is_letter.then(|| choice::of_answer(letter, &Known::default())).flatten();
        Self { text, number, name, choice }
    }

    /// Whether it is the letter of a choice.
    pub(in crate::extract) fn is_choice(&self) -> bool {
        self.choice.is_some()
    }

    /// Whether a name in lower case is that of the answer.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether it was read as a number.
    pub(in crate::extract) fn is_number(&self) -> bool {
        self.number.is_some()
    }

    /// Whether a text is the same value, without words.
    pub(in crate::extract) fn is_value(&self, text: &str) -> bool {
        let mut fuel = Fuel::new(FUEL);
        let mut read = |text: &str| {
            let value =
                parse(text.trim().trim_end_matches('.'), &mut fuel).ok().filter(|_| text.len() <= MAX_NUMBER)?;
            (!value.any(&mut |part| matches!(part, Value::Text(_) | Value::Quantity(_)))).then_some(value)
        };
        let (Some(own), Some(other)) = (read(self.text), read(text)) else { return false };
        equality::compare(&own, &other, &Rules::default(), &mut fuel).outcome() == CheckOutcome::Equal
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

    /// Whether the choices which a sentence states are another answer, as [`Self::is_another`] for values.
    pub(super) fn is_another_choice(&self, letters: &[char], offers_either: bool) -> bool {
        let Some(own) = self.choice else { return false };
        match letters {
            [letter] => *letter != own,
            letters => offers_either && letters.contains(&own) && letters.iter().any(|letter| *letter != own),
        }
    }

    /// Whether a formula is certainly another value than an answer, where one of them is no number.
    pub(in crate::extract) fn is_another_formula(&self, formula: &str) -> bool {
        let mut fuel = Fuel::new(FUEL);
        let is_exact = |value: &Value| !value.has_text() && !formula.contains('.');
        let other =
            if formula.len() > MAX_NUMBER || self.choice.is_some() { None } else { parse(formula, &mut fuel).ok() };
        let Some(other) = other.filter(is_exact) else { return false };
        let Some(own) = parse(self.text, &mut fuel).ok().filter(|own| !own.has_text()) else { return false };
        !matches!((&own, &other), (Value::Number(_), Value::Number(_)))
            && equality::compare(&own, &other, &Rules::default(), &mut fuel).outcome() == CheckOutcome::NotEqual
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

/// The letters of choices that stand alone in a sentence: `So it is (C).`
pub(super) fn choices(sentence: &str) -> Vec<char> {
    let mut words = sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    let mut found = Vec::new();
    // A letter of a formula, or in a box.
    if sentence.contains('\\') {
        return found;
    }
    while let Some(word) = words.next() {
        let mut letters = word.chars();
        let letter = letters.next().filter(|letter| ('A'..='J').contains(letter) && *letter != 'I');
        // `A number`
        let next = words.peek().copied();
        let is_article = next.is_some_and(|next| !matches!(next, "is" | "or" | "and" | "also" | "may"));
        match letter {
            Some(letter) if letters.next().is_none() && !(letter == 'A' && is_article) => found.push(letter),
            _ => {}
        }
    }
    found
}

/// What follows the last word of a clause: `x - 1` of `could be $x - 1$`.
pub(super) fn formula_at_end(clause: &str) -> &str {
    let mut rest = clause;
    let mut end = clause.len();
    while let Some(last) = rest.rfind(char::is_alphabetic) {
        let word = rest.prefix_to(last + rest.suffix_from(last).chars().next().map_or(1, char::len_utf8));
        let before = word.trim_end_matches(char::is_alphabetic);
        // A command or a name is no word.
        if !before.ends_with('\\') && word.suffix_from(before.len()).chars().nth(1).is_some() {
            end = word.len();
            break;
        }
        rest = before;
    }
    clause.suffix_from(end).trim_matches(|c: char| c.is_whitespace() || "$.:,".contains(c))
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

/// A text without the words in its formula: of `\\text{The area is }36` the number. `None` where it has none.
fn without_words(text: &str) -> Option<String> {
    let (mut bare, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("\\text{") {
        bare.push_str(before);
        rest = after.split_once('}')?.1;
    }
    (rest.len() < text.len()).then(|| bare + rest)
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
