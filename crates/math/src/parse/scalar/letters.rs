//! Words that are letters, and words that are products of letters.

use crate::expr::Function;

/// Words that spell a letter or constant.
pub(super) const LETTER_NAMES: [&str; 34] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "vartheta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Sigma",
    "Phi",
    "Psi",
    "Omega",
    "hbar",
];

/// Commands that denote letters or symbols, besides those that words spell.
const LETTERS: &str = "Xi Pi Upsilon varsigma varrho varpi varkappa ell nabla partial aleph imath jmath prime hslash \
    wp square Box star bigstar ast diamond Diamond diamondsuit heartsuit clubsuit spadesuit dagger blacksquare";

/// Whether a command denotes a letter.
pub(in crate::parse) fn is_letter(command: &str) -> bool {
    LETTER_NAMES.contains(&command) || LETTERS.split_whitespace().any(|letter| letter == command)
}

/// Whether a character stands for a word or syllable, and for no variable: Chinese, Japanese, Korean.
pub(in crate::parse) fn is_script_of_words(character: char) -> bool {
    matches!(character, '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a word of a few letters has no vowel, so that it is a product: `pqrs`.
pub(in crate::parse) fn has_no_vowel(word: &str) -> bool {
    word.len() < 7 && word.is_ascii() && !word.bytes().any(|byte| b"aeiouyAEIOUY".contains(&byte))
}

/// Longest word that is read as a product of its letters.
pub(super) const MAX_LETTERS: usize = 3;

/// Whether a word mixes letters and functions, like `xsinx`.
pub(super) fn contains_function(word: &str) -> bool {
    let tail = |at: usize| word.get(at..).is_some_and(|rest| Function::at_start(rest).is_some() || rest == "pi");
    (0..word.len().min(MAX_LETTERS)).any(tail)
}
