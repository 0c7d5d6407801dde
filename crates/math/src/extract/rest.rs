//! The rest of the sentence that a box stands in: the box is the answer only if all of it is accounted for.
//!
//! A unit, a noun of the table or the problem and what describes it, a phrase of the table, a reason, a remark in brackets
//! and `is the smallest such number` are. Any other word, number or sign may change the answer.

mod items;
mod noun;
mod prose;
mod remark;
mod script;

use super::restated::{self, Answered};
use super::{beside, foreign, spelled};
use crate::slicing::SafeSlice;
use crate::unit::Unit;
use crate::words::{self, Known, MAX_PHRASE_WORDS, Role};
use items::{Item, items_of};

/// Most bytes after a box that are read.
const MAX_BYTES: usize = 4096;
/// Words that begin a reason.
const REASONS: &str = "since because where given using rejecting discarding 所以 因此 因为";
/// Beginnings of what another clause says of the answer, and of ends.
const PHRASES: [&str; 30] = [
    "done",
    "we are done",
    "as required",
    "as desired",
    "as needed",
    "as claimed",
    "as stated",
    "as expected",
    "as asked",
    "as shown",
    "as wanted",
    "as it was asked",
    "as the problem says",
    "according to the table",
    "out of",
    "instead of",
    "rather than",
    "in base",
    "base",
    "written in base",
    "when divided by",
    "is correct",
    "is right",
    "is true",
    "final answer",
    "as before",
    "to the nearest",
    "wie verlangt",
    "which we wanted to show",
    "exactly",
];
/// Words before a number that make it no value: `in 5 hours`.
const PLACES: &str = "in at on during within step steps case part equation eq see day year grade level base mod modulo";
/// Words that lead on to another value or a condition.
const TURNS: &str = "if than as so whether does";
/// Adjectives of an answer that is one of a kind.
const SUPERLATIVES: &str = "smallest largest greatest least minimum maximum minimal maximal only unique such possible final correct right \
    desired required exact answer solution";

/// Whether everything between a box and the end of its sentence leaves it the answer. `before` ends where the box's
/// command begins, `after` begins behind the box.
pub(super) fn is_accounted(before: &str, after: &str, answer: &str, known: &Known) -> bool {
    let line = after.split_once('\n').map_or(after, |(line, _)| line);
    // Nothing, as in nearly all texts.
    if line.trim_matches(|c: char| c.is_whitespace() || ".$*})]\\".contains(c)).is_empty() {
        return true;
    }
    let line = line.prefix_to(line.floor_char_boundary(line.len().min(MAX_BYTES)));
    if is_noise(before, line) {
        return true;
    }
    let rest = sentence(before, line);
    if !rest.contains(|c: char| c.is_alphanumeric() || "%?‰％＋+".contains(c)) {
        return true;
    }
    let rest = spelled::in_digits(&rest);
    let items = items_of(&rest);
    if items.is_empty() {
        return true;
    }
    let mut at = 0;
    while let Some(length) = items.get(at..).and_then(|rest| accounted(rest, at == 0, answer, known)) {
        at += length;
        if at >= items.len() {
            return true;
        }
    }
    prose::is_harmless(before, &items, answer, known)
}

/// Whether plain text behind a box is what a small model makes of a further box, which says nothing: `noxed{37}`, `066}`.
fn is_noise(before: &str, line: &str) -> bool {
    if beside::is_in_formula(before) || before.ends_with('{') {
        return false;
    }
    let plain = line.split(['$', '\\']).next().unwrap_or_default();
    let touching =
        plain.split_whitespace().next().filter(|_| !plain.starts_with(char::is_whitespace)).unwrap_or_default();
    plain.contains("oxed{")
        || (touching.contains('}') && touching.trim_end_matches('}').bytes().all(|byte| byte.is_ascii_digit()))
}

/// The rest of a box's sentence, with the words of its formula and without the other parts of it, which `beside` reads.
fn sentence(before: &str, line: &str) -> String {
    let mut text = String::new();
    let mut outside = line;
    if beside::is_in_formula(before) {
        let end = ["$", "\\)", "\\]"].iter().filter_map(|mark| Some((line.find(mark)?, mark.len()))).min();
        let (at, length) = end.unwrap_or((line.len(), 0));
        let mut inside = line.prefix_to(at);
        while let Some((_, words)) = inside.split_once("\\text{") {
            let (words, rest) = words.split_once('}').unwrap_or((words, ""));
            text.push_str(words);
            text.push(' ');
            inside = rest;
        }
        outside = line.suffix_from(at + length).trim_start_matches('$');
        // The sentence ends within the formula.
        if line.prefix_to(at).trim_end().ends_with('.') {
            return text;
        }
    }
    let end = ENDS.iter().filter_map(|mark| outside.find(mark)).min().unwrap_or(outside.len());
    text.push_str(outside.prefix_to(end));
    text
}

/// What ends a sentence, or the text of a model.
const ENDS: [&str; 20] = [
    ". ",
    ".$",
    ".*",
    ".\"",
    "。",
    "! ",
    "！",
    " Final Answer",
    ", so ",
    ", thus ",
    ", hence ",
    ", therefore ",
    "</",
    "<|",
    "◁",
    "[/",
    "|",
    "<br",
    "assistantfinal",
    "\\end{",
];

