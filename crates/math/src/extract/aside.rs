//! Another value in brackets right after an answer: `(vs. 37)`, `[or 37]`.
//!
//! Every number there must be accounted for: it counts something, is a part of a computation, or stands after a word that
//! leaves the answer alone, as in `(see step 5)` and `(out of 100)`.

use super::restated::Answered;
use super::sentence::words_of;
use super::{restated, spelled};
use crate::slicing::SafeSlice;
use crate::unit::Unit;
use crate::words;

/// Most bytes after an answer in which a bracket may begin.
const MAX_BYTES: usize = 120;
/// Longest content of brackets that is read.
const MAX_INNER: usize = 80;
/// Words before a number that make it another thing than the answer.
const BEFORE: &str = "in on at of for from with than after before by to since until between over under above below per see \
    step steps eq eqn equation equations part parts problem problems question case cases figure fig page section theorem \
    lemma corollary note line row column rule property exercise example chapter item mod modulo base radix times plus choose level \
    method approach solution way round year amc aime imo hmmt usamo putnam because when approximately approx about roughly \
    nearly almost";
/// Beginnings of verbs for values that are none: `rejecting 37`.
const REFUSING: [&str; 6] = ["reject", "exclu", "discard", "ignor", "eliminat", "omit"];

/// Whether the brackets in the answer's own sentence give another value.
pub(super) fn gives_another(rest: &str, answer: &Answered<'_>) -> bool {
    let mut before = ' ';
    let near = rest.prefix_to(rest.floor_char_boundary(rest.len().min(MAX_BYTES)));
    for (at, c) in near.char_indices() {
        let closing = match c {
            '\n' => return false,
            ' ' if before == '.' => return false,
            '(' => ')',
            '[' => ']',
            '{' => '}',
            '<' => '>',
            _ => {
                before = c;
                continue;
            }
        };
        // `\frac{7}{2}`
        let is_aside = before.is_whitespace() || c != '{' && matches!(before, '$' | '}' | '*');
        before = c;
        let inner = rest.suffix_from(at + 1);
        let inner = inner.prefix_to(inner.floor_char_boundary(inner.len().min(MAX_INNER)));
        if is_aside
            && let Some((inner, _)) = inner.split_once(closing)
            && !(c == '{' && inner.contains('\\'))
            && is_another(inner, answer)
        {
            return true;
        }
    }
    false
}

fn is_another(inner: &str, answer: &Answered<'_>) -> bool {
    // The mark of a footnote or an equation.
    if inner.len() < 3 && inner.bytes().all(|byte| byte.is_ascii_digit())
        || !restated::has_another(&spelled::in_digits(inner), answer)
    {
        return false;
    }
    let words = words_of(&spelled::in_digits(inner));
    // `n may be 1`
    let is_name = |word: &String| {
        word.chars().nth(1).is_none() && word.starts_with(char::is_alphabetic) && word != "a" && word != "i"
    };
    !words.iter().any(is_name)
        && words.iter().enumerate().any(|(at, word)| word == "#" && !is_accounted(words.get(..at), words.get(at + 1)))
}

/// Whether the words beside a number say what it is.
fn is_accounted(before: Option<&[String]>, after: Option<&String>) -> bool {
    let is_counted = after.is_some_and(|word| words::is_counter(word) || Unit::known(word).is_some());
    // `from 1, 2, and 3`
    let mut words = before.unwrap_or_default().iter().rev();
    let word = words.find(|word| !matches!(word.as_str(), "," | "and" | "#"));
    let is_led = word.is_some_and(|word| {
        BEFORE.split_whitespace().any(|listed| listed == word) || REFUSING.iter().any(|start| word.starts_with(start))
    });
    is_counted || is_led
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gives(rest: &str) -> bool {
        gives_another(rest, &Answered::new("\\boxed{", "36"))
    }

    #[test]
    fn a_number_that_nothing_accounts_for_is_another_value() {
        for rest in [
            "(vs. 37)",
            "[or 37]",
            "(if not, 37)",
            "(thirty-seven)",
            "} {or 37}",
            "$ (Bob: 37).",
            "(37?)",
            "(got 37)",
            "(37 each)",
        ] {
            assert!(gives(rest), "{rest}");
        }
        for rest in [
            "(see step 5)",
            "(out of 100)",
            "(n may be 1)",
            "(1)",
            "[2]",
            "(from 1, 2 and 3)",
            "(rejecting 37)",
            "(3 groups of 12)",
            "($6 \\times 6$)",
            "(thirty-six)",
            "(just a guess)",
            ". So f(37) is none",
        ] {
            assert!(!gives(rest), "{rest}");
        }
    }
}
