//! Pairs brackets, removes wrappers and splits lists.

mod applied;
mod items;
mod meant;
mod wrappers;

use std::ops::Range;

use super::ParseError;
use super::token::TokenKind;

/// The kind of an open bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    Group,
    Written,
    Environment,
}

/// Tokens with paired brackets.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    kinds: Vec<TokenKind<'a>>,
    /// The index of a bracket's partner; its own index if it has none.
    partners: Vec<usize>,
    /// Letters that are bold somewhere.
    bold: Vec<&'a str>,
    /// Letters that are functions by the way they are used.
    functions: Vec<&'a str>,
}

impl<'a> Tokens<'a> {
    /// Pairs the brackets and removes wrappers. Braces must be balanced; other brackets need not be, and need not
    /// match: `[0, 1)`.
    pub(super) fn of(mut kinds: Vec<TokenKind<'a>>) -> Result<Self, ParseError> {
        meant::turn_outward_brackets(&mut kinds);
        let mut partners: Vec<usize> = (0..kinds.len()).collect();
        let mut pair = |one: usize, other: usize| {
            for (at, partner) in [(one, other), (other, one)] {
                if let Some(known) = partners.get_mut(at) {
                    *known = partner;
                }
            }
        };
        let mut open: Vec<(usize, Opener)> = Vec::new();
        let mut has_small_groups = false;
        let mut has_circles = false;
        let (mut has_wrappers, mut has_groups, mut has_brackets) = (false, false, false);
        for (at, kind) in kinds.iter().enumerate() {
            match kind {
                TokenKind::GroupOpen => {
                    has_groups = true;
                    open.push((at, Opener::Group));
                }
                TokenKind::Wrapper(_) | TokenKind::Command("qty") => has_wrappers = true,
                TokenKind::Open(bracket) => {
                    has_brackets |= *bracket == '(';
                    open.push((at, Opener::Written));
                }
                TokenKind::Begin(_) => open.push((at, Opener::Environment)),
                TokenKind::End(_) => {
                    // Brackets left open within the environment stay unpaired; those around it are unaffected.
                    let inner = open.iter().rposition(|(_, opener)| *opener != Opener::Written);
                    if let Some(inner) = inner
                        && let Some(&(begin, Opener::Environment)) = open.get(inner)
                    {
                        pair(begin, at);
                        open.truncate(inner);
                    }
                }
                TokenKind::Close(_) => {
                    if let Some((begin, _)) = open.pop_if(|(_, opener)| *opener == Opener::Written) {
                        pair(begin, at);
                    }
                }
                TokenKind::GroupClose => loop {
                    // Brackets left open within the group stay unpaired.
                    let (begin, opener) = open.pop().ok_or(ParseError::Unbalanced)?;
                    if opener == Opener::Group {
                        pair(begin, at);
                        has_small_groups |= at - begin < 3;
                        break;
                    }
                },
                TokenKind::Word("o") => has_circles = true,
                _ => {}
            }
        }
        if open.iter().any(|(_, opener)| *opener == Opener::Group) {
            return Err(ParseError::Unbalanced);
        }
        let mut tokens = Self { kinds, partners, bold: Vec::new(), functions: Vec::new() };
        if has_wrappers {
            tokens.dissolve_wrappers();
            tokens.read_spoken_operators();
        }
        if has_groups {
            tokens.unwrap_mixed_numbers();
        }
        if has_small_groups {
            tokens.dissolve_small_groups();
        }
        if has_circles {
            tokens.read_letter_circles();
        }
        if has_brackets {
            tokens.functions = applied::functions(&tokens.kinds, &tokens.partners);
        }
        Ok(tokens)
    }

    /// Whether a letter, with or without an index, is bold somewhere.
    pub(super) fn is_bold(&self, name: &str) -> bool {
        !self.bold.is_empty() && name.split('_').next().is_some_and(|letter| self.bold.contains(&letter))
    }

    /// Whether a letter is a function by the way it is used.
    pub(super) fn is_function(&self, name: &str) -> bool {
        self.functions.contains(&name)
    }

    /// Replaces a token by white space.
    fn blank(&mut self, at: usize) {
        if let Some(kind) = self.kinds.get_mut(at) {
            *kind = TokenKind::Space;
        }
    }

