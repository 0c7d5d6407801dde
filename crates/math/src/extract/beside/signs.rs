//! Operators and relations that make a box beside them a part of a formula.

/// On either side of a box.
const SIGNS: [&str; 37] = [
    "\\ne",
    "\\neq",
    "\\le",
    "\\leq",
    "\\leqslant",
    "\\ge",
    "\\geq",
    "\\geqslant",
    "\\lt",
    "\\gt",
    "\\notin",
    "\\propto",
    "≠",
    "≤",
    "≥",
    "⩽",
    "⩾",
    "≮",
    "≯",
    "≢",
    "≁",
    "≉",
    "∉",
    "∝",
    "\\cdot",
    "\\times",
    "\\div",
    "\\pm",
    "\\mp",
    "·",
    "×",
    "÷",
    "±",
    "+",
    "-",
    "\u{2212}",
    "/",
];
/// Before a box alone.
const BEFORE: [&str; 11] = ["\\not=", "\\not =", "\\not\\approx", "\\lnot", "\\neg", "¬", "√", "∓", "∼", "^", "_"];
/// After a box alone.
const AFTER: [&str; 10] = ["<", ">", "*", "!", "\\pi", "\\sqrt", "\\frac", "\\ldots", "\\dots", "\\cdots"];

/// Marks beside a box that doubt it or cross it out.
pub(super) const CROSSES: [char; 7] = ['?', '？', '✗', '✘', '❌', '✖', '⁇'];

/// The signs before a box.
pub(super) fn before() -> impl Iterator<Item = &'static str> {
    SIGNS.into_iter().chain(BEFORE)
}

/// The signs after a box.
pub(super) fn after() -> impl Iterator<Item = &'static str> {
    SIGNS.into_iter().chain(AFTER)
}

/// Relations and signs that are none of prose: they make a box a part also outside of a formula.
pub(super) fn outside_of_formulas() -> impl Iterator<Item = &'static str> {
    let is_of_prose = |sign: &&str| matches!(*sign, "+" | "-" | "\u{2212}" | "/" | "·" | "×" | "^" | "_");
    before().filter(move |sign| !is_of_prose(sign))
}
