//! Letters that are functions by the way they are used: `x(t)`, `u(t-1) - u(t-2)`, where the letter stands before
//! brackets only.

use std::collections::BTreeMap;

use crate::parse::token::TokenKind;

/// Most tokens of an argument that is looked at.
const MAX_ARGUMENT: usize = 12;

/// How a letter is used.
#[derive(Default)]
struct Use {
    /// Whether it stands anywhere but before a bracket, or before one that tells nothing.
    is_factor: bool,
    /// Whether the argument is a letter alone.
    has_lone_letter: bool,
    /// The arguments: the letters of each, and its tokens in words.
    arguments: Vec<(Vec<String>, String)>,
}

impl Use {
    /// Whether it is a function: of a letter alone, or of different arguments in one letter or of numbers.
    fn is_function(&self) -> bool {
        let differ = self.arguments.windows(2).any(|pair| matches!(pair, [(_, a), (_, b)] if a != b));
        let first = self.arguments.first().map(|(letters, _)| letters.clone()).unwrap_or_default();
        let are_alike = first.len() < 2 && self.arguments.iter().all(|(letters, _)| *letters == first);
        !self.is_factor && (self.has_lone_letter || differ && are_alike)
    }
}

/// The letters that are functions.
pub(super) fn functions<'a>(kinds: &[TokenKind<'a>], partners: &[usize]) -> Vec<&'a str> {
    let mut uses: BTreeMap<&'a str, Use> = BTreeMap::new();
    for (at, kind) in kinds.iter().enumerate() {
        let TokenKind::Word(word) = kind else { continue };
        if word.chars().nth(1).is_some() {
            word.split_inclusive(|_: char| true).for_each(|letter| uses.entry(letter).or_default().is_factor = true);
            continue;
        }
        let found = uses.entry(word).or_default();
        // `x\left(t\right)` has a space before its bracket.
        let open = at + 1 + usize::from(kinds.get(at + 1) == Some(&TokenKind::Space));
        let close = partners.get(open).copied().filter(|_| kinds.get(open) == Some(&TokenKind::Open('(')));
        let argument = close.and_then(|close| kinds.get(open + 1..close)).filter(|inner| inner.len() <= MAX_ARGUMENT);
        let Some(argument) = argument else {
            found.is_factor = true;
            continue;
        };
        let mut letters: Vec<String> = Vec::new();
        let (mut parts, mut is_product) = (0, false);
        for kind in argument.iter().filter(|kind| **kind != TokenKind::Space) {
            parts += 1;
            match kind {
                TokenKind::Word(word) => {
                    is_product |= word.chars().nth(1).is_some();
                    letters.push((*word).to_owned());
                }
                TokenKind::Command(name) => letters.push(format!("\\{name}")),
                TokenKind::Symbol(',') | TokenKind::Open(_) => found.is_factor = true,
                _ => {}
            }
        }
        letters.sort_unstable();
        letters.dedup();
        found.has_lone_letter |= parts == 1 && letters.len() == 1 && !is_product;
        found.arguments.push((letters, format!("{argument:?}")));
    }
    uses.into_iter().filter(|(_, found)| found.is_function()).map(|(letter, _)| letter).collect()
}
