//! What precedes a box: an operator, a relation, a coefficient, a function.

use super::signs::CROSSES;
use super::{BLANKS, signs};
use crate::slicing::SafeSlice;

/// Operators between a value and a box outside of a formula.
const OPERATORS: [&str; 10] = ["+", "/", "*", "^", "\\times", "\\cdot", "\\div", "×", "·", "÷"];
/// Commands that may stand before a box in its formula and leave it the value: what follows from what precedes.
pub(super) const HARMLESS: &str = "therefore because implies Rightarrow Longrightarrow rightarrow longrightarrow to leadsto mapsto \
    iff Leftrightarrow Longleftrightarrow approx sim simeq equiv cong in quad qquad displaystyle textstyle left right big \
    Big bigg Bigg bigl Bigl hspace vspace colon large Large LARGE huge Huge bf rm it so ldots dots cdots checkmark star \
    bullet newline noindent item hfill centering enspace enskip thinspace medspace thickspace negthinspace hskip \
    vskip strut nonumber notag Leftarrow leftarrow downarrow Downarrow rightsquigarrow hookrightarrow models vdash \
    triangleright blacktriangleright square blacksquare qed par dotsb ans hline triangleq coloneqq boxed";
/// Commands before a box that make it a part also outside of a formula.
const FUNCTIONS: &str = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp sqrt pi sum prod int lim \
    max min gcd lcm det frac dfrac tfrac binom bmod mod";
/// Commands whose value in front of a box is a coefficient.
const VALUES: &str = "frac dfrac tfrac cfrac sqrt binom dbinom tbinom overline hat vec mathbb operatorname";

/// Whether what precedes a box on its line makes it a part: `x >`, `2x =`, `x^2 =`, `-`, `3 +`, `\sin`.
pub(super) fn is_part_after(line: &str) -> bool {
    if line.trim_end_matches([' ', '$', '*']).ends_with(|c| c != '?' && CROSSES.contains(&c)) {
        return true;
    }
    // `-$\boxed{7}$`
    let bare = line.trim_end_matches('$');
    if line.ends_with(['-', '\u{2212}', '$'])
        && bare.strip_suffix(['-', '\u{2212}']).is_some_and(|rest| rest.is_empty() || rest.ends_with([' ', '$', '=']))
    {
        return true;
    }
    // `x = –`
    if line.strip_suffix('–').is_some_and(|rest| rest.trim_end().ends_with('=')) {
        return true;
    }
    match formula(line) {
        Some(formula) => is_part_of(formula),
        None => is_operand(line),
    }
}

/// What precedes the box in its formula. `None` where it stands in no formula.
pub(in crate::extract) fn formula(line: &str) -> Option<&str> {
    let open = ["\\(", "\\["].iter().filter_map(|mark| line.rfind(mark)).max();
    let closed = ["\\)", "\\]"].iter().filter_map(|mark| line.rfind(mark)).max();
    if let Some(open) = open
        && closed.is_none_or(|closed| closed < open)
    {
        return Some(line.suffix_from(open + 2));
    }
    // Money has a dollar without a partner: then nothing is known of the formula.
    let at = line.rfind('$')?;
    let escaped = line.matches("\\$").count();
    let dollars = (line.matches('$').count() - 2 * line.matches("$$").count()).saturating_sub(escaped);
    let is_display = line.prefix_to(at).ends_with('$') && line.matches("$$").count() % 2 == 1;
    (is_display || dollars % 2 == 1).then(|| line.suffix_from(at + 1))
}

fn trimmed(mut text: &str) -> &str {
    loop {
        let rest = text.trim_end();
        match BLANKS.iter().find_map(|blank| rest.strip_suffix(blank)) {
            Some(rest) => text = rest,
            None => return rest,
        }
    }
}

fn is_part_of(formula: &str) -> bool {
    let before = trimmed(formula);
    // `-{`
    let before = before.strip_suffix('{').filter(|rest| !rest.ends_with(char::is_alphanumeric)).unwrap_or(before);
    if signs::before().any(|sign| ends_with_sign(before, sign)) {
        return true;
    }
    if is_order(before) {
        return true;
    }
    // `x\boxed{7}`
    let mut letters = before.chars().rev();
    if letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.next().is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '\\' | '_' | '{'))
    {
        return true;
    }
    // `2\boxed{7}`
    if before.ends_with(|c: char| c.is_ascii_digit()) && !before.contains("\\text") || ends_with_value(before) {
        return true;
    }
    if let Some(name) = last_command(before)
        && !is_listed(HARMLESS, name)
    {
        return true;
    }
    // `1 : `
    let is_ratio = before.strip_suffix(':').is_some_and(|rest| rest.trim_end().ends_with(|c: char| c.is_ascii_digit()));
    before.ends_with("-}") || is_ratio
}

