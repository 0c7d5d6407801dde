//! What English prose goes on to say behind a box: `more apples than James`, `hours to watch the two movies`.
//!
//! It leaves the box the answer unless it has another value, a denial, a bound, a factor or a word about answers.

use super::items::Item;
use super::{PLACES, SUPERLATIVES, is_in, is_noun, is_same, noun, remark, word};
use crate::words::{self, Known, Role};

/// Words that change a number where they stand next to it, and in prose compare or place it.
const COMPARISONS: &str = "more less fewer greater higher lower bigger smaller larger longer shorter taller most least over under above \
    below beyond short extra additional maximum minimum before after between until from up down too few many remainder divisor \
    divisors divisible divides by to increased decreased reduced added difference another same average mean first part whole times \
    without percent discount";
/// Words about the box itself, of which any may deny it.
const CLAIMS: &str = "answer answers solution solutions result results correct right true guess check or nor if unless \
    whether instead rather either but though although however because contradicts violates \
    works work option choice worst best";
/// Words right behind a box or its noun that may lead on to a denial.
const MODALS: &str = "must should would could can may might cannot does do did seems looks";
/// What a copula may lead on to.
const PREDICATES: &str = "the our its equal equivalent already indeed possible in less more greater left needed used also all both distinct different";
/// Words before a number of the problem.
const BEFORE_NUMBERS: &str =
    "be of in than by on for to at per from within after before between through until during the every all";
/// Words behind a box that lead to another bound or factor of it: `36 to 40`.
const RANGES: &str = "to by through until up times over per and";
/// Numbers in words, which say how many there are of something else.
const SPELLED: &str = "one two three four five six seven eight nine ten eleven twelve";
/// Ordinals, which say which of something else is meant.
const ORDINALS: &str = "first second third fourth fifth sixth seventh eighth ninth tenth";
/// Words before a box that a noun follows.
const VERBS: &str = "a an the are has have had needs need takes take leaves get gets bought sold made make makes";

/// Whether prose leaves a box the answer. `before` is the text up to it.
pub(super) fn is_harmless(before: &str, items: &[Item<'_>], answer: &str, known: &Known) -> bool {
    let is_english = items
        .iter()
        .filter_map(Item::word)
        .any(|word| is_grammar(word) || is_in(COMPARISONS, word) || known.is_text(word));
    let is_object = is_object(before);
    (is_english || is_object)
        && begins(is_object, items, known)
        && items.iter().enumerate().all(|(at, item)| is_item_harmless(item, items, at, answer, known))
}

fn is_grammar(word: &str) -> bool {
    words::is_any(&[Role::Function, Role::Plain, Role::Closed], word) || is_in(BEFORE_NUMBERS, word)
}

/// Whether a noun follows what stands before a box: `there are`, `22 - 7 =`.
fn is_object(before: &str) -> bool {
    let said = before.trim_end_matches(|c: char| c.is_whitespace() || "$\\([*{".contains(c));
    let terms = said.strip_suffix('=').map(str::trim_end).unwrap_or_default();
    terms.ends_with(|c: char| c.is_ascii_digit() || c == ')')
        || said.rsplit(|c: char| !c.is_ascii_alphabetic()).next().is_some_and(|verb| is_in(VERBS, verb))
}

/// Whether the piece that touches the box is known: an unknown word may be a verb that denies it, or a factor.
fn begins(is_object: bool, items: &[Item<'_>], known: &Known) -> bool {
    match items.first() {
        Some(Item::Word(first)) if first == "times" => {
            let next = word(items, 1);
            items.len() == 1 || is_in("in to per a each every more than during", next)
        }
        Some(Item::Word(first)) => {
            let is_bound = is_in(RANGES, first) && !matches!(items.get(1), Some(Item::Word(_)));
            let is_known = is_in("satisfies has have gives", first)
                || is_noun(first, known)
                || known.is_text(first)
                || is_grammar(first)
                || is_in(COMPARISONS, first);
            !is_bound && first != "and" && (is_known || is_object && !words::is_changing(first))
        }
        Some(Item::Mark) => true,
        _ => false,
    }
}

fn is_item_harmless(item: &Item<'_>, items: &[Item<'_>], at: usize, answer: &str, known: &Known) -> bool {
    let before = at.checked_sub(1).map(|at| word(items, at)).unwrap_or_default();
    // `to make 16 muffins`
    let places = is_in(BEFORE_NUMBERS, before) || at.checked_sub(2).is_some_and(|at| word(items, at) == "to");
    match item {
        Item::Word(word) if matches!(word.as_str(), "is" | "are" | "was" | "were") => {
            let (next, then) = (super::word(items, at + 1), super::word(items, at + 2));
            (is_in(PREDICATES, next) || known.is_noun(next))
                && (at > 0 || !is_in("the our", next) || known.is_text(then) || is_in(SUPERLATIVES, then))
        }
        Item::Word(word) if at < 3 && is_in(MODALS, word) => false,
        Item::Word(word) if is_in(SPELLED, word) => places,
        Item::Word(word) if is_in(ORDINALS, word) => at > 0,
        Item::Word(word) => {
            word.is_ascii()
                && !is_in(CLAIMS, word)
                && !words::is_any(&[Role::Denial, Role::Negation], word)
                && (!words::is_changing(word) || is_in(COMPARISONS, word))
        }
        Item::Number(number) => {
            is_same(number, answer)
                || is_in(PLACES, before)
                || places && (number.len() == 1 || known.has_number(number))
        }
        Item::Formula(formula) => {
            is_same(formula, answer) || places && (noun::is_name(formula) || known.has_number(formula))
        }
        Item::Open => {
            let inner = items.get(at + 1..).unwrap_or_default();
            let end = inner.iter().position(|item| *item == Item::Close);
            end.and_then(|end| inner.get(..end)).is_some_and(|inner| remark::is_harmless(inner, answer, known))
        }
        Item::Mark | Item::Close => true,
        Item::Break | Item::Equals | Item::Other => false,
    }
}
