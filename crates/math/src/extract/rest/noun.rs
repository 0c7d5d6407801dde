//! A unit or a noun behind a box, and what describes it.

use super::items::Item;
use super::{PLACES, REASONS, TURNS, is_in, is_link, is_noun, is_unit, phrase};
use crate::words::{self, Known, Role};

/// The length of a unit or a noun and what describes it: `minutes to catch the elephant`.
pub(super) fn length(items: &[Item<'_>], known: &Known) -> Option<usize> {
    let word = |at: usize| items.get(at).and_then(Item::word).unwrap_or_default();
    let is_adjective = |word: &str| {
        words::is(Role::Function, word) && !matches!(word, "per" | "in" | "for" | "of" | "on")
            || is_in("possible whole full more such square cubic", word) && word != "more" && word != "whole"
    };
    let is_known = |word: &str| {
        is_noun(word, known) || is_in("digit digits", word) || words::is(Role::Name, word) && !words::is_changing(word)
    };
    let mut at = 0;
    while is_adjective(word(at)) && !is_known(word(at)) {
        at += 1;
    }
    if matches!(word(0), "in" | "of" | "for" | "per" | "on" | "to" | "at") && known.is_text(word(1)) && at == 0 {
        at = 1;
    }
    let is_place = matches!(word(0), "in" | "of" | "for" | "per" | "on" | "at") && is_link(word(1));
    if !is_place && !is_known(word(at)) {
        return None;
    }
    at += 1;
    while let Some(item) = items.get(at) {
        let before = word(at - 1);
        let is_followed = items.get(at + 1).is_some_and(|next| next.word().is_some());
        let is_harmless = match item {
            Item::Word(word) => {
                let is_unknown = is_link(before) || is_followed && (word.ends_with("ed") || word.ends_with("ing"));
                match () {
                    () if matches!(word.as_str(), "to" | "from" | "by" | "after" | "before") => is_followed,
                    () if words::is_changing(word) => false,
                    () if is_known(word) => true,
                    () if word == "per" || word == "each" || word == "every" => {
                        known.is_text(super::word(items, at + 1)) || !is_followed || is_unit(super::word(items, at + 1))
                    }
                    () => is_link(word) || is_unknown && !is_in(TURNS, word) || words::is(Role::Tail, word),
                }
            }
            Item::Number(_) => is_in(PLACES, before),
            // `for $B$`
            Item::Formula(formula) if is_link(before) && formula.contains(|c: char| c.is_ascii_alphabetic()) => {
                !matches!(before, "and" | "or") || is_name(formula)
            }
            Item::Equals | Item::Other => false,
            Item::Mark | Item::Break | Item::Open | Item::Close | Item::Formula(_) => break,
        };
        if !is_harmless {
            // Another clause may begin here.
            return (is_in(REASONS, word(at)) || phrase(items.get(at..).unwrap_or_default()).is_some()).then_some(at);
        }
        at += 1;
    }
    Some(at)
}

/// Whether a formula is a name, and no value: `$B$`, `$x_1$`, `$\overline{AB}$`.
pub(super) fn is_name(formula: &str) -> bool {
    let mut before = ' ';
    !formula.chars().any(|c| {
        let is_of_value = "+-*/^".contains(c) || c.is_ascii_digit() && !matches!(before, '_' | '{');
        before = c;
        is_of_value
    }) && !["\\frac", "\\dfrac", "\\sqrt"].iter().any(|command| formula.starts_with(command))
}
