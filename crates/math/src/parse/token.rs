//! The lexer for LaTeX and plain text.

use super::numeral::{Numeral, numeral};
use crate::slicing::SafeSlice;
use crate::{Fuel, OutOfFuel};

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<'a> {
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
pub(super) fn tokens<'a>(text: &'a str, fuel: &mut Fuel) -> Result<Vec<Kind<'a>>, OutOfFuel> {
    // An odd number of dollars means money, otherwise they delimit formulas.
    let dollars = text.bytes().filter(|byte| *byte == b'$').count() - text.matches("\\$").count();
    let dollar = if dollars.is_multiple_of(2) { Kind::Space } else { Kind::Currency('$') };
    let mut tokens = Vec::with_capacity(text.len() / 2 + 4);
    let mut rest = text;
    let mut environments = 0_usize;
    let mut brackets = 0_usize;
    while let Some(first) = rest.chars().next() {
        let after = rest.suffix_from(first.len_utf8());
        let after_point = matches!(tokens.last(), Some(Kind::Symbol('.') | Kind::Numeral(_)));
        let (kind, length) = match first {
            '0'..='9' => token_numeral(rest, brackets > 0),
            '.' if !after_point => token_numeral(rest, brackets > 0),
            '\\' => command(after, environments),
            '!' if after.starts_with('=') && !after_operand(tokens.last()) => (Kind::Command("ne"), 2),
            '<' | '>' | '=' | '-' => comparison(rest),
            '$' => (dollar.clone(), 1),
            _ if first.is_whitespace() || first == '~' => (Kind::Space, first.len_utf8()),
            // Outside of an environment it joins: `7 & 11`.
            '&' if environments == 0 => (Kind::Word("and"), 1),
            _ if first.is_alphabetic() => {
                let end = word(rest);
                (Kind::Word(rest.prefix_to(end)), end)
            }
            _ => (character(first), first.len_utf8()),
        };
        fuel.spend(3)?;
        match kind {
            Kind::Begin(_) => environments += 1,
            Kind::End(_) => environments = environments.saturating_sub(1),
            Kind::Open(_) => brackets += 1,
            Kind::Close(_) => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        // Collapses runs of white space.
        if kind != Kind::Space || tokens.last() != Some(&Kind::Space) {
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

fn token_numeral(text: &str, in_brackets: bool) -> (Kind<'_>, usize) {
    match numeral(text, in_brackets) {
        Some((numeral, length)) => (Kind::Numeral(numeral), length),
        None => (Kind::Symbol('.'), 1),
    }
}

fn character(character: char) -> Kind<'static> {
    match character {
        '{' => Kind::GroupOpen,
        '}' => Kind::GroupClose,
        '(' | '[' | '⟨' | '⌊' | '⌈' => Kind::Open(character),
        ')' | ']' | '⟩' | '⌋' | '⌉' => Kind::Close(character),
        '%' => Kind::Percent,
        '€' | '£' | '¥' | '₹' | '₩' | '₽' | '₺' | '₫' | '₦' | '฿' => Kind::Currency(character),
        _ => Kind::Symbol(character),
    }
}

/// Whether an exclamation mark after this is a factorial.
fn after_operand(last: Option<&Kind<'_>>) -> bool {
    matches!(last, Some(Kind::Numeral(_) | Kind::Close(_) | Kind::GroupClose))
}

/// A comparison of one or two characters.
fn comparison(text: &str) -> (Kind<'_>, usize) {
    for (sign, name) in
        [("<=", "le"), (">=", "ge"), ("=<", "le"), ("<>", "ne"), ("==", "="), ("->", "to"), ("=>", "Rightarrow")]
    {
        if text.starts_with(sign) {
            return (if name == "=" { Kind::Symbol('=') } else { Kind::Command(name) }, 2);
        }
    }
    let sign = text.chars().next().unwrap_or('=');
    (Kind::Symbol(sign), sign.len_utf8())
}

/// Commands whose backslash is often doubled in text that was escaped twice.
const ESCAPED: [&str; 22] = [
    "frac", "dfrac", "tfrac", "sqrt", "text", "le", "leq", "ge", "geq", "left", "right", "pi", "cdot", "times",
    "boxed", "infty", "cup", "in", "pm", "ne", "neq", "quad",
];

/// The command at the start of the text, after its backslash, with its length.
fn command(name: &str, environments: usize) -> (Kind<'_>, usize) {
    let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
    if letters > 0 {
        let length = 1 + letters;
        let (name, after) = (name.prefix_to(letters), name.suffix_from(letters));
        return match name {
            "begin" | "end" => environment(name, after, length),
            // Colours, lengths and what is not shown.
            "fcolorbox" => {
                let frame = argument_length(after);
                (Kind::Space, length + frame + argument_length(after.suffix_from(frame)))
            }
            "color" | "textcolor" | "colorbox" | "cellcolor" | "hspace" | "vspace" | "mspace" | "phantom"
            | "hphantom" | "vphantom" | "tag" | "label" | "rule" => (Kind::Space, length + argument_length(after)),
            "underline" if after.trim_start().starts_with('{') && is_number_argument(after) => {
                (Kind::Wrapper(false), length)
            }
            // `\\quadx` is a space and a letter, since there is no such command.
            name if spaces_at_start(name) > 0 => (Kind::Space, 1 + spaces_at_start(name)),
            // `\left.` is an invisible bracket.
            "left" | "right" if after.starts_with('.') => (Kind::Space, length + 1),
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
        '\\' if environments == 0 && is_escaped_command(name) => Kind::Space,
        '\\' => Kind::Command("\\"),
        '|' => Kind::Symbol('|'),
        '&' => Kind::Word("and"),
        _ if character.is_whitespace() => Kind::Space,
        _ => Kind::Symbol(character),
    };
    let length = match character {
        '\\' if kind == Kind::Space => 1,
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
    ESCAPED.contains(&text.slice(1..1 + letters))
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
fn environment<'a>(command: &str, rest: &'a str, length: usize) -> (Kind<'a>, usize) {
    // The name is close by, or there is none.
    let inner = rest.strip_prefix('{').map(|rest| rest.prefix_to(MAX_ENVIRONMENT_BYTES));
    let named = inner.and_then(|inner| inner.split_once('}')).map(|(name, _)| name);
    let named = named.filter(|name| !name.contains(['{', '\\']));
    match named {
        Some(name) if command == "begin" => (Kind::Begin(name.trim_end_matches('*')), length + name.len() + 2),
        Some(name) => (Kind::End(name.trim_end_matches('*')), length + name.len() + 2),
        None => (Kind::Command(if command == "begin" { "begin" } else { "end" }), length),
    }
}

fn named(name: &str) -> Kind<'_> {
    match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" | "nicefrac" | "sfrac" | "flatfrac" => Kind::Command("frac"),
        "binom" | "dbinom" | "tbinom" => Kind::Command("binom"),
        "text" | "textbf" | "textit" | "textrm" | "textnormal" | "textsf" | "texttt" | "textup" | "emph" => {
            Kind::Wrapper(true)
        }
        "mbox" | "hbox" | "operatorname" | "mathrm" => Kind::Wrapper(true),
        "mathbf" | "mathit" | "mathsf" | "mathtt" | "mathnormal" | "boldsymbol" | "bm" | "pmb" | "smash"
        | "ensuremath" | "mathstrut" | "uline" => Kind::Wrapper(false),
        "boxed" | "fbox" | "displaystyle" | "textstyle" | "limits" | "nolimits" => Kind::Wrapper(false),
        "left" | "right" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" => Kind::Space,
        "bf" | "rm" | "it" | "sf" | "tt" | "tiny" | "small" | "normalsize" | "large" | "Large" | "LARGE" | "huge"
        | "Huge" | "scriptstyle" | "scriptscriptstyle" | "LongDecimal" => Kind::Space,
        // What ends a proof, or ticks an answer off.
        "qed" | "qedhere" | "qedsymbol" | "blacksquare" | "checkmark" | "hline" => Kind::Space,
        "quad" | "qquad" | "enspace" | "enskip" | "thinspace" | "medspace" | "thickspace" | "negthinspace"
        | "hfill" | "newline" | "par" | "relax" | "nonumber" | "notag" => Kind::Space,
        "lbrace" => Kind::Open('{'),
        "rbrace" => Kind::Close('}'),
        "lparen" => Kind::Open('('),
        "rparen" => Kind::Close(')'),
        "lbrack" => Kind::Open('['),
        "rbrack" => Kind::Close(']'),
        "langle" => Kind::Open('⟨'),
        "rangle" => Kind::Close('⟩'),
        "lfloor" => Kind::Open('⌊'),
        "rfloor" => Kind::Close('⌋'),
        "lceil" => Kind::Open('⌈'),
        "rceil" => Kind::Close('⌉'),
        "vert" | "lvert" | "rvert" | "Vert" | "lVert" | "rVert" => Kind::Symbol('|'),
        "colon" => Kind::Symbol(':'),
        "land" | "wedge" => Kind::Word("and"),
        "lor" | "vee" => Kind::Word("or"),
        "bigcup" => Kind::Command("cup"),
        "bigcap" => Kind::Command("cap"),
        "textdegree" => Kind::Command("degree"),
        "cr" => Kind::Command("\\"),
        "varphi" => Kind::Command("phi"),
        "varepsilon" => Kind::Command("epsilon"),
        "smallsetminus" | "backslash" => Kind::Command("setminus"),
        "thickapprox" | "simeq" | "doteq" => Kind::Command("approx"),
        "arctg" => Kind::Command("arctan"),
        "tg" => Kind::Command("tan"),
        "ctg" => Kind::Command("cot"),
        "implies" | "Longrightarrow" | "Leftrightarrow" | "iff" => Kind::Command("Rightarrow"),
        "rightarrow" | "longrightarrow" | "mapsto" => Kind::Command("to"),
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
