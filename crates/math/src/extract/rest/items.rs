//! The rest of a sentence in pieces: words, numbers, formulas, brackets and marks.

use crate::slicing::SafeSlice;

/// A piece of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item<'t> {
    /// A word in lower case.
    Word(String),
    Number(&'t str),
    /// What stands between delimiters.
    Formula(&'t str),
    Open,
    Close,
    /// A sign of equality.
    Equals,
    /// A comma, a colon or a dash.
    Mark,
    /// A semicolon.
    Break,
    /// A sign that nothing accounts for.
    Other,
}

impl Item<'_> {
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Number(text) | Self::Formula(text) => text,
            _ => "",
        }
    }
}

/// Commands whose braces hold words.
const TEXT: [&str; 6] = ["\\text{", "\\mathrm{", "\\textbf{", "\\textit{", "\\mbox{", "\\emph{"];
/// Pairs of delimiters of a formula.
const DELIMITERS: [(&str, &str); 4] = [("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$")];
/// Characters that say nothing.
const MARKUP: &str = "{}*_`\"“”«»'.!$°^~\u{200b}。؟।|";

fn is_of_word(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '\'' | '’' | '\u{300}'..='\u{36f}' | '\u{900}'..='\u{97f}' | '\u{e00}'..='\u{e7f}')
}

/// The pieces of a text.
pub(super) fn items_of(text: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (item, length) = next(rest, c, items.last());
        items.extend(item);
        rest = rest.suffix_from(length.max(c.len_utf8()).min(rest.len()));
    }
    items
}

/// The piece that a text begins with, none for markup, and its length.
fn next<'t>(rest: &'t str, c: char, last: Option<&Item<'t>>) -> (Option<Item<'t>>, usize) {
    if let Some(mark) = TEXT.iter().find(|mark| rest.starts_with(**mark)) {
        return (None, mark.len());
    }
    for (open, close) in DELIMITERS {
        if let Some(inner) = rest.strip_prefix(open)
            && let Some((formula, _)) = inner.split_once(close)
        {
            return (Some(Item::Formula(formula)), open.len() + formula.len() + close.len());
        }
    }
    let run = |is: &dyn Fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
    let after_word = matches!(last, Some(Item::Word(_)));
    match c {
        c if c.is_whitespace() => (None, c.len_utf8()),
        '\\' => command(rest),
        '\'' | '’' => (None, c.len_utf8()),
        // `cm^2`, `cm²`, `m/s`
        '²' | '³' if after_word => (None, c.len_utf8()),
        '^' if after_word => {
            (None, 1 + rest.suffix_from(1).find(|c: char| !c.is_ascii_digit() && c != '{').unwrap_or(rest.len() - 1))
        }
        '/' if after_word && rest.suffix_from(1).starts_with(char::is_alphabetic) => (None, 1),
        c if is_of_word(c) => {
            let end = run(&|c| is_of_word(c));
            // `so-called`
            (Some(Item::Word(rest.prefix_to(end).trim_end_matches(['\'', '’']).to_lowercase())), end)
        }
        c if c.is_ascii_digit() => {
            let end = run(&|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '/'));
            (Some(Item::Number(rest.prefix_to(end).trim_end_matches(['.', ',', '/']))), end)
        }
        '-' if after_word && rest.suffix_from(1).starts_with(char::is_alphabetic) => (None, 1),
        ';' | '；' => (Some(Item::Break), c.len_utf8()),
        ',' | ':' | '-' | '–' | '—' | '，' | '：' | '、' | '،' => (Some(Item::Mark), c.len_utf8()),
        '(' | '[' | '（' | '【' => (Some(Item::Open), c.len_utf8()),
        ')' | ']' | '）' | '】' => (Some(Item::Close), c.len_utf8()),
        '=' | '≈' => (Some(Item::Equals), c.len_utf8()),
        '%' => (None, 1),
        c if MARKUP.contains(c) || is_picture(c) => (None, c.len_utf8()),
        _ => (Some(Item::Other), c.len_utf8()),
    }
}

/// `✅`, `∎`, `🎉`
fn is_picture(c: char) -> bool {
    matches!(c, '\u{2580}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}' | '\u{fe0f}' | '∎')
        && !matches!(c, '✗' | '✘' | '✖' | '❌')
}

/// A command outside of a formula: a value, or markup.
fn command(rest: &str) -> (Option<Item<'_>>, usize) {
    let name = rest.suffix_from(1);
    let end = 1 + name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
    match rest.prefix_to(end) {
        "\\approx" | "\\equiv" => (Some(Item::Equals), end),
        "\\frac" | "\\dfrac" | "\\tfrac" | "\\sqrt" | "\\pi" | "\\binom" => {
            let end = rest.find([' ', ')', ',']).unwrap_or(rest.len());
            (Some(Item::Number(rest.prefix_to(end))), end)
        }
        "\\times" | "\\cdot" | "\\pm" | "\\div" | "\\to" | "\\ge" | "\\le" | "\\ne" => (Some(Item::Other), end),
        "\\pmod" => (None, rest.find('}').map_or(end, |at| at + 1)),
        // `\,`, `\%`
        "\\" => (None, 2.min(rest.len()).max(1)),
        _ => (None, end),
    }
}
