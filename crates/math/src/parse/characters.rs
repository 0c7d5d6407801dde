//! Normalises Unicode that has an ASCII or TeX equivalent, and rejects invisible characters.

use std::borrow::Cow;

use super::ParseError;
use crate::digits;
use crate::slicing::SafeSlice;

/// The text with one spelling for each character: variants of minus, full-width forms, spaces, fractions and common
/// symbols. Digits of other scripts are left for [`readable`] to reject.
pub(crate) fn plain(text: &str) -> Result<Cow<'_, str>, ParseError> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    if text.bytes().all(is_plain) {
        return Ok(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let here = rest;
        rest = rest.suffix_from(character.len_utf8());
        if let Some(command) = unescaped(character, rest) {
            if plain.ends_with('\\') {
                plain.pop();
            }
            plain.push_str(command);
            continue;
        }
        if let Some(raised) = raised(character) {
            // A run of them is one exponent or index.
            let is_super = raised.is_super;
            let (run, after) = run(here, is_super);
            if is_super && let Some((below, after)) = denominator(after) {
                plain.extend(["\\frac{", &run, "}{", &below, "}"]);
                rest = after;
                continue;
            }
            plain.extend([if is_super { "^{" } else { "_{" }, &run, "}"]);
            rest = after;
            continue;
        }
        if is_hidden(character) {
            return Err(ParseError::HiddenCharacter(character));
        }
        match fraction(character).or_else(|| spelled(character)) {
            Some(spelling) => plain.push_str(spelling),
            None => plain.push(fullwidth(character)),
        }
    }
    Ok(Cow::Owned(plain))
}

/// The escape that a control character results from: `\\frac` read as a form feed and `rac`.
fn unescaped(character: char, rest: &str) -> Option<&'static str> {
    match character {
        '\u{c}' if rest.starts_with("rac") => Some("\\f"),
        '\u{8}' if ["oxed", "egin", "inom", "eta"].iter().any(|tail| rest.starts_with(tail)) => Some("\\b"),
        _ => None,
    }
}

/// A superscript or subscript.
struct Raised {
    plain: char,
    is_super: bool,
}

/// The superscript or subscript characters at the start of a text in plain form, and the rest.
fn run(text: &str, is_super: bool) -> (String, &str) {
    let as_plain =
        |character| raised(character).filter(|raised| raised.is_super == is_super).map(|raised| raised.plain);
    let end = text.find(|character| as_plain(character).is_none()).unwrap_or(text.len());
    (text.prefix_to(end).chars().filter_map(as_plain).collect(), text.suffix_from(end))
}

/// The subscript digits after a slash, as in `¹⁄₂`, and the rest.
fn denominator(text: &str) -> Option<(String, &str)> {
    let (below, after) = run(text.strip_prefix(['\u{2044}', '\u{2215}', '/'])?, false);
    (!below.is_empty() && below.bytes().all(|byte| byte.is_ascii_digit())).then_some((below, after))
}

/// Rejects digits of other scripts and digits with combining marks, such as keycap digits.
pub(super) fn readable(plain: &str) -> Result<(), ParseError> {
    let mut after_digit = false;
    for character in plain.chars() {
        if digits::is_other_script(character) || (after_digit && digits::is_mark(character)) {
            return Err(ParseError::UnreadableDigit(character));
        }
        after_digit = character.is_ascii_digit();
    }
    Ok(())
}

fn raised(character: char) -> Option<Raised> {
    let raised = |plain, is_super| Some(Raised { plain, is_super });
    match character {
        '⁰' => raised('0', true),
        '¹' => raised('1', true),
        '²' => raised('2', true),
        '³' => raised('3', true),
        '⁴'..='⁹' => raised(char::from_digit(u32::from(character) - u32::from('⁰'), 10)?, true),
        '⁺' => raised('+', true),
        '⁻' => raised('-', true),
        'ⁿ' => raised('n', true),
        'ˣ' => raised('x', true),
        '₀'..='₉' => raised(char::from_digit(u32::from(character) - u32::from('₀'), 10)?, false),
        '₊' => raised('+', false),
        '₋' => raised('-', false),
        'ₙ' => raised('n', false),
        _ => None,
    }
}

/// Control characters, directional marks and joiners: with them, the text read is not the text seen.
fn is_hidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

/// The ASCII character of a full-width one, and the ASCII digit of a digit variant.
fn fullwidth(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => {
            let offset = u32::from(character) - 0xff01;
            char::from_u32(u32::from('!') + offset).unwrap_or(character)
        }
        _ => digits::to_ascii(character).unwrap_or(character),
    }
}

