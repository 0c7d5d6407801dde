//! The words and phrases that are known to be harmless beside an answer, and those that change it: `words.txt` says
//! where each may stand, and which lists allow and which deny.

mod known;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

pub(crate) use known::{Known, PER, compact};

/// Where a phrase may stand; `words.txt` says what each kind means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Connective,
    Opening,
    Name,
    Adjective,
    Verb,
    Lead,
    Tail,
    Remark,
    Choice,
    Label,
    Function,
    Counter,
    Operator,
    Reason,
    Plain,
    Closed,
    Hedge,
    Filler,
    Copula,
    Speech,
    Negation,
    Claim,
    Denial,
    Belief,
    Multiple,
    Scale,
    Percent,
    Open,
    Bound,
    Report,
    Restating,
    Offer,
    Retraction,
    Contrast,
    Changing,
}

const ROLES: [(&str, Role); 35] = [
    ("connective", Role::Connective),
    ("opening", Role::Opening),
    ("name", Role::Name),
    ("adjective", Role::Adjective),
    ("verb", Role::Verb),
    ("lead", Role::Lead),
    ("tail", Role::Tail),
    ("remark", Role::Remark),
    ("choice", Role::Choice),
    ("label", Role::Label),
    ("function", Role::Function),
    ("counter", Role::Counter),
    ("operator", Role::Operator),
    ("reason", Role::Reason),
    ("plain", Role::Plain),
    ("closed", Role::Closed),
    ("hedge", Role::Hedge),
    ("filler", Role::Filler),
    ("copula", Role::Copula),
    ("speech", Role::Speech),
    ("negation", Role::Negation),
    ("claim", Role::Claim),
    ("denial", Role::Denial),
    ("belief", Role::Belief),
    ("multiple", Role::Multiple),
    ("scale", Role::Scale),
    ("percent", Role::Percent),
    ("open", Role::Open),
    ("bound", Role::Bound),
    ("report", Role::Report),
    ("restating", Role::Restating),
    ("offer", Role::Offer),
    ("retraction", Role::Retraction),
    ("contrast", Role::Contrast),
    ("changing", Role::Changing),
];

/// The table: the kind of each row, its language, and its phrases separated by commas.
pub const ALLOW_LIST: &str = include_str!("words.txt");

/// Longest phrase of the table, in words.
pub(crate) const MAX_PHRASE_WORDS: usize = 6;

/// The kinds of each phrase, a bit for each.
static PHRASES: LazyLock<HashMap<&str, u64>> = LazyLock::new(|| {
    let mut kinds = HashMap::new();
    for (role, phrase) in rows() {
        *kinds.entry(phrase).or_default() |= bit(role);
    }
    kinds
});
/// Counted nouns, without the ending of their plural.
static COUNTERS: LazyLock<HashSet<String>> =
    LazyLock::new(|| rows().filter(|(role, _)| *role == Role::Counter).map(|(_, word)| singular(word)).collect());

/// The phrases in other languages than English.
static FOREIGN: LazyLock<Vec<(Role, &str)>> = LazyLock::new(|| rows_in(|language| language != "en").collect());

fn rows() -> impl Iterator<Item = (Role, &'static str)> {
    rows_in(|_| true)
}

/// The phrases of some languages.
fn rows_in(is_one: impl Fn(&str) -> bool) -> impl Iterator<Item = (Role, &'static str)> {
    let lines = ALLOW_LIST.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(move |line| {
            let mut columns = line.split('\t');
            let role = columns.next()?;
            let (_, role) = ROLES.iter().find(|(name, _)| *name == role)?;
            let is_wanted = columns.next().is_some_and(&is_one);
            Some((*role, columns.next()?)).filter(|_| is_wanted)
        })
        .flat_map(|(role, phrases)| phrases.split(", ").map(move |phrase| (role, phrase)))
}

fn bit(role: Role) -> u64 {
    1 << role as u32
}

/// Whether a word or phrase, in lower case and with single spaces, may stand in this place.
pub(crate) fn is(role: Role, phrase: &str) -> bool {
    is_any(&[role], phrase)
}

/// As [`is`], for any of several places.
pub(crate) fn is_any(roles: &[Role], phrase: &str) -> bool {
    let wanted = roles.iter().fold(0, |bits, role| bits | bit(*role));
    PHRASES.get(phrase).is_some_and(|kinds| kinds & wanted != 0)
}

/// Whether a text in lower case has a phrase of this kind in another language than English.
pub(crate) fn has_foreign(role: Role, text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphabetic() || c > '\u{2fff}');
    FOREIGN.iter().filter(|(of, _)| *of == role).any(|(_, phrase)| {
        text.match_indices(phrase).any(|(at, _)| {
            let (before, after) = (text.get(..at), text.get(at + phrase.len()..));
            is_end(before.and_then(|text| text.chars().next_back()))
                && is_end(after.and_then(|text| text.chars().next()))
        })
    })
}

