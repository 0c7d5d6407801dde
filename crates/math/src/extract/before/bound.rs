//! Ends of a sentence before a box that make it another value: `less than`, `close to`, `the successor of`, `in thousands`.

use crate::extract::sentence::without;
use crate::slicing::SafeSlice;
use crate::words::{self, Known, Role};

/// Whether the sentence before a box counts it in thousands or the like, which the problem does not.
pub(super) fn is_in_scale(sentence: &str, known: &Known) -> bool {
    let Some(at) = sentence.rfind("in ").or_else(|| sentence.rfind("In ")) else { return false };
    let word = sentence.suffix_from(at + 3).split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    word.ends_with('s') && words::is(Role::Scale, word) && !known.is_text(word)
}

/// Whether a word ends a phrase before a box that makes it another value: `than`, `of`.
pub(super) fn is_end_of_bound(word: &str) -> bool {
    matches!(
        word,
        "than" | "of" | "from" | "the" | "a" | "least" | "most" | "to" | "only" | "by" | "divides" | "and" | "out"
    ) || words::in_lower_case(word, |word| words::is(Role::Bound, word))
        || ["longer", "but"].contains(&word)
}

/// Whether a clause ends with words that make the answer another value than the box: `less than`, `the square root of`,
/// `the answer is at least`.
pub(super) fn is_bound(clause: &[&str]) -> bool {
    let words = without(clause, |word| matches!(word, "the" | "a" | "an" | "exactly" | "only"));
    let ends = |phrases: usize| {
        let start = words.len().checked_sub(phrases)?;
        words.get(start..).map(|words| words.join(" "))
    };
    let is_bound = (1..=MAX_BOUND_WORDS).any(|count| ends(count).is_some_and(|phrase| words::is(Role::Bound, &phrase)));
    // A bound is the answer of many tasks, but no answer is a bound.
    let is_extreme =
        matches!(words, [.., "at", "least" | "most"] | [.., "up", "to"] | [.., "divisible", "by"] | [.., "divides"])
            || matches!(words, [.., "multiple" | "divisor" | "factor" | "power", "of"]);
    if matches!(words, [.., "between", "#", "and"]) || is_neighbour(clause) {
        return true;
    }
    // `the answer: it takes at least` announces the extreme itself.
    let is_link = |word: &&str| {
        matches!(*word, "is" | "be" | "must" | "at" | "least" | "most" | "up" | "to" | "a" | "by" | "divides" | "of")
            || matches!(*word, "divisible" | "multiple" | "divisor" | "factor" | "power" | "always" | "also")
            || words::is(Role::Copula, word)
    };
    let is_told = clause.iter().rposition(|word| *word == "answer").and_then(|at| words.get(at + 1..));
    is_bound && !is_name_of_value(words) || is_extreme && is_told.is_some_and(|words| words.iter().all(is_link))
}

/// Whether a clause ends with what is near a box, made of it, or done with it: `close to`, `the successor of`, `add 1 to`.
fn is_neighbour(clause: &[&str]) -> bool {
    const BARE: [&str; 17] = [
        "equal", "simplify", "evaluate", "reduce", "lead", "come", "amount", "add", "sum", "down", "up", "out", "back",
        "it", "this", "#", "round",
    ];
    let is_verb = |word: &str| ["s", "ed", "ing", "own"].iter().any(|end| word.ends_with(end)) || BARE.contains(&word);
    let is_name = |word: &str| words::is_any(&[Role::Name, Role::Label, Role::Adjective], word) || word == "#";
    match clause {
        ["add", "#", "to"] | [.., "rule" | "rules" | "ruled", "out"] => true,
        [.., word, "to"] => !is_verb(word) && !words::is_any(&[Role::Name, Role::Connective], word),
        [.., "the", kind, noun, "of"] if *kind != "the" => !(is_name(noun) && is_name(kind)),
        [.., "the", noun, "of"] | [.., "number", "of", noun, "of"] => !is_name(noun),
        _ => false,
    }
}

/// Most words of a phrase before a box that makes it another value.
const MAX_BOUND_WORDS: usize = 2;

/// Whether a last word names what stands elsewhere: `the number above`, but not `the answer is above`.
fn is_name_of_value(words: &[&str]) -> bool {
    matches!(words, [.., before, "above" | "below"] if !matches!(*before, "is" | "are" | "be" | "was" | "#"))
}