/// A vulgar-fraction character. `None` for any other.
pub(crate) fn fraction(character: char) -> Option<&'static str> {
    Some(match character {
        '½' => "\\frac{1}{2}",
        '⅓' => "\\frac{1}{3}",
        '⅔' => "\\frac{2}{3}",
        '¼' => "\\frac{1}{4}",
        '¾' => "\\frac{3}{4}",
        '⅕' => "\\frac{1}{5}",
        '⅖' => "\\frac{2}{5}",
        '⅗' => "\\frac{3}{5}",
        '⅘' => "\\frac{4}{5}",
        '⅙' => "\\frac{1}{6}",
        '⅚' => "\\frac{5}{6}",
        '⅛' => "\\frac{1}{8}",
        '⅜' => "\\frac{3}{8}",
        '⅝' => "\\frac{5}{8}",
        '⅞' => "\\frac{7}{8}",
        '⅐' => "\\frac{1}{7}",
        '⅑' => "\\frac{1}{9}",
        '⅒' => "\\frac{1}{10}",
        '↉' => "\\frac{0}{3}",
        _ => return None,
    })
}

/// The ASCII or TeX spelling of a character. `None` if it is kept.
fn spelled(character: char) -> Option<&'static str> {
    Some(match character {
        // Hyphens, dashes and minus signs, except the small and superscript ones.
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{2796}' | '\u{fe58}' | '\u{fe63}' => "-",
        '\u{2795}' | '\u{fe62}' => "+",
        // Non-breaking spaces group thousands.
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{200a}' | '\u{202f}' => "~",
        '\u{2000}'..='\u{2006}' | '\u{2008}' | '\u{205f}' | '\u{3000}' => " ",
        '\u{2044}' | '\u{2215}' => "/",
        '×' => "\\times ",
        '·' | '⋅' | '∙' => "\\cdot ",
        '÷' => "\\div ",
        '\u{215f}' => "1/",
        '±' => "\\pm ",
        '∓' => "\\mp ",
        'π' => "\\pi ",
        '∞' => "\\infty ",
        '≤' | '⩽' => "\\le ",
        '≥' | '⩾' => "\\ge ",
        '≠' => "\\ne ",
        '∪' => "\\cup ",
        '∩' => "\\cap ",
        '∈' => "\\in ",
        '∅' => "\\emptyset ",
        '√' => "\\surd ",
        '∛' => "\\sqrt[3]",
        '∜' => "\\sqrt[4]",
        '∑' => "\\sum ",
        '∏' => "\\prod ",
        '≈' => "\\approx ",
        '～' | '∼' => "\\sim ",
        '≡' => "\\equiv ",
        '∖' => "\\setminus ",
        'ℝ' => "\\mathbb{R}",
        'ℤ' => "\\mathbb{Z}",
        'ℕ' => "\\mathbb{N}",
        'ℚ' => "\\mathbb{Q}",
        'ℂ' => "\\mathbb{C}",
        '→' => "\\to ",
        '∣' => "|",
        '∶' => ":",
        '∗' => "*",
        '、' => ",",
        '。' => ".",
        '〈' => "⟨",
        '〉' => "⟩",
        'µ' => "\\mu ",
        'α' => "\\alpha ",
        'β' => "\\beta ",
        'γ' => "\\gamma ",
        'δ' => "\\delta ",
        'ε' => "\\epsilon ",
        'ζ' => "\\zeta ",
        'η' => "\\eta ",
        'θ' => "\\theta ",
        'ι' => "\\iota ",
        'κ' => "\\kappa ",
        'λ' => "\\lambda ",
        'μ' => "\\mu ",
        'ν' => "\\nu ",
        'ξ' => "\\xi ",
        'ρ' => "\\rho ",
        'σ' => "\\sigma ",
        'τ' => "\\tau ",
        'υ' => "\\upsilon ",
        'φ' => "\\phi ",
        'χ' => "\\chi ",
        'ψ' => "\\psi ",
        'ω' => "\\omega ",
        'Γ' => "\\Gamma ",
        'Δ' => "\\Delta ",
        'Θ' => "\\Theta ",
        'Λ' => "\\Lambda ",
        'Ξ' => "\\Xi ",
        'Σ' => "\\Sigma ",
        'Φ' => "\\Phi ",
        'Ψ' => "\\Psi ",
        'Ω' => "\\Omega ",
        '°' | 'º' | '˚' => "^\\circ ",
        '¢' => "\\text{ cents}",
        '“' | '”' | '„' => "\"",
        '‘' | '’' | '′' => "'",
        'Å' | '\u{212b}' => "\\AA ",
        '…' => "\\ldots ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_not_copied() {
        assert!(matches!(plain("\\frac{1}{2}\n"), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn variants_have_one_spelling() {
        assert_eq!(plain("−５").unwrap(), "-5");
        assert_eq!(plain("1\u{202f}000").unwrap(), "1~000");
        assert_eq!(plain("2½").unwrap(), "2\\frac{1}{2}");
        assert_eq!(plain("٤٢").unwrap(), "٤٢");
    }

    #[test]
    fn what_cannot_be_seen_is_refused() {
        for hidden in ['\u{202e}', '\u{200b}', '\u{c}', '\0', '\u{feff}'] {
            assert_eq!(plain(&format!("4{hidden}2")), Err(ParseError::HiddenCharacter(hidden)));
        }
    }
}