/// Longest word that is looked up in any case.
const MAX_WORD_BYTES: usize = 16;

/// What a test says of a single word of ASCII letters in lower case; false for a longer word than any that is looked up.
pub(crate) fn in_lower_case(word: &str, test: impl FnOnce(&str) -> bool) -> bool {
    let mut lower = [0; MAX_WORD_BYTES];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    str::from_utf8(lower).is_ok_and(test)
}

/// Whether a word in lower case is a noun of the table.
pub(crate) fn is_counter(word: &str) -> bool {
    COUNTERS.contains(&singular(word))
}

/// The words of a text, each with whether it is the name of a command, such as `\\text`. `is_part` says of which
/// characters words are.
pub(crate) fn words_in(text: &str, is_part: impl Fn(char) -> bool) -> Vec<(String, bool)> {
    let mut words: Vec<(String, bool)> = Vec::new();
    let mut before = ' ';
    for c in text.chars() {
        if is_part(c) {
            match words.last_mut().filter(|_| is_part(before)) {
                Some((word, _)) => word.push(c),
                None => words.push((c.to_string(), before == '\\')),
            }
        }
        before = c;
    }
    words
}

/// Whether a word changes a number beside it: an ordinal, a part, a multiple, a negation, a comparison. Such words are
/// never nouns, wherever else they stand.
pub(crate) fn is_changing(word: &str) -> bool {
    let lower = word.to_lowercase();
    let one = lower.strip_suffix('s').unwrap_or(&lower);
    let is_part = one.len() > 4 && (one.ends_with("ieth") || one.ends_with("teenth") || one.ends_with("fold"));
    let is_large = ["illion", "illón", "illones", "illiard", "ллион", "ллиард"].iter().any(|part| lower.contains(part));
    // `centuries`, `batches`
    let is_plural = one.len() > 3 && (is(Role::Changing, one) || is(Role::Changing, &singular(&lower)));
    let is_listed = is(Role::Changing, &lower) || is_plural;
    let is_negated = lower.ends_with("n't") || lower.contains('’');
    is_part || is_large || is_listed || is_negated || lower.contains(|c| CHANGING_CHARACTERS.contains(c))
}

/// Characters of Chinese and Japanese that negate, hedge or multiply.
const CHANGING_CHARACTERS: &str = "不非没或约万亿千百十半倍双兆億萬無否左右几之";

/// A word in lower case, without the ending of a plural.
pub(crate) fn singular(word: &str) -> String {
    let lower = word.to_lowercase();
    if !lower.is_ascii() {
        return lower;
    }
    if let Some(stem) = lower.strip_suffix("ies").filter(|stem| stem.len() > 2) {
        return format!("{stem}y");
    }
    let is_added = ["xes", "ches", "shes", "sses", "oes"].iter().any(|end| lower.ends_with(end) && lower.len() > 4);
    if is_added {
        return lower.strip_suffix("es").unwrap_or(&lower).to_owned();
    }
    match lower.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
        _ => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_file_has_a_known_kind_a_language_and_phrases_in_lower_case() {
        let mut seen = HashSet::new();
        for line in ALLOW_LIST.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split('\t').collect();
            let [role, language, phrases] = columns[..] else { panic!("{line}: not three columns") };
            assert!(ROLES.iter().any(|(name, _)| *name == role), "{line}: kind");
            assert!(language.len() == 2 && language.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}: language");
            for phrase in phrases.split(", ") {
                let words = phrase.split(' ').count();
                assert!(!phrase.is_empty() && phrase == phrase.to_lowercase() && words <= MAX_PHRASE_WORDS, "{phrase}");
                seen.insert((role, phrase));
            }
        }
        assert_eq!(rows().count(), seen.len(), "a phrase stands twice in one place");
    }

    #[test]
    fn words_that_change_a_number_are_never_nouns() {
        let mut known = Known::default();
        known.add("He rejected half of the dozen quokkas, twice as many as the fourth.");
        assert!(known.is_noun("quokkas") && known.is_noun("quokka") && known.is_noun("apples"));
        for word in ["rejected", "half", "dozen", "twice", "fourth", "many", "twentieths", "hundredfold", "zillion"] {
            assert!(!known.is_noun(word), "{word}");
        }
        assert!(!known.is_noun("wombats"));
        known.add("A pair of twins in centuries lost their batches, removed deficits and sets. Das ist ein Dutzend.");
        for word in
            ["pairs", "twins", "centuries", "lost", "batches", "removed", "deficits", "sets", "Dutzend", "тысяч"]
        {
            assert!(!known.is_noun(word), "{word}");
        }
    }
}