/// How many items at the start are accounted for. `None` if the first is not.
fn accounted(items: &[Item<'_>], is_first: bool, answer: &str, known: &Known) -> Option<usize> {
    let word = |at| word(items, at);
    match items.first()? {
        Item::Mark => Some(1),
        // Another sentence.
        Item::Break if items.get(1).is_none_or(|next| next.word().is_some()) => Some(items.len()),
        Item::Break => Some(1),
        Item::Equals => Some(2.min(items.len())),
        Item::Open => {
            let end = items.iter().position(|item| *item == Item::Close)?;
            remark::is_harmless(items.get(1..end)?, answer, known).then_some(end + 1)
        }
        Item::Close => Some(1),
        Item::Number(number) => (!is_first && is_same(number, answer)).then_some(1),
        // `and $y = 3$`
        Item::Formula(formula) => {
            (!is_first && formula.contains(['=', '<', '>']) || is_same(formula, answer)).then_some(1)
        }
        Item::Other => None,
        Item::Word(_) => {
            if is_in(REASONS, word(0)) {
                return Some(items.len());
            }
            if let Some(length) = phrase(items) {
                return Some(
                    length + usize::from(matches!(items.get(length), Some(Item::Number(_) | Item::Formula(_)))),
                );
            }
            match (word(0), word(1)) {
                // `after 5 years`
                ("in" | "after" | "within" | "at" | "on", _) if matches!(items.get(1), Some(Item::Number(_))) => {
                    return is_noun(word(2), known).then_some(3);
                }
                ("not", _) if matches!(items.get(1), Some(Item::Number(_) | Item::Formula(_))) => {
                    return items.get(1).is_some_and(|other| !is_same(other.text(), answer)).then_some(2);
                }
                ("which" | "and", "is" | "are" | "was" | "equals") | ("and", "we" | "these") => return Some(1),
                ("and", _) if matches!(items.get(1), Some(Item::Formula(formula)) if formula.contains('=')) => {
                    return Some(2);
                }
                // `as x is an integer`
                ("as", name) if name.len() == 1 && name != "a" || matches!(items.get(1), Some(Item::Formula(_))) => {
                    return Some(items.len());
                }
                ("with", _) if !is_first => return Some(1),
                ("is" | "are" | "was", _) => return predicate(items.get(1..)?, known).map(|length| length + 1),
                _ => {}
            }
            if word(0).starts_with(foreign::is_unspaced) {
                return script::is_harmless(word(0), known).then_some(1);
            }
            noun::length(items, known)
        }
    }
}

/// The length of a phrase that is harmless after an answer.
fn phrase(items: &[Item<'_>]) -> Option<usize> {
    let words: Vec<&str> = items.iter().map_while(Item::word).take(MAX_PHRASE_WORDS).collect();
    (1..=words.len()).rev().find(|length| {
        let phrase = words.get(..*length).unwrap_or_default().join(" ");
        words::is_any(&[Role::Tail, Role::Percent], &phrase)
            || PHRASES.contains(&phrase.strip_prefix("and ").unwrap_or(&phrase))
    })
}

/// The length of what says which value the answer is: `the smallest such number`.
fn predicate(items: &[Item<'_>], known: &Known) -> Option<usize> {
    let words: Vec<&str> = items.iter().map_while(Item::word).collect();
    let (article, described) = words.split_first()?;
    let is_described = |word: &&str| {
        is_in(SUPERLATIVES, word)
            || !words::is_any(&[Role::Denial, Role::Negation], word)
                && (known.is_text(word)
                    || !words::is_changing(word)
                        && (words::is_any(&[Role::Function, Role::Plain, Role::Adjective], word)
                            || words::is_counter(word)))
    };
    let is_answer = matches!(*article, "the" | "our") && !described.is_empty();
    (is_answer && described.iter().all(is_described)).then_some(words.len())
}

fn word<'i>(items: &'i [Item<'_>], at: usize) -> &'i str {
    items.get(at).and_then(Item::word).unwrap_or_default()
}

/// Whether a word leads on from a noun: `minutes to catch the elephant`.
fn is_link(word: &str) -> bool {
    !is_in(TURNS, word) && words::is_any(&[Role::Closed, Role::Function, Role::Plain], word)
}

fn is_unit(word: &str) -> bool {
    word.chars().nth(1).is_some() && Unit::known(word).is_some()
}

/// Whether a word behind an answer is a unit or a noun that leaves it alone.
fn is_noun(word: &str, known: &Known) -> bool {
    let is_short = matches!(word, "m" | "g" | "s" | "h" | "l" | "w" | "n" | "j" | "v" | "a");
    known.is_noun(word) || !words::is_changing(word) && (is_short || is_unit(word))
}

/// Whether a number or formula is written as the answer.
fn is_same(text: &str, answer: &str) -> bool {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace() && !"${},".contains(*c)).collect::<String>();
    let is_number = |text: &str| {
        text.contains(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '/' | ','))
    };
    bare(text) == bare(answer)
        || is_number(text) && is_number(answer) && !restated::has_another(text, &Answered::new("", answer))
}

fn is_in(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split_whitespace().any(|listed| listed == word)
}

#[cfg(test)]
mod tests;
