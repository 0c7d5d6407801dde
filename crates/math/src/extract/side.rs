//! The left side of the equation that ends with a box: `x =` names the answer, `2x =`, `|x| =` and `37 =` make it another
//! value, unless the problem has that side as a formula of its own.

use std::collections::HashSet;

use super::beside;
use super::restated::{self, Answered};
use crate::slicing::SafeSlice;
use crate::words::{self, Known};

/// Most bytes before a box that are read.
const MAX_BYTES: usize = 400;
/// What the side of an equation begins behind.
const STARTS: [&str; 21] = [
    "$",
    "\\(",
    "\\[",
    "\\)",
    "\\]",
    "\\implies",
    "\\Rightarrow",
    "\\iff",
    "\\Leftrightarrow",
    "\\therefore",
    "\\to",
    "\\quad",
    "\\qquad",
    ",",
    ";",
    ":",
    "*}",
    "align}",
    "aligned}",
    "equation}",
    "gather}",
];
/// Commands that leave a name what it is.
const ACCENTS: &str = "bar hat vec overline tilde angle mathbf mathrm boldsymbol bm left right displaystyle text textbf dot widehat \
    mathcal mathit triangle Delta operatorname";

/// Whether the equation before a box makes it the value of something else than a name or a formula of several names.
pub(super) fn is_other(before: &str, answer: &str, known: &Known) -> bool {
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BYTES)));
    let near = near.rsplit_once("\n\n").map_or(near, |(_, paragraph)| paragraph);
    let Some(chain) = chain(near) else { return false };
    let (first, last) = (chain.split('=').next().unwrap_or_default(), chain.rsplit('=').next().unwrap_or_default());
    // `the side is $2a =`, but not `the answer is $2a =`
    let told = near.rsplit_once('$').map_or("", |(told, _)| told.trim_end());
    let is_told = [" is", " are"].iter().any(|end| told.ends_with(end) && !told.ends_with(&format!("answer{end}")));
    // `(19x - 4x) - 80 = 15x - 80`
    let shares_name = ('a'..='z').any(|name| is_factor(first, name) && is_factor(answer, name));
    is_another_value(last, answer)
        || is_of_one_name(first.trim())
            && !is_product(first)
            && !is_told
            && !shares_name
            && !known.writes(&words::compact(first))
}

/// Whether an expression has a name of one letter.
fn is_factor(expression: &str, name: char) -> bool {
    let mut is_command = false;
    expression.chars().any(|c| {
        is_command = c == '\\' || is_command && c.is_ascii_alphabetic();
        c == name && !is_command
    })
}

/// What stands before the last equals sign, from the start of the equation: `A = r^2` of `A = r^2 =`.
fn chain(text: &str) -> Option<String> {
    let marks = |c: char| c.is_whitespace() || matches!(c, '$' | '&' | '{' | '*');
    let text = text.trim_end_matches(marks);
    let text = text.strip_suffix("\\(").or_else(|| text.strip_suffix("\\[")).unwrap_or(text).trim_end_matches(marks);
    let bare = text.strip_suffix('=')?.trim_end_matches(|c: char| c.is_whitespace() || c == '&');
    let in_formula = beside::is_in_formula(text) || ["\\begin{", "\\[", "$$"].iter().any(|mark| text.contains(mark));
    let text = bare;
    let closed = text.trim_end_matches(['$', ' ']);
    let closed = closed.strip_suffix("\\)").unwrap_or(closed);
    let is_formula = in_formula || closed.len() < text.len();
    if !is_formula {
        // In prose a side has no spaces, unless it is computed: `6 × 6 =`.
        let side = closed.rsplit([' ', '\n']).next().unwrap_or_default();
        let is_computed = ends_with_operator(closed.prefix_to(closed.len() - side.len()));
        return (!is_computed).then(|| side.to_owned());
    }
    let start = STARTS.iter().filter_map(|mark| Some(closed.rfind(mark)? + mark.len())).max().unwrap_or(0);
    // Sums of money: `$6 + $8 =`
    if ends_with_operator(closed.prefix_to(start)) {
        return None;
    }
    // A row that begins with `=` goes on with the one before.
    let mut rows = closed.suffix_from(start).rsplit("\\\\");
    let mut chain = String::new();
    for row in rows.by_ref() {
        let row = row.replace(['&', '\n'], " ");
        chain = format!("{}{chain}", row.trim());
        if !chain.is_empty() && !chain.starts_with('=') {
            break;
        }
    }
    // `so 2x` after a price
    let words = chain.rsplit(". ").next().unwrap_or_default();
    Some(words.to_owned())
}

