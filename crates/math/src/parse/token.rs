//! The lexer for LaTeX and plain text.

use super::numeral::{Numeral, numeral};
use crate::slicing::SafeSlice;
use crate::{Fuel, OutOfFuel};

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind<'a> {
    /// Digits.
    Numeral(Numeral<'a>),
    /// Letters.
    Word(&'a str),
    /// Letters within `\\text{}` and the like. `Tokens` turns words into labels.
    Label(&'a str),
    /// A command by its name; synonyms share one name.
    Command(&'a str),
    /// A wrapper command, transparent to its argument; whether words in it are text.
    Wrapper(bool),
    /// `\\begin{matrix}`, with the name of the environment.
    Begin(&'a str),
    /// Its end.
    End(&'a str),
    /// `{`, a group.
    GroupOpen,
    /// `}`.
    GroupClose,
    /// An opening bracket that is shown.
    Open(char),
    /// A closing bracket that is shown.
    Close(char),
    /// A currency sign.
    Currency(char),
    /// A percent sign.
    Percent,
    /// Any white space, including TeX's spacing commands.
    Space,
    /// Any other character.
    Symbol(char),
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

/// Commands whose backslash is often doubled in text that was escaped twice.
const ESCAPED: [&str; 22] = [
    "frac", "dfrac", "tfrac", "sqrt", "text", "le", "leq", "ge", "geq", "left", "right", "pi", "cdot", "times",
    "boxed", "infty", "cup", "in", "pm", "ne", "neq", "quad",
];

/// The command at the start of the text, after its backslash, with its length.
fn command(name: &str, environments: usize) -> (TokenKind<'_>, usize) {
    let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
    if letters > 0 {
        let length = 1 + letters;
        let (name, after) = (name.prefix_to(letters), name.suffix_from(letters));
        return match name {
            "begin" | "end" => environment(name, after, length),
            // Colours, lengths and what is not shown.
            "fcolorbox" => {
                let frame = argument_length(after);
                (TokenKind::Space, length + frame + argument_length(after.suffix_from(frame)))
            }
            "color" | "textcolor" | "colorbox" | "cellcolor" | "hspace" | "vspace" | "mspace" | "phantom"
            | "hphantom" | "vphantom" | "tag" | "label" | "rule" => (TokenKind::Space, length + argument_length(after)),
            "underline" if after.trim_start().starts_with('{') && is_number_argument(after) => {
                (TokenKind::Wrapper(false), length)
            }
            // `\\quadx` is a space and a letter, since there is no such command.
            name if spaces_at_start(name) > 0 => (TokenKind::Space, 1 + spaces_at_start(name)),
            // `\left.` is an invisible bracket.
            "left" | "right" if after.starts_with('.') => (TokenKind::Space, length + 1),
            name => (named(name), length),
        };
    }
    let Some(character) = name.chars().next() else { return (TokenKind::Symbol('\\'), 1) };
    let kind = match character {
        '{' => TokenKind::Open('{'),
        '}' => TokenKind::Close('}'),
        '%' => TokenKind::Percent,
        '$' => TokenKind::Currency('$'),
        ',' | ';' | ':' | '!' | '>' | '/' | '(' | ')' | '[' | ']' => TokenKind::Space,
        '\\' if environments == 0 && is_escaped_command(name) => TokenKind::Space,
        '\\' => TokenKind::Command("\\"),
        '|' => TokenKind::Symbol('|'),
        '&' => TokenKind::Word("and"),
        _ if character.is_whitespace() => TokenKind::Space,
        _ => TokenKind::Symbol(character),
    };
    let length = match character {
        '\\' if kind == TokenKind::Space => 1,
        // `\\\\[4pt]`
        '\\' if environments > 0 => 2 + row_spacing(name.suffix_from(1)),
        character => 1 + character.len_utf8(),
    };
    (kind, length)
}

/// Length of an optional and a braced argument, with white space before them; 0 without the latter.
fn argument_length(text: &str) -> usize {
    let rest = text.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(option) => option.split_once(']').map_or(rest, |(_, rest)| rest).trim_start(),
        None => rest,
    };
    let Some(inner) = rest.strip_prefix('{') else { return 0 };
    match inner.find(['{', '}']) {
        Some(end) if inner.suffix_from(end).starts_with('}') => text.len() - inner.len() + end + 1,
        _ => 0,
    }
}

/// Whether the braced argument begins with a number: `\\underline{42}`, unlike the accent of `\\underline{x}`.
fn is_number_argument(text: &str) -> bool {
    let inner = text.trim_start().trim_start_matches('{').trim_start();
    let inner = inner.trim_start_matches("\\underline").trim_start_matches('{');
    inner.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
}

/// Length of the extra space after the end of a row: `*`, `[6pt]`.
fn row_spacing(text: &str) -> usize {
    let rest = text.strip_prefix('*').unwrap_or(text);
    let star = text.len() - rest.len();
    let Some((inner, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return star };
    let amount = inner.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_length = amount.len() < inner.trim().len()
        && !amount.trim().is_empty()
        && amount.trim().bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b' '));
    if is_length { star + inner.len() + 2 } else { star }
}

/// Whether the command after this backslash is unlikely to start a new line.
fn is_escaped_command(text: &str) -> bool {
    let letters = text.bytes().skip(1).take_while(u8::is_ascii_alphabetic).count();
    ESCAPED.contains(&text.slice(1..1 + letters)) || text.get(1..).is_some_and(|rest| rest.starts_with(['%', '$']))
}

/// Length of the spacing command that an unknown command begins with.
fn spaces_at_start(name: &str) -> usize {
    ["qquad", "quad"]
        .iter()
        .find(|space| name.len() > space.len() && name.starts_with(**space))
        .map_or(0, |space| space.len())
}

/// Longest name of an environment, with its closing brace.
const MAX_ENVIRONMENT_BYTES: usize = 16;

/// The `\\begin` or `\\end` of an environment, with its name in braces.
fn environment<'a>(command: &str, rest: &'a str, length: usize) -> (TokenKind<'a>, usize) {
    // The name is close by, or there is none.
    let inner = rest.strip_prefix('{').map(|rest| rest.prefix_to(MAX_ENVIRONMENT_BYTES));
    let named = inner.and_then(|inner| inner.split_once('}')).map(|(name, _)| name);
    let named = named.filter(|name| !name.contains(['{', '\\']));
    match named {
        Some(name) if command == "begin" => (TokenKind::Begin(name.trim_end_matches('*')), length + name.len() + 2),
        Some(name) => (TokenKind::End(name.trim_end_matches('*')), length + name.len() + 2),
        None => (TokenKind::Command(if command == "begin" { "begin" } else { "end" }), length),
    }
}

fn named(name: &str) -> TokenKind<'_> {
    match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" | "nicefrac" | "sfrac" | "flatfrac" => TokenKind::Command("frac"),
        "binom" | "dbinom" | "tbinom" => TokenKind::Command("binom"),
        "text" | "textbf" | "textit" | "textrm" | "textnormal" | "textsf" | "texttt" | "textup" | "emph" => {
            TokenKind::Wrapper(true)
        }
        "mbox" | "hbox" | "operatorname" | "mathrm" | "unit" | "si" => TokenKind::Wrapper(true),
        "SI" | "qty" => TokenKind::Command("qty"),
        "mathbf" | "mathit" | "mathsf" | "mathtt" | "mathnormal" | "boldsymbol" | "bm" | "pmb" | "smash"
        | "ensuremath" | "mathstrut" | "uline" => TokenKind::Wrapper(false),
        "boxed" | "fbox" | "displaystyle" | "textstyle" | "limits" | "nolimits" => TokenKind::Wrapper(false),
        "left" | "right" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" => TokenKind::Space,
        "bf" | "rm" | "it" | "sf" | "tt" | "tiny" | "small" | "normalsize" | "large" | "Large" | "LARGE" | "huge"
        | "Huge" | "scriptstyle" | "scriptscriptstyle" | "LongDecimal" => TokenKind::Space,
        // What ends a proof, or ticks an answer off.
        "qed" | "qedhere" | "qedsymbol" | "blacksquare" | "checkmark" | "hline" => TokenKind::Space,
        "quad" | "qquad" | "enspace" | "enskip" | "thinspace" | "medspace" | "thickspace" | "negthinspace"
        | "hfill" | "newline" | "par" | "relax" | "nonumber" | "notag" => TokenKind::Space,
        "lbrace" => TokenKind::Open('{'),
        "rbrace" => TokenKind::Close('}'),
        "lparen" => TokenKind::Open('('),
        "rparen" => TokenKind::Close(')'),
        "lbrack" => TokenKind::Open('['),
        "rbrack" => TokenKind::Close(']'),
        "langle" => TokenKind::Open('⟨'),
        "rangle" => TokenKind::Close('⟩'),
        "lfloor" => TokenKind::Open('⌊'),
        "rfloor" => TokenKind::Close('⌋'),
        "lceil" => TokenKind::Open('⌈'),
        "rceil" => TokenKind::Close('⌉'),
        "vert" | "lvert" | "rvert" | "Vert" | "lVert" | "rVert" => TokenKind::Symbol('|'),
        "colon" => TokenKind::Symbol(':'),
        "land" | "wedge" => TokenKind::Word("and"),
        "lor" | "vee" => TokenKind::Word("or"),
        "bigcup" => TokenKind::Command("cup"),
        "bigcap" => TokenKind::Command("cap"),
        "textdegree" => TokenKind::Command("degree"),
        "cr" => TokenKind::Command("\\"),
        "varphi" => TokenKind::Command("phi"),
        "varepsilon" => TokenKind::Command("epsilon"),
        "smallsetminus" | "backslash" => TokenKind::Command("setminus"),
        "thickapprox" | "simeq" | "doteq" => TokenKind::Command("approx"),
        "arctg" => TokenKind::Command("arctan"),
        "tg" => TokenKind::Command("tan"),
        "ctg" => TokenKind::Command("cot"),
        "implies" | "Longrightarrow" | "Leftrightarrow" | "iff" => TokenKind::Command("Rightarrow"),
        "rightarrow" | "longrightarrow" | "mapsto" => TokenKind::Command("to"),
        "textdollar" | "dollar" => TokenKind::Currency('$'),
        "euro" | "texteuro" => TokenKind::Currency('€'),
        "pounds" | "textsterling" => TokenKind::Currency('£'),
        "yen" | "textyen" => TokenKind::Currency('¥'),
        "leq" | "leqslant" => TokenKind::Command("le"),
        "geq" | "geqslant" => TokenKind::Command("ge"),
        "neq" => TokenKind::Command("ne"),
        "lt" => TokenKind::Symbol('<'),
        "gt" => TokenKind::Symbol('>'),
        "varnothing" => TokenKind::Command("emptyset"),
        "dots" | "cdots" => TokenKind::Command("ldots"),
        name => TokenKind::Command(name),
    }
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
