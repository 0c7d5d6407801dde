//! How a sentence after an answer begins: with words that take the answer back, in any language of the table.

use super::MAX_UNSPACED;
use crate::extract::foreign::{is_unspaced, without_openings};
use crate::slicing::SafeSlice;
use crate::words::{self, MAX_PHRASE_WORDS, Role};

/// Longest word, in characters, that contrasts only before a mark: `no, 37`.
const MAX_SHORT: usize = 5;

/// How a sentence begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// `I was wrong`
    Retracts,
    /// `No, it is`: the answer is taken back where another value follows.
    Contrasts,
    Other,
}

/// Whether a sentence begins with a phrase that takes back what precedes it.
pub(super) fn beginning(sentence: &str) -> Beginning {
    let lower = sentence.to_lowercase();
    let lower = lower.trim_start_matches(|c: char| !c.is_alphabetic());
    let is_marked =
        |rest: &str| rest.trim().is_empty() || rest.starts_with([',', '،', '，', '、', ':', '：', '.', '!']);
    let (mut end, mut found) = (0, Beginning::Other);
    for word in lower.split([' ', ',', '،', '，', '、', ':', '：', '.', '!', '\n']).take(MAX_PHRASE_WORDS) {
        end += word.len();
        let phrase = lower.prefix_to(end);
        let after = lower.suffix_from(end);
        let is_whole = is_marked(after) || phrase.contains(' ');
        if words::is(Role::Retraction, phrase) && is_whole {
            return Beginning::Retracts;
        }
        let is_long = || phrase.chars().nth(MAX_SHORT).is_some();
        if words::is(Role::Retraction, phrase) || words::is(Role::Contrast, phrase) && (is_whole || is_long()) {
            found = Beginning::Contrasts;
        }
        end += after.chars().next().map_or(0, char::len_utf8);
    }
    // Languages without spaces between words.
    if found != Beginning::Other || !lower.starts_with(is_unspaced) {
        return found;
    }
    // `所以应该是37`
    let lower = without_openings(lower);
    for (at, c) in lower.char_indices().take(MAX_UNSPACED) {
        let (phrase, after) = (lower.prefix_to(at + c.len_utf8()), lower.suffix_from(at + c.len_utf8()));
        if at == 0 && !is_marked(after) {
            continue;
        }
        if words::is(Role::Retraction, phrase) {
            return Beginning::Retracts;
        }
        if words::is(Role::Contrast, phrase) {
            found = Beginning::Contrasts;
        }
    }
    found
}
