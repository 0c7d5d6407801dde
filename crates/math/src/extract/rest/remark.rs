//! A remark in brackets behind a box: `(final answer)`, `(since $x > 0$)`, `(see step 5)`.

use super::items::Item;
use super::{PLACES, REASONS, SUPERLATIVES, is_in, is_noun, is_same, phrase, word};
use crate::words::{self, Known, Role};

/// Whether a remark in brackets leaves the answer what it is; other values in it are seen by `aside`.
pub(super) fn is_harmless(inner: &[Item<'_>], answer: &str, known: &Known) -> bool {
    let words: Vec<&str> = inner.iter().map_while(Item::word).collect();
    let is_all_words = words.len() == inner.len();
    if is_all_words && (words::is(Role::Remark, &words.join(" ")) || words.as_slice() == ["just", "a", "guess"]) {
        return true;
    }
    if word(inner, 0) == "x" || inner.contains(&Item::Other) || inner.is_empty() {
        return inner.is_empty();
    }
    // `(not C)`
    if let [Item::Word(not), Item::Word(letter)] = inner
        && not == "not"
        && letter.chars().nth(1).is_none()
    {
        return true;
    }
    if is_in(REASONS, word(inner, 0))
        || phrase(inner)
            .is_some_and(|length| length + usize::from(matches!(inner.last(), Some(Item::Number(_)))) == inner.len())
    {
        return true;
    }
    let is_harmless = |item: &Item<'_>| match item {
        Item::Word(word) => {
            is_noun(word, known)
                || !is_in(OTHERS, word)
                    && (words::is_any(
                        &[Role::Function, Role::Plain, Role::Reason, Role::Restating, Role::Remark],
                        word,
                    ) || is_in(PLACES, word)
                        || is_in(SUPERLATIVES, word)
                        || word.chars().nth(1).is_none()
                        || known.is_text(word) && !words::is_changing(word))
        }
        _ => true,
    };
    // `(one of two)`
    let is_share =
        word(inner, 0) == "one" || is_in("of solution solutions", word(inner, 1)) && word(inner, 0).is_empty();
    // `(6 rows of 6)`, `(n may be 1)`, `(see step 5)`, `(5)`
    let numbers = inner.iter().filter(|item| matches!(item, Item::Number(_))).count();
    let has_name =
        inner.iter().any(|item| item.word().is_some_and(|word| word.chars().nth(1).is_none() && word != "a"));
    let is_placed = |at: usize| {
        at.checked_sub(1)
            .is_some_and(|at| is_in(PLACES, word(inner, at)) || is_in("of for from rejecting", word(inner, at)))
    };
    let is_told = |(at, item): (usize, &Item<'_>)| {
        !matches!(item, Item::Number(_)) || is_same(item.text(), answer) || is_placed(at)
    };
    let is_computed = numbers > 1 || has_name || inner.len() == 1;
    !is_share
        && (is_computed || inner.iter().enumerate().all(is_told))
        && (inner.iter().all(is_harmless) || word(inner, 0) == "rejecting")
}

/// Words of a remark that make the answer another one.
const OTHERS: &str = "no not maybe perhaps old new another other second first real better either or";
