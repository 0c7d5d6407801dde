//! Unicode that means what ASCII or TeX also says, and characters that nobody sees.

use std::borrow::Cow;

use super::ParseError;

/// The text with one spelling for each character: variants of minus, fullwidth forms, spaces, fractions and common signs. Digits of
/// other scripts stay as they are, which makes them text.
pub(super) fn plain(text: &str) -> Result<Cow<'_, str>, ParseError> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    if text.bytes().all(is_plain) {
        return Ok(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len() + 16);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if let Some(command) = unescaped(character, &text[at + character.len_utf8()..]) {
            if plain.ends_with('\\') {
                plain.pop();
            }
            plain.push_str(command);
            continue;
        }
        if let Some(raised) = raised(character) {
            // A run of them is one exponent or index.
            let is_super = raised.is_super;
            plain.push_str(if is_super { "^{" } else { "_{" });
            plain.push(raised.plain);
            while let Some(next) = characters.peek().and_then(|(_, next)| raised_as(*next, is_super)) {
                plain.push(next);
                characters.next();
            }
            plain.push('}');
            continue;
        }
        if is_hidden(character) {
            return Err(ParseError::HiddenCharacter(character));
        }
        match spelled(character) {
            Some(spelling) => plain.push_str(spelling),
            None => plain.push(fullwidth(character)),
        }
    }
    Ok(Cow::Owned(plain))
}

/// What a control character was before an escape was read that nobody meant: `\\frac` as a form feed and `rac`.
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

fn raised_as(character: char, is_super: bool) -> Option<char> {
    raised(character).filter(|raised| raised.is_super == is_super).map(|raised| raised.plain)
}

fn raised(character: char) -> Option<Raised> {
    let of = |plain, is_super| Some(Raised { plain, is_super });
    match character {
        '⁰' => of('0', true),
        '¹' => of('1', true),
        '²' => of('2', true),
        '³' => of('3', true),
        '⁴'..='⁹' => of(char::from_digit(u32::from(character) - u32::from('⁰'), 10)?, true),
        '⁺' => of('+', true),
        '⁻' => of('-', true),
        'ⁿ' => of('n', true),
        'ˣ' => of('x', true),
        '₀'..='₉' => of(char::from_digit(u32::from(character) - u32::from('₀'), 10)?, false),
        '₊' => of('+', false),
        '₋' => of('-', false),
        'ₙ' => of('n', false),
        _ => None,
    }
}

/// Controls, directions and joiners: what is read then is not what a person sees.
fn is_hidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

/// The ASCII character of a fullwidth one.
fn fullwidth(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => {
            let offset = u32::from(character) - 0xff01;
            char::from_u32(u32::from('!') + offset).unwrap_or(character)
        }
        _ => character,
    }
}

/// How ASCII or TeX spells a character. `None` where it stays.
fn spelled(character: char) -> Option<&'static str> {
    Some(match character {
        // Hyphens, dashes and minus signs, the small and superscript ones aside.
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe63}' => "-",
        // Spaces that do not break keep thousands together.
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{200a}' | '\u{202f}' => "~",
        '\u{2000}'..='\u{2006}' | '\u{2008}' | '\u{205f}' | '\u{3000}' => " ",
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
        '\u{2044}' | '\u{2215}' => "/",
        '×' => "\\times ",
        '·' | '⋅' | '∙' => "\\cdot ",
        '÷' => "\\div ",
        '±' => "\\pm ",
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
        '≡' => "\\equiv ",
        '∖' => "\\setminus ",
        'ℝ' => "\\mathbb{R}",
        'ℤ' => "\\mathbb{Z}",
        'ℕ' => "\\mathbb{N}",
        'ℚ' => "\\mathbb{Q}",
        'ℂ' => "\\mathbb{C}",
        '→' => "\\to ",
        '∣' => "|",
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
        '°' => "^\\circ ",
        '“' | '”' | '„' => "\"",
        '‘' | '’' | '′' => "'",
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