/// Whether `x` is a sign of multiplication: `10x6`, `60 x 2`.
fn is_product(side: &str) -> bool {
    side.split_once('x').is_some_and(|(one, other)| {
        one.trim_end().ends_with(|c: char| c.is_ascii_digit())
            && other.trim_start().starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Whether a text ends with an operator before an operand: `6 ×`, `$6 + $`.
fn ends_with_operator(text: &str) -> bool {
    text.trim_end_matches([' ', '$', '\\']).ends_with(['+', '-', '−', '–', '×', '*', '/', '÷', '·', 'x'])
}

/// Whether a side is a number that is not the answer's: `37 =`, `\\frac{5}{7} =`.
fn is_another_value(side: &str, answer: &str) -> bool {
    let is_number = |text: &str| {
        let text = text.trim_start_matches(['-', ' ']);
        let digits = ["\\frac", "\\dfrac", "\\tfrac"].iter().find_map(|fraction| text.strip_prefix(fraction));
        let digits = digits.unwrap_or(text);
        digits.contains(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || ", {}".contains(c))
    };
    is_number(side) && is_number(answer) && restated::has_another(&format!("${side}$"), &Answered::new("", answer))
}

/// Whether a side is made of one name in lower case, and is neither the name itself nor a function of something else.
fn is_of_one_name(side: &str) -> bool {
    let mut names = String::new();
    let mut has_more = false;
    let mut indices = HashSet::new();
    let mut rest = side;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            '\\' => {
                let name = rest.suffix_from(1);
                let name = name.prefix_to(name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len()));
                length += name.len();
                if !ACCENTS.split_whitespace().any(|accent| accent == name) {
                    has_more |= !name.is_empty();
                }
            }
            // An index belongs to its name.
            '_' => {
                let index = rest.suffix_from(1);
                length += if index.starts_with('{') { index.find('}').map_or(index.len(), |at| at + 1) } else { 1 };
                if index.starts_with('\\') {
                    length = 1 + index
                        .suffix_from(1)
                        .find(|c: char| !c.is_ascii_alphabetic())
                        .map_or(index.len(), |at| at + 1);
                }
                indices.insert(rest.prefix_to(length.min(rest.len())));
            }
            c if c.is_alphabetic() => names.push(c),
            '\'' | '{' | '}' | ' ' | '\u{300}'..='\u{36f}' => {}
            _ => has_more = true,
        }
        rest = rest.suffix_from(length);
    }
    let Some(first) = names.chars().next() else { return false };
    // `f(3)`, `x(t)`
    let is_whole = side.matches('(').count() == side.matches(')').count();
    let is_value_of_function = side.starts_with(first)
        && side.suffix_from(1).trim_start_matches('\'').starts_with('(')
        && side.ends_with(')')
        && names.len() == 1;
    // `y_1 + y_2`
    has_more
        && indices.len() < 2
        && is_whole
        && first.is_ascii_lowercase()
        && names.chars().all(|name| name == first)
        && !is_value_of_function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_function_of_one_name_is_none_of_the_name() {
        let known = Known::default();
        for before in [
            "$2x = ",
            "$x^2 = ",
            "$-x = ",
            "$\\frac{x}{2} = ",
            "$|x| = ",
            "$\\ln x = ",
            "$x-1 = ",
            "$2x =$ $",
            "$2x$ = $",
            "\\begin{align*}2x &= ",
            "2x = ",
            "$37 = ",
            "\\begin{align*}\n2x &= 30 \\\\\n&= ",
            "\\[2x = \n",
            "The answer is $2x = ",
        ] {
            assert!(is_other(before, "36", &known), "{before}");
        }
        for before in [
            "$x = ",
            "$x_1 = ",
            "$A = r^2 = ",
            "$a + b = ",
            "$2y_1 + 2y_2 = ",
            "$f(2) = ",
            "$\\angle ABC = ",
            "$3 \\cdot 12 = ",
            "= ",
            "$36 = ",
            "$x_{\\max} = ",
            "\\begin{align*}\nx &= 6\\cdot 6\\\\\n&= ",
            "$P(A \\mid B) = ",
            "$|A \\cup B| = ",
            "It costs $5, so x = ",
            "She paid $6 + $8 + $22 = $",
            "She made 9 * $4 = $",
            "She sold 10x6 = ",
            "The length of the side is $2a = ",
            "$2y = 72 \\implies y = ",
        ] {
            assert!(!is_other(before, "36", &known), "{before}");
        }
        let mut problem = Known::default();
        problem.add("Find $x^2$ if $2x = 12$.");
        assert!(!is_other("$x^2 = ", "36", &problem) && is_other("$2x = ", "36", &problem));
    }
}