    /// The range of all tokens.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.kinds.len()
    }

    /// The token at an index; past the end, a token that matches nothing.
    pub(super) fn kind(&self, at: usize) -> &TokenKind<'a> {
        static NOTHING: TokenKind<'static> = TokenKind::Symbol('\0');
        self.kinds.get(at).unwrap_or(&NOTHING)
    }

    /// The index of the partner of an opening bracket, if before `end`.
    pub(super) fn partner(&self, at: usize, end: usize) -> Option<usize> {
        self.partners.get(at).copied().filter(|&partner| partner > at && partner < end)
    }

    /// Whether the range is one of these words.
    pub(super) fn is_word(&self, range: Range<usize>, words: &[&str]) -> bool {
        let range = self.trimmed(range);
        range.len() == 1
            && match self.kind(range.start) {
                TokenKind::Word(word) | TokenKind::Label(word) => {
                    words.iter().any(|known| word.eq_ignore_ascii_case(known))
                }
                _ => false,
            }
    }

    /// The range without white space at either end.
    pub(super) fn stripped(&self, mut range: Range<usize>) -> Range<usize> {
        while range.start < range.end && matches!(self.kind(range.start), TokenKind::Space) {
            range.start += 1;
        }
        while range.start < range.end && matches!(self.kind(range.end - 1), TokenKind::Space) {
            range.end -= 1;
        }
        range
    }

    /// The range without surrounding white space and braces, and without a sentence's full stop.
    pub(super) fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let mut range = self.stripped(range);
        loop {
            if range.len() >= 2
                && matches!(self.kind(range.start), TokenKind::GroupOpen)
                && self.partner(range.start, range.end) == Some(range.end - 1)
            {
                range = self.stripped(range.start + 1..range.end - 1);
                continue;
            }
            let ends_sentence = range.len() >= 2
                && matches!(self.kind(range.end - 1), TokenKind::Symbol('.'))
                && !matches!(self.kind(range.end - 2), TokenKind::Symbol('.'));
            if !ends_sentence {
                return range;
            }
            range = self.stripped(range.start..range.end - 1);
        }
    }

    /// The index of the first matching token outside of brackets.
    pub(super) fn find(&self, range: Range<usize>, is: impl Fn(&TokenKind<'_>) -> bool) -> Option<usize> {
        let mut at = range.start;
        while at < range.end {
            let kind = self.kind(at);
            if is(kind) {
                return Some(at);
            }
            if matches!(kind, TokenKind::GroupOpen | TokenKind::Open(_) | TokenKind::Begin(_)) {
                at = self.partner(at, range.end).unwrap_or(at);
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;
    use crate::Fuel;

    fn read(text: &str) -> Result<Tokens<'_>, ParseError> {
        Tokens::of(tokens(text, &mut Fuel::new(1000)).unwrap())
    }

    fn count(text: &str) -> usize {
        let tokens = read(text).unwrap();
        tokens.items(tokens.trimmed(tokens.all())).map_or(1, |items| items.len())
    }

    #[test]
    fn lists_are_cut_outside_of_brackets() {
        assert_eq!(count("1, 2, 3"), 3);
        assert_eq!(count("7, -2, \\text{ and } -5"), 3);
        assert_eq!(count("1 \\text{ or } 2"), 2);
        assert_eq!(count("(1, 2), [3, 4)"), 2);
        assert_eq!(count("\\{1, 2\\}"), 1);
        assert_eq!(count("{1, 2}"), 2);
        assert_eq!(count("sand or"), 1);
        assert_eq!(count("1,, 2"), 1);
        assert_eq!(count("1, 2,"), 1);
    }

    #[test]
    fn braces_must_pair_and_brackets_need_not() {
        for text in ["{", "}", "{1}}", "\\text{a"] {
            assert_eq!(read(text).unwrap_err(), ParseError::Unbalanced, "{text}");
        }
        for text in ["[0, 1)", "(", "{(}", ")1(", "\\{1"] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_the_full_stop_of_a_sentence_goes() {
        let length = |text| {
            let tokens = read(text).unwrap();
            tokens.trimmed(tokens.all()).len()
        };
        assert_eq!(length("5 ."), 1);
        assert_eq!(length("{{ 5 }}."), 1);
        assert_eq!(length("5..."), 4);
    }
}
