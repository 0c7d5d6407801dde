//! The lexer for LaTeX and plain text.

mod command;

use super::numeral::{Numeral, numeral};
use crate::slicing::SafeSlice;
use crate::{Fuel, OutOfFuel};
use command::command;

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind<'a> {
    /// A run of digits.
    Numeral(Numeral<'a>),
    /// A run of letters.
    Word(&'a str),
    /// Letters within `\\text{}` and the like. `Tokens` turns words into labels.
    Label(&'a str),
    /// A command by its name; synonyms share one name.
    Command(&'a str),
    /// A wrapper command, transparent to its argument.
    Wrapper(Style),
    /// `\\begin{matrix}`, with the name of the environment.
    Begin(&'a str),
    /// The end of an environment, by its name.
    End(&'a str),
    /// An opening brace, `{`, which begins a group.
    GroupOpen,
    /// A closing brace, `}`.
    GroupClose,
    /// An opening bracket that is shown.
    Open(char),
    /// A closing bracket that is shown.
    Close(char),
    /// A currency sign, such as `$`.
    Currency(char),
    Percent,
    /// Any white space, including TeX's spacing commands.
    Space,
    Symbol(char),
}

/// What a wrapper says of its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Words in it are text.
    Text,
    /// Letters in it are bold: matrices and vectors.
    Bold,
    /// Nothing.
    Plain,
}

impl TokenKind<'_> {
    /// Whether it joins what must hold together.
    pub(super) fn is_and(&self) -> bool {
        matches!(self, Self::Word("and") | Self::Label("and") | Self::Command("land"))
    }

    /// Whether it joins alternatives.
    pub(super) fn is_or(&self) -> bool {
        matches!(self, Self::Word("or") | Self::Label("or") | Self::Command("lor"))
    }

    /// Whether it is a sign of logic.
    pub(super) fn is_logical(&self) -> bool {
        matches!(self, Self::Command("land" | "lor"))
    }
}

/// Tokenises a text without invisible characters, at a step of fuel per token.
pub(super) fn tokens<'a>(text: &'a str, fuel: &mut Fuel) -> Result<Vec<TokenKind<'a>>, OutOfFuel> {
    // An odd number of dollars means money, otherwise they delimit formulas.
    let dollars = text.bytes().filter(|byte| *byte == b'$').count() - text.matches("\\$").count();
    let dollar = if dollars.is_multiple_of(2) { TokenKind::Space } else { TokenKind::Currency('$') };
    let mut tokens = Vec::with_capacity(text.len() / 2 + 4);
    let mut rest = text;
    let mut environments = 0_usize;
    let mut brackets = 0_usize;
    let mut struck = 0;
    while let Some(first) = rest.chars().next() {
        let after = rest.suffix_from(first.len_utf8());
        let after_point = matches!(tokens.last(), Some(TokenKind::Symbol('.') | TokenKind::Numeral(_)));
        let (kind, length) = match first {
            '0'..='9' => token_numeral(rest, brackets > 0),
            '.' if !after_point => token_numeral(rest, brackets > 0),
            '\\' => command(after, environments),
            '!' if after.starts_with('=') && !after_operand(tokens.last()) => (TokenKind::Command("ne"), 2),
            '<' | '>' | '=' | '-' => comparison(rest),
            '$' => (dollar.clone(), 1),
            // `~~36~~` is struck out.
            '~' if is_struck_out(rest) || struck > 0 && after.starts_with('~') => {
                struck = 1 - struck;
                (TokenKind::Symbol('~'), 2)
            }
            _ if first.is_whitespace() || first == '~' => (TokenKind::Space, first.len_utf8()),
            // Outside of an environment it joins: `7 & 11`.
            '&' if environments == 0 => (TokenKind::Word("and"), 1),
            _ if first.is_alphabetic() => {
                let end = word(rest);
                (TokenKind::Word(rest.prefix_to(end)), end)
            }
            _ => (character(first), first.len_utf8()),
        };
        fuel.spend(3)?;
        let kind = in_place(kind, rest, &mut tokens);
        match kind {
            TokenKind::Begin(_) => environments += 1,
            TokenKind::End(_) => environments = environments.saturating_sub(1),
            TokenKind::Open(_) => brackets += 1,
            TokenKind::Close(_) => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        // Collapses runs of white space.
        if kind != TokenKind::Space || tokens.last() != Some(&TokenKind::Space) {
            tokens.push(kind);
        }
        rest = rest.suffix_from(length);
    }
    Ok(tokens)
}

/// Whether a text begins with `~~` and what these strike out. Elsewhere they are space.
fn is_struck_out(text: &str) -> bool {
    let inner = text.strip_prefix("~~").filter(|rest| !rest.starts_with(|c: char| c.is_whitespace() || c == '~'));
    inner.and_then(|rest| rest.split_once("~~")).is_some_and(|(struck, _)| !struck.ends_with(char::is_whitespace))
}

/// The token at the start of the text where those before it change its meaning.
fn in_place<'a>(kind: TokenKind<'a>, text: &str, before: &mut [TokenKind<'a>]) -> TokenKind<'a> {
    const VECTORS: [&str; 8] =
        ["\\vec", "\\hat", "\\widehat", "\\overrightarrow", "\\mathbf", "\\boldsymbol", "\\bm", "\\pmb"];
    if !text.starts_with('\\') {
        return kind;
    }
    // `x^{\\underline{3}}` is a falling power.
    if text.starts_with("\\underline")
        && matches!(before, [.., TokenKind::Symbol('^')] | [.., TokenKind::Symbol('^'), TokenKind::GroupOpen])
    {
        return TokenKind::Command("underline");
    }
    // The cross of two vectors is no product of numbers.
    if VECTORS.iter().any(|vector| text.starts_with(vector))
        && !text
            .trim_start_matches(|c: char| c == '\\' || c.is_alphabetic() || c == '{')
            .starts_with(|c: char| c.is_ascii_digit())
        && let [.., times @ TokenKind::Command("times"), TokenKind::Space] | [.., times @ TokenKind::Command("times")] =
            before
    {
        *times = TokenKind::Command("cross");
    }
    kind
}

/// Length of the letters at the start of the text. `orW` after a number is a conjunction and a name.
fn word(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let is_joined = |word: &str| {
        text.prefix_to(end).strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase()))
    };
    ["and", "or"].iter().find(|word| is_joined(word)).map_or(end, |word| word.len())
}

fn token_numeral(text: &str, in_brackets: bool) -> (TokenKind<'_>, usize) {
    match numeral(text, in_brackets) {
        Some((numeral, length)) => (TokenKind::Numeral(numeral), length),
        None => (TokenKind::Symbol('.'), 1),
    }
}

fn character(character: char) -> TokenKind<'static> {
    match character {
        '{' => TokenKind::GroupOpen,
        '}' => TokenKind::GroupClose,
        '(' | '[' | '⟨' | '⌊' | '⌈' => TokenKind::Open(character),
        ')' | ']' | '⟩' | '⌋' | '⌉' => TokenKind::Close(character),
        '%' => TokenKind::Percent,
        '€' | '£' | '¥' | '₹' | '₩' | '₽' | '₺' | '₫' | '₦' | '฿' => TokenKind::Currency(character),
        _ => TokenKind::Symbol(character),
    }
}

