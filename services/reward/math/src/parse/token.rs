//! LaTeX and plain text, cut into tokens.

use super::numeral::{Numeral, numeral};
use crate::{Fuel, OutOfFuel};

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// Digits.
    Numeral(Numeral<'a>),
    /// Letters.
    Word(&'a str),
    /// A command by its name, of several names for one thing always the same.
    Command(&'a str),
    /// A command that means nothing but what is in its braces.
    Wrapper,
    /// `{`, which groups.
    GroupOpen,
    /// `}`.
    GroupClose,
    /// A bracket that is written.
    Open(char),
    /// Its end.
    Close(char),
    /// A currency sign.
    Currency(char),
    /// A percent sign.
    Percent,
    /// Any white space, and what TeX has for it.
    Space,
    /// Any other character.
    Symbol(char),
}

/// The tokens of a text without hidden characters, a step of fuel each.
pub(super) fn tokens<'a>(text: &'a str, fuel: &mut Fuel) -> Result<Vec<Kind<'a>>, OutOfFuel> {
    // An odd dollar is money, a pair of them delimits a formula.
    let dollars = text.bytes().filter(|byte| *byte == b'$').count() - text.matches("\\$").count();
    let dollar = if dollars.is_multiple_of(2) { Kind::Space } else { Kind::Currency('$') };
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_point = matches!(tokens.last(), Some(Kind::Symbol('.') | Kind::Numeral(_)));
        let (kind, length) = match first {
            '0'..='9' => token_numeral(rest),
            '.' if !after_point => token_numeral(rest),
            '\\' => command(rest),
            '$' => (dollar.clone(), 1),
            _ if first.is_whitespace() || first == '~' => (Kind::Space, first.len_utf8()),
            _ if first.is_alphabetic() => {
                let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
                (Kind::Word(&rest[..end]), end)
            }
            _ => (character(first), first.len_utf8()),
        };
        fuel.spend(1)?;
        // One space is as good as many.
        if kind != Kind::Space || tokens.last() != Some(&Kind::Space) {
            tokens.push(kind);
        }
        rest = &rest[length..];
    }
    Ok(tokens)
}

fn token_numeral(text: &str) -> (Kind<'_>, usize) {
    match numeral(text) {
        Some((numeral, length)) => (Kind::Numeral(numeral), length),
        None => (Kind::Symbol('.'), 1),
    }
}

fn character(character: char) -> Kind<'static> {
    match character {
        '{' => Kind::GroupOpen,
        '}' => Kind::GroupClose,
        '(' | '[' => Kind::Open(character),
        ')' | ']' => Kind::Close(character),
        '%' => Kind::Percent,
        '€' | '£' | '¥' | '₹' => Kind::Currency(character),
        _ => Kind::Symbol(character),
    }
}

/// The command that the text begins with.
fn command(text: &str) -> (Kind<'_>, usize) {
    let name = &text[1..];
    let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
    if letters > 0 {
        let length = 1 + letters;
        return match &name[..letters] {
            // `\left.` is a bracket that is not there.
            "left" | "right" if name[letters..].starts_with('.') => (Kind::Space, length + 1),
            name => (named(name), length),
        };
    }
    let Some(character) = name.chars().next() else { return (Kind::Symbol('\\'), 1) };
    let kind = match character {
        '{' => Kind::Open('{'),
        '}' => Kind::Close('}'),
        '%' => Kind::Percent,
        '$' => Kind::Currency('$'),
        ',' | ';' | ':' | '!' | '>' | '/' | '(' | ')' | '[' | ']' => Kind::Space,
        '\\' => Kind::Command("\\"),
        _ if character.is_whitespace() => Kind::Space,
        _ => Kind::Symbol(character),
    };
    (kind, 1 + character.len_utf8())
}

fn named(name: &str) -> Kind<'_> {
    match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" => Kind::Command("frac"),
        "binom" | "dbinom" | "tbinom" => Kind::Command("binom"),
        "text" | "textbf" | "textit" | "textrm" | "textnormal" | "textsf" | "texttt" | "textup" | "emph" => {
            Kind::Wrapper
        }
        "mathrm" | "mathbf" | "mathit" | "mathsf" | "mathtt" | "mathnormal" | "boldsymbol" | "bm" => Kind::Wrapper,
        "mbox" | "hbox" | "boxed" | "fbox" | "operatorname" | "displaystyle" | "textstyle" => Kind::Wrapper,
        "left" | "right" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" => Kind::Space,
        "quad" | "qquad" | "enspace" | "enskip" | "thinspace" | "negthinspace" => Kind::Space,
        "lbrace" => Kind::Open('{'),
        "rbrace" => Kind::Close('}'),
        "lparen" => Kind::Open('('),
        "rparen" => Kind::Close(')'),
        "lbrack" => Kind::Open('['),
        "rbrack" => Kind::Close(']'),
        "textdollar" | "dollar" => Kind::Currency('$'),
        "euro" | "texteuro" => Kind::Currency('€'),
        "pounds" | "textsterling" => Kind::Currency('£'),
        "yen" | "textyen" => Kind::Currency('¥'),
        "leq" | "leqslant" => Kind::Command("le"),
        "geq" | "geqslant" => Kind::Command("ge"),
        "neq" => Kind::Command("ne"),
        "lt" => Kind::Symbol('<'),
        "gt" => Kind::Symbol('>'),
        "varnothing" => Kind::Command("emptyset"),
        "dots" | "cdots" => Kind::Command("ldots"),
        name => Kind::Command(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Kind<'_>> {
        super::tokens(text, &mut Fuel::new(100)).unwrap()
    }

    #[test]
    fn names_of_one_thing_are_one() {
        assert_eq!(tokens("\\dfrac"), tokens("\\frac"));
        assert_eq!(tokens("x \\leq 1"), tokens("x\t\\le\n1"));
        assert_eq!(tokens("\\left( 1 \\right)"), tokens(" ( 1 )"));
    }

    #[test]
    fn an_odd_dollar_is_money() {
        assert!(tokens("$5").contains(&Kind::Currency('$')));
        assert!(tokens("\\$5").contains(&Kind::Currency('$')));
        assert!(!tokens("$5$").contains(&Kind::Currency('$')));
        assert!(tokens("$\\$5$").contains(&Kind::Currency('$')));
    }

    #[test]
    fn a_backslash_may_end_a_text() {
        assert_eq!(tokens("\\"), [Kind::Symbol('\\')]);
    }
}
