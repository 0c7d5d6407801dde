//! What follows a box: an operator, a power, more digits, a word that multiplies.

use super::signs::CROSSES;
use super::{BLANKS, signs};
use crate::slicing::SafeSlice;
use crate::words::{self, MAX_PHRASE_WORDS, Role};

/// Letters that multiply what they touch.
const LETTERS: &str = "xyznkiKM";
/// Letters that multiply a box in their formula: all but units.
const FACTORS: &str = "abefijknopqrtuvwxyzBDEGHIKMOPQRSTUXYZ";
/// Commands that may follow a box in its formula and leave it the value.
const HARMLESS: &str = "text textrm textbf textit textsf mathrm mathbf mathit mathsf mbox hbox rm bf it quad qquad hspace hfill \
    degree circ end right left big Big bigr Bigr biggr Biggr tag qed blacksquare square Box checkmark approx simeq therefore because \
    pmod pod newline hline nonumber notag label color textcolor small large Large normalsize par item footnote because \
    equiv cong enspace enskip thinspace land lor wedge vee and or middle downarrow Downarrow begin vspace medskip bigskip \
    smallskip linebreak pagebreak displaystyle textstyle star bullet dag dagger overline boxed fbox iff Leftrightarrow";
/// Commands after a box that lead on to another value.
const LEADING_ON: &str = "to rightarrow longrightarrow Rightarrow Longrightarrow implies mapsto leadsto";
/// Whether what follows a box goes on with it: `^2`, `/2`, `+ 1`, ` million`.
pub(super) fn continues(after: &str, in_formula: bool, is_decimal: bool) -> bool {
    let rest = without_blanks(after);
    // `36` and then more digits, which outside of a formula are noise after an answer.
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let is_longer = (in_formula && digits(after) > 0)
        || after.strip_prefix('.').is_some_and(|part| digits(part) > 0)
        || after.strip_prefix([',']).is_some_and(|part| digits(part) == 3);
    // `\boxed{0.5}...` is a decimal that goes on.
    let dots = after.trim_start_matches(['$', ' ']);
    let is_cut =
        (is_decimal || in_formula) && ["...", "…", "\\ldots", "\\dots"].iter().any(|end| dots.starts_with(end));
    if is_longer || is_cut || is_power(rest) {
        return true;
    }
    if in_formula && signs::after().any(|sign| starts_with_sign(rest, sign)) {
        return true;
    }
    if in_formula && is_factor(rest) {
        return true;
    }
    if after.trim_start_matches([' ', '$', '*']).starts_with(CROSSES) {
        return true;
    }
    // Outside of a formula only what touches the box, and no sign of prose.
    let closing = || ["$$", "$", "\\)", "\\]"].iter().find_map(|mark| after.trim_start().strip_prefix(mark));
    let outside = if in_formula { closing() } else { Some(after.trim_start_matches('*')) };
    let is_joined = |after: &str| {
        let touches = |sign: &str| after.strip_prefix(sign).is_some_and(is_term);
        ["/", "+", "*", "-", "–", "—", "\u{2212}", "±"].into_iter().any(touches) || is_sum(after)
    };
    if outside.is_some_and(is_joined) || !in_formula && is_joined(after) {
        return true;
    }
    // `36+`
    if after.strip_prefix('+').is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)) {
        return true;
    }
    // `7x`, `7(x + 1)`
    let mut letters = after.chars();
    let is_letter =
        letters.next().is_some_and(|c| LETTERS.contains(c)) && !letters.next().is_some_and(char::is_alphabetic);
    is_letter || (in_formula && (after.starts_with('(') || is_ratio(after))) || is_scaled(rest)
}

