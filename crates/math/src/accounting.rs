//! Whether every part of an answer is accounted for: words that equality leaves out of account must be known to be
//! harmless where they stand.

use crate::parse::names_a_value;
use crate::unit::Unit;
use crate::value::Assignments;
use crate::words::{self, Known, Role};
use crate::{Relation, Value};

/// Whether a value has words that equality may leave out of account: what is counted, and names in words.
pub(crate) fn has_words(value: &Value) -> bool {
    value.any(&mut |part| match part {
        Value::Quantity(quantity) => quantity.unit.nouns().next().is_some(),
        Value::Relation(relation) => relation.members.iter().any(|member| matches!(member, Value::Text(_))),
        _ => false,
    })
}

/// More than the unknown nouns that any rules allow.
const MAX_OTHERS: usize = 1000;

/// Whether a value has several parts whose order counts: a tuple, a vector, values of several names.
pub(crate) fn is_ordered(value: &Value) -> bool {
    match value {
        Value::Tuple(tuple) => tuple.items.len() > 1,
        Value::Matrix(matrix) => matrix.cells.len() > 1,
        Value::List(items) => Assignments::of(items).is_some_and(|assigned| assigned.common_name().is_none()),
        _ => false,
    }
}

/// Whether all of these words are known.
pub(crate) fn is_accounted(value: &Value, known: &Known) -> bool {
    let mut others = 0;
    let has_unknown_name = value.any(&mut |part| {
        match part {
            Value::Quantity(quantity) => {
                let unknown = quantity.unit.nouns().filter(|noun| !is_counted(noun, known));
                // What something is counted for is never an unknown noun that is harmless.
                others += unknown.map(|noun| if noun.starts_with(words::PER) { MAX_OTHERS } else { 1 }).sum::<usize>();
            }
            Value::Relation(relation) => return !has_known_names(relation, known),
            _ => {}
        }
        false
    });
    !has_unknown_name && others <= known.others
}

/// Whether a word of a unit is a noun, or one of the table's words that may follow it: `apples left`.
fn is_counted(noun: &str, known: &Known) -> bool {
    known.is_noun(noun) || words::is(Role::Tail, noun) || words::is(Role::Function, noun) || Unit::known(noun).is_some()
}

/// Whether what stands in words on a side of a relation names a value.
fn has_known_names(relation: &Relation, known: &Known) -> bool {
    relation.members.iter().all(|member| match member {
        Value::Text(text) => is_known_name(text.as_str(), known),
        _ => true,
    })
}

fn is_known_name(text: &str, known: &Known) -> bool {
    if names_a_value(text, known) {
        return true;
    }
    // An argument says what the value is of: `P(\\text{red})`, `Area(ABC)`.
    let call = text.find(['(', '[']).map(|at| text.split_at(at)).filter(|(name, _)| !name.contains(' '));
    let (name, argument) = call.unwrap_or((text, ""));
    let words_of = |text: &str| -> Vec<String> {
        let words = words::words_in(text, char::is_alphabetic).into_iter();
        words.filter(|(_, is_command)| !is_command).map(|(word, _)| word).collect()
    };
    let is_name = |word: &String| {
        let lower = word.to_lowercase();
        word.chars().nth(1).is_none()
            || word.chars().all(char::is_uppercase)
            || words::is(Role::Operator, &lower)
            || words::is(Role::Name, &lower)
            || words::is(Role::Function, &lower)
            || known.is_noun(word)
    };
    words_of(name).iter().all(is_name) && words_of(argument).iter().all(|word| !words::is_changing(word))
}

/// Most words of a gold answer that is text and may be answered by the same words.
const MAX_WORDS: usize = 3;

/// Whether a gold answer was read whole: as mathematics, or as a word or a few of them.
pub(crate) fn is_understood(value: &Value) -> bool {
    !value.any(&mut |part| match part {
        Value::Text(text) => {
            let text = text.as_str();
            let has_mathematics = text.contains(|c: char| c.is_ascii_digit() || "\\^_=+*{}".contains(c));
            has_mathematics || text.split_whitespace().nth(MAX_WORDS).is_some()
        }
        _ => false,
    })
}
