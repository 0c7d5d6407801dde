//! Commands of TeX: one token for all names of one thing.

use super::{Style, TokenKind};
use crate::slicing::SafeSlice;

/// Commands whose backslash is often doubled in text that was escaped twice.
const ESCAPED: [&str; 22] = [
    "frac", "dfrac", "tfrac", "sqrt", "text", "le", "leq", "ge", "geq", "left", "right", "pi", "cdot", "times",
    "boxed", "infty", "cup", "in", "pm", "ne", "neq", "quad",
];

/// The command at the start of the text, after its backslash, with its length.
pub(super) fn command(name: &str, environments: usize) -> (TokenKind<'_>, usize) {
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
            | "hphantom" | "vphantom" | "label" | "rule" => (TokenKind::Space, length + argument_length(after)),
            "mathring" if after.starts_with("{A}") => (TokenKind::Label("angstrom"), length + 3),
            // The number of an equation.
            "tag" if argument_length(after) <= "{1}".len() => (TokenKind::Space, length + argument_length(after)),
            "underline" if after.trim_start().starts_with('{') && is_number_argument(after) => {
                (TokenKind::Wrapper(Style::Plain), length)
            }
            // `\\quadx` is a space and a letter, since there is no such command.
            name if spaces_at_start(name) > 0 => (TokenKind::Space, 1 + spaces_at_start(name)),
            // `\left.` is an invisible bracket.
            "left" | "right" if after.starts_with('.') => (TokenKind::Space, length + 1),
            // With a base it is any logarithm.
            "lg" if after.trim_start().starts_with('_') => (TokenKind::Command("log"), length),
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
    let mut depth = 1_usize;
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.len() - inner.len() + at + 1;
        }
    }
    0
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
            TokenKind::Wrapper(Style::Text)
        }
        "mbox" | "hbox" | "operatorname" | "mathrm" | "unit" | "si" => TokenKind::Wrapper(Style::Text),
        "SI" | "qty" => TokenKind::Command("qty"),
        "mathbf" | "boldsymbol" | "bm" | "pmb" | "bf" | "boldmath" | "symbf" => TokenKind::Wrapper(Style::Bold),
        "mathit" | "mathsf" | "mathtt" | "mathnormal" | "smash" | "ensuremath" | "ang" | "mathstrut" | "uline"
        | "boxed" | "fbox" | "displaystyle" | "textstyle" | "limits" | "nolimits" => TokenKind::Wrapper(Style::Plain),
        "left" | "right" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" => TokenKind::Space,
        "rm" | "it" | "sf" | "tt" | "tiny" | "small" | "normalsize" | "large" | "Large" | "LARGE" | "huge" | "Huge"
        | "scriptstyle" | "scriptscriptstyle" | "LongDecimal" => TokenKind::Space,
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
        "land" | "wedge" => TokenKind::Command("land"),
        "lor" | "vee" => TokenKind::Command("lor"),
        "bigcup" => TokenKind::Command("cup"),
        "bigcap" => TokenKind::Command("cap"),
        "AA" | "angstrom" => TokenKind::Label("angstrom"),
        "textdegree" => TokenKind::Command("degree"),
        "cr" => TokenKind::Command("\\"),
        "varphi" => TokenKind::Command("phi"),
        "varepsilon" => TokenKind::Command("epsilon"),
        "smallsetminus" | "backslash" => TokenKind::Command("setminus"),
        "thickapprox" | "simeq" | "doteq" => TokenKind::Command("approx"),
        "arctg" => TokenKind::Command("arctan"),
        "tg" => TokenKind::Command("tan"),
        "ctg" => TokenKind::Command("cot"),
        "implies" | "Longrightarrow" => TokenKind::Command("Rightarrow"),
        "Leftrightarrow" | "Longleftrightarrow" => TokenKind::Command("iff"),
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