/// Whether a text ends with a sign of order: `=>`, `->` and `<answer>` do not.
fn is_order(before: &str) -> bool {
    let rest = before.strip_suffix(['<', '>']).map(|rest| rest.trim_end_matches([' ', '&']));
    let is_side =
        |rest: &str| rest.is_empty() || rest.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '}' | ')'));
    // A tag ends with `>`.
    rest.is_some_and(is_side) && before != ">" && (before.ends_with('<') || !before.contains('<'))
}

/// Whether an operator joins the box to a value before it, outside of a formula: `3 + \boxed{4}`, `\boxed{3}/\boxed{4}`.
fn is_operand(line: &str) -> bool {
    let before = line.trim_end();
    let is_touching = before.len() == line.len();
    let is_boxed = owner(before).is_some_and(is_box);
    // A number in front of a box is a factor where it stands alone: an equation may run into its answer, `3+2=5\boxed{5}`.
    let factor = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_factor = factor.len() < before.len() && (factor.is_empty() || factor.ends_with(char::is_whitespace));
    if is_touching && !is_boxed && (is_factor || ends_with_value(before)) {
        return true;
    }
    if last_command(before).is_some_and(|name| is_listed(FUNCTIONS, name)) {
        return true;
    }
    if signs::outside_of_formulas().any(|sign| ends_with_sign(before, sign)) || is_order(before) {
        return true;
    }
    // `½\boxed{7}`
    if is_touching && before.chars().next_back().is_some_and(|last| crate::parse::fraction(last).is_some()) {
        return true;
    }
    // `$\frac12 \cdot$ \boxed{7}`
    let formula = before.strip_suffix('$').filter(|rest| rest.contains('$')).map(str::trim_end);
    if formula.is_some_and(|formula| OPERATORS.iter().any(|sign| formula.ends_with(sign))) {
        return true;
    }
    let operator = OPERATORS.iter().find_map(|sign| before.strip_suffix(sign));
    if operator.is_some_and(|rest| ends_with_factor(rest.trim_end())) {
        return true;
    }
    // A dash and a colon join boxes; after a number only where they touch it, `Question 3 - `.
    let joined = before.strip_suffix(['-', '–', '\u{2212}', ':']);
    joined.is_some_and(|rest| {
        owner(rest.trim_end()).is_some_and(is_box)
            || is_touching && rest.ends_with(|c: char| c.is_ascii_digit()) && !before.ends_with(':')
    })
}

/// Whether a text ends with a number, a single letter, a group or a function: what multiplies the bracket after it.
pub(super) fn ends_with_factor(text: &str) -> bool {
    let mut characters = text.chars().rev();
    let Some(last) = characters.next() else { return false };
    let before = characters.next();
    let is_name = last.is_ascii_alphabetic() && before.is_none_or(|c| !c.is_alphabetic() && c != '\\');
    last.is_ascii_digit()
        || (is_name && !matches!(last, 'a' | 'A' | 'I'))
        || last == ')'
        || ends_with_value(text)
        || last_command(text).is_some_and(|name| is_listed(FUNCTIONS, name))
}

/// The name of the command at the end of a text.
fn last_command(text: &str) -> Option<&str> {
    let rest = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let name = text.suffix_from(rest.len());
    (rest.ends_with('\\') && !rest.ends_with("\\\\") && !name.is_empty()).then_some(name)
}

/// The command whose arguments end a text: `frac` of `\frac{1}{2}`, also before a last argument that is still open.
pub(super) fn owner(text: &str) -> Option<&str> {
    owned(text)?.1
}

/// The text before the arguments at its end, and the command that these belong to. `None` where a brace has no partner.
fn owned(text: &str) -> Option<(&str, Option<&str>)> {
    let mut rest = text.trim_end();
    while let Some(inner) = rest.strip_suffix(['}', ']']) {
        let close = rest.suffix_from(inner.len());
        let open = if close == "}" { '{' } else { '[' };
        let mut depth = 1_usize;
        let at = inner.char_indices().rev().find(|(_, c)| {
            depth = match *c {
                c if c == open => depth - 1,
                c if close.starts_with(c) => depth + 1,
                _ => depth,
            };
            depth == 0
        });
        rest = inner.prefix_to(at?.0).trim_end();
    }
    Some((rest, last_command(rest)))
}

/// Whether a text ends with a power, a fraction, a root or another box.
fn ends_with_value(text: &str) -> bool {
    let Some((rest, name)) = text.ends_with('}').then(|| owned(text)).flatten() else { return false };
    rest.ends_with(['^', '_']) || name.is_some_and(|name| is_listed(VALUES, name) || is_box(name))
}

fn is_box(name: &str) -> bool {
    matches!(name, "boxed" | "fbox" | "framebox")
}

pub(super) fn is_listed(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|listed| listed == name)
}

/// Whether a text ends with a sign; a command's name does not go on before it.
fn ends_with_sign(text: &str, sign: &str) -> bool {
    text.strip_suffix(sign).is_some_and(|rest| match sign {
        // `x \to -`, `**`, `-->`: a run of them is no operator.
        "-" | "+" => !rest.ends_with(['-', '+']),
        _ => true,
    })
}
