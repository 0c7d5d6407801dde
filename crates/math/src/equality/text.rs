//! Text in canonical spelling.

use crate::expr::{Constant, Expr, Node};
use crate::{Notation, Reason, Rules, Text, TextCase, Value};

/// Texts that mean the same, and what they are compared as.
const SYNONYMS: [(&str, &str); 5] = [
    ("does not exist", "dne"),
    ("limit does not exist", "dne"),
    ("infinitely many solutions", "infinitely many"),
    ("all integers", "\\mathbb z"),
    ("integers", "\\mathbb z"),
];

pub(super) fn compare(gold: &Text, answer: &Text, rules: &Rules) -> Reason {
    compare_str(gold.as_str(), answer.as_str(), rules)
}

/// A text against letters parsed as a product: `\\text{No}` and `No`.
pub(super) fn compare_spelled(text: &Text, expr: &Expr, rules: &Rules) -> Reason {
    let mut spelled = String::new();
    for node in expr.nodes() {
        match node {
            Node::Symbol(name) => spelled.push_str(expr.name(*name)),
            Node::Constant(Constant::E) => spelled.push('e'),
            Node::Constant(Constant::I) => spelled.push('i'),
            Node::Constant(Constant::Pi) => spelled.push_str("pi"),
            Node::Multiply(..) => {}
            _ => return Reason::DifferentKind,
        }
    }
    compare_str(text.as_str(), &spelled, rules)
}

/// Digits and letters that were read as a product.
fn spelled(expr: &Expr) -> Option<String> {
    let mut text = String::new();
    for node in expr.nodes() {
        match node {
            Node::Literal(number) if number.notation == Notation::Integer => text.push_str(&number.to_string()),
            Node::Symbol(name) => text.push_str(expr.name(*name)),
            Node::Constant(Constant::E) => text.push('e'),
            Node::Multiply(..) => {}
            _ => return None,
        }
    }
    Some(text)
}

/// Digits in a base, against the same or against bare digits.
pub(super) fn compare_based(gold: &Value, answer: &Value) -> Reason {
    let digits = |value: &Value| match value {
        Value::Number(number) if number.notation == Notation::Integer && number.is_bare() => {
            number.exact().map(|value| value.numerator().to_string())
        }
        Value::Based(based) => Some(based.digits.clone()),
        // `4E` is a product of letters elsewhere.
        Value::Expr(expr) => spelled(expr).map(|digits| digits.to_uppercase()),
        _ => None,
    };
    match (gold, answer) {
        (Value::Based(a), Value::Based(b)) if a.base != b.base => Reason::DifferentBase,
        // `12_{15}` is not 12.
        (gold, Value::Based(answer)) if !matches!(gold, Value::Based(_)) && answer.base != 10 => Reason::DifferentBase,
        (gold, answer) => match (digits(gold), digits(answer)) {
            (Some(gold), Some(answer)) if gold == answer => Reason::EqualDigits,
            (Some(_), Some(_)) => Reason::DifferentNumber,
            _ => Reason::DifferentKind,
        },
    }
}

/// Whether two spellings of the same letters may be one word: of up to four letters, which may be a product, only a
/// first capital counts for nothing, and `YES` for `yes`.
fn may_fold(gold: &str, answer: &str) -> bool {
    const WORDS: [&str; 12] =
        ["yes", "no", "true", "false", "odd", "even", "none", "all", "both", "dne", "east", "west"];
    let is_long = |text: &str| text.chars().nth(4).is_some();
    let capital = |text: &str| {
        let mut letters = text.chars();
        letters.next();
        letters.all(|letter| !letter.is_uppercase())
    };
    let is_letters = |text: &str| text.chars().all(char::is_alphabetic);
    !is_letters(gold)
        || !is_letters(answer)
        || is_long(gold)
        || WORDS.iter().any(|word| gold.eq_ignore_ascii_case(word))
        || (gold.chars().nth(2).is_some() && capital(gold) && capital(answer))
}

fn compare_str(gold: &str, answer: &str, rules: &Rules) -> Reason {
    let fold = |text: &str| {
        let folded: String = folded(bare(text)).collect();
        SYNONYMS.iter().find(|(other, _)| *other == folded).map_or(folded, |(_, one)| (*one).to_owned())
    };
    let signs = |text: &str| text.trim_matches(|c: char| !c.is_alphabetic()).to_owned();
    let may_fold = || may_fold(&signs(gold), &signs(answer));
    let equal = gold == answer || (rules.text_case == TextCase::Fold && fold(gold) == fold(answer) && may_fold());
    if equal { Reason::EqualText } else { Reason::DifferentText }
}

/// The text without quotes and emphasis around it.
fn unquoted(text: &str) -> &str {
    let text = text.trim_matches(['"', '*', '`', '\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}']);
    text.trim_matches('\'').trim()
}

/// The text without an article or "Answer:" before it and the ending of an ordinal after it: `a circle`, `March14th`.
fn bare(text: &str) -> &str {
    let text = unquoted(text);
    let noun = ["Answer:", "answer:", "a ", "an ", "the ", "A ", "An ", "The "]
        .iter()
        .find_map(|article| text.strip_prefix(article));
    let noun = noun.unwrap_or(text).trim_start();
    let ordinal = ["st", "nd", "rd", "th"].iter().find_map(|ending| noun.strip_suffix(ending));
    ordinal.filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit())).unwrap_or(noun)
}

fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_matters_where_the_policy_says_so() {
        let gold = Text("Évelyn".into());
        let answer = Text("évelyn".into());
        let exact = Rules { text_case: TextCase::Exact, ..Rules::default() };
        assert_eq!(compare(&gold, &answer, &Rules::default()), Reason::EqualText);
        assert_eq!(compare(&gold, &answer, &exact), Reason::DifferentText);
    }
}