/// `\boxed{1}:3`
fn is_ratio(after: &str) -> bool {
    after.trim_start().strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

fn without_blanks(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(next) = BLANKS.iter().find_map(|blank| rest.strip_prefix(blank)) {
        rest = next.trim_start();
    }
    rest
}

/// Whether a box is a number of hundredths: `\%`, `$ \%`, `percent`.
pub(super) fn is_percent(after: &str) -> bool {
    let rest = without_blanks(after);
    let sign = rest.trim_start_matches(['$', ' ']);
    sign.starts_with("\\%") || sign.starts_with('%') || begins_with(&words_after(rest), Role::Percent)
}

/// Whether the words after a box multiply it, `million`, or go on to compute: `minus 1`.
fn is_scaled(rest: &str) -> bool {
    let words = words_after(rest);
    begins_with(&words, Role::Scale)
        || begins_with(&words, Role::Open)
        || computes(&words)
        || hedges(&words)
        || is_conditional(rest, &words)
}

/// `if n is even and 37 otherwise`, but not `if you count both`.
fn is_conditional(rest: &str, words: &[String]) -> bool {
    let sentence = rest.split(". ").next().unwrap_or_default();
    words.first().is_some_and(|word| word == "if")
        && sentence.split(|c: char| !c.is_alphabetic()).any(|word| matches!(word, "otherwise" | "else"))
}

/// `or more`, `or thirty-seven`
fn hedges(words: &[String]) -> bool {
    let Some([or, next, ..]) = words.get(..2) else { return false };
    let next = next.split('-').next().unwrap_or_default();
    or == "or" && words::is_changing(next) && !matches!(next, "equivalently" | "alternatively")
}

/// Whether a letter or command goes on with the formula of a box: `\alpha`, `\sin x`, `a b`, `\to 3`.
fn is_factor(rest: &str) -> bool {
    let mut letters = rest.chars();
    let is_letter =
        letters.next().is_some_and(|c| FACTORS.contains(c)) && !letters.next().is_some_and(char::is_alphabetic);
    let Some(command) = rest.strip_prefix('\\') else { return is_letter };
    let after = command.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let name = command.prefix_to(command.len() - after.len());
    if super::left::is_listed(LEADING_ON, name) {
        let end = after.find(['$', '\n']).unwrap_or(after.len());
        return after.prefix_to(end).contains(|c: char| c.is_ascii_digit());
    }
    !name.is_empty() && !super::left::is_listed(HARMLESS, name)
}

/// The first words after a box, in lower case.
fn words_after(rest: &str) -> Vec<String> {
    let rest = rest.trim_start_matches(['$', '*', ' ', '{', '~', '(', '-']);
    let rest = rest.strip_prefix("\\)").or_else(|| rest.strip_prefix("\\]")).unwrap_or(rest);
    let rest = ["\\text{", "\\mathrm{", "\\textbf{"].iter().find_map(|text| rest.strip_prefix(text)).unwrap_or(rest);
    let rest = rest.trim_start_matches([' ', '\\', '{', '(']);
    if !rest.starts_with(char::is_alphabetic) {
        return Vec::new();
    }
    let is_end = |c: char| !c.is_alphanumeric();
    let words = rest.split(' ').map(|word| word.trim_end_matches(is_end).to_lowercase());
    words.filter(|word| !word.is_empty()).take(MAX_PHRASE_WORDS).collect()
}

fn begins_with(words: &[String], role: Role) -> bool {
    (1..=words.len()).any(|length| words.get(..length).is_some_and(|words| words::is(role, &words.join(" "))))
}

/// `minus 1`, `divided by 2`
fn computes(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let is_number = |at: usize| word(at).starts_with(|c: char| c.is_ascii_digit());
    match word(0) {
        "plus" | "minus" | "times" => is_number(1),
        "divided" | "multiplied" => word(1) == "by" && is_number(2),
        // A range.
        "to" | "through" | "thru" | "until" | "till" | "less" => is_number(1),
        "up" => word(1) == "to" && is_number(2),
        _ => false,
    }
}

/// `+ 1` after a box in no formula.
fn is_sum(after: &str) -> bool {
    let rest = after.trim_start();
    let term = ["+ ", "- ", "/ ", "– ", "— ", "\u{2212} ", "± ", "\\pm ", "\\times ", "\\cdot ", "× "]
        .iter()
        .find_map(|sign| rest.strip_prefix(sign));
    term.is_some_and(is_term)
}

/// Whether a text begins with a number or a command; the start of a formula, `\(`, is neither.
fn is_term(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '\\') && !text.starts_with("\\(") && !text.starts_with("\\[")
}

/// `^2`, `^{10}`, `^n`, but no degrees, and no ordinal.
pub(super) fn is_power(rest: &str) -> bool {
    let Some(power) = rest.strip_prefix('^') else { return false };
    let power = power.trim_start().trim_start_matches('{').trim_start_matches(['-', '\u{2212}']);
    let mut characters = power.chars();
    match characters.next() {
        Some(c) if c.is_ascii_digit() => true,
        Some(c) if c.is_ascii_alphabetic() && c != 'o' => !characters.next().is_some_and(char::is_alphabetic),
        _ => false,
    }
}

fn starts_with_sign(rest: &str, sign: &str) -> bool {
    rest.strip_prefix(sign).is_some_and(|after| match sign {
        // A dash between words, an arrow.
        "-" => !after.starts_with(['-', '>']),
        "*" => !after.starts_with('*'),
        // `\left`, `\newline`
        sign if sign.starts_with('\\') => !after.starts_with(|c: char| c.is_ascii_alphabetic()),
        "!" => !after.starts_with(' '),
        _ => true,
    })
}