/// Whether an exclamation mark after this is a factorial.
fn after_operand(last: Option<&TokenKind<'_>>) -> bool {
    matches!(last, Some(TokenKind::Numeral(_) | TokenKind::Close(_) | TokenKind::GroupClose))
}

/// A comparison of one or two characters.
fn comparison(text: &str) -> (TokenKind<'_>, usize) {
    for (sign, name) in
        [("<=", "le"), (">=", "ge"), ("=<", "le"), ("<>", "ne"), ("==", "="), ("->", "to"), ("=>", "Rightarrow")]
    {
        if text.starts_with(sign) {
            return (if name == "=" { TokenKind::Symbol('=') } else { TokenKind::Command(name) }, 2);
        }
    }
    let sign = text.chars().next().unwrap_or('=');
    (TokenKind::Symbol(sign), sign.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<TokenKind<'_>> {
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
        assert!(tokens("$5").contains(&TokenKind::Currency('$')));
        assert!(tokens("\\$5").contains(&TokenKind::Currency('$')));
        assert!(!tokens("$5$").contains(&TokenKind::Currency('$')));
        assert!(tokens("$\\$5$").contains(&TokenKind::Currency('$')));
    }

    #[test]
    fn a_backslash_may_end_a_text() {
        assert_eq!(tokens("\\"), [TokenKind::Symbol('\\')]);
    }
}
