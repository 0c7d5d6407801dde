//! Names: the left-hand sides of assignments.

use super::Value;

/// Longest text that counts as a name.
const MAX_NAME_BYTES: usize = 60;

impl Value {
    /// Whether the value is only a name: `x`, `f(2)`, `|AB|`, `(p, q)`, `A:B`, a word or two.
    pub(crate) fn is_name(&self) -> bool {
        match self {
            Self::Expr(expr) => expr.is_name(),
            Self::Tuple(tuple) => tuple.items.iter().all(Self::is_name),
            Self::Ratio(terms) => terms.iter().all(Self::is_name),
            Self::Text(text) => {
                let text = text.as_str();
                text.len() <= MAX_NAME_BYTES
                    && text.contains(char::is_alphabetic)
                    && !text.contains(|c: char| c.is_ascii_digit() || "=<>+?".contains(c))
                    && !text.split(|c: char| !c.is_alphabetic()).any(is_negation)
            }
            _ => false,
        }
    }
}

/// Whether a word negates what follows it: `x \text{ is not} = 5`.
fn is_negation(word: &str) -> bool {
    ["not", "never", "isn", "cannot", "neither", "wrong", "false", "incorrect"]
        .iter()
        .any(|negation| word.eq_ignore_ascii_case(negation))
}
