//! Pairs brackets, removes wrappers and splits lists.

mod meant;

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
        let (mut has_wrappers, mut has_groups) = (false, false);
        for (at, kind) in kinds.iter().enumerate() {
            match kind {
                TokenKind::GroupOpen => {
                    has_groups = true;
                    open.push((at, Opener::Group));
                }
                TokenKind::Wrapper(_) | TokenKind::Command("qty") => has_wrappers = true,
                TokenKind::Open(_) => open.push((at, Opener::Written)),
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
        let mut tokens = Self { kinds, partners };
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
        Ok(tokens)
    }

    /// `\text{ cm}` becomes ` cm`: wrapper commands and their braces turn into white space.
    fn dissolve_wrappers(&mut self) {
        for at in 0..self.kinds.len() {
            // `\\qty{9.8}{m/s^2}`
            if *self.kind(at) == TokenKind::Command("qty")
                && let Some(amount) = self.partner(at + 1, self.kinds.len())
                && let Some(unit) = self.partner(amount + 1, self.kinds.len())
            {
                self.label(amount + 1..unit);
                [at, at + 1, amount, amount + 1, unit].into_iter().for_each(|at| self.blank(at));
            }
            let TokenKind::Wrapper(is_text) = *self.kind(at) else { continue };
            self.blank(at);
            let next = if matches!(self.kind(at + 1), TokenKind::Space) { at + 2 } else { at + 1 };
            if matches!(self.kind(next), TokenKind::GroupOpen) {
                // Every brace has a partner.
                let Some(close) = self.partner(next, self.kinds.len()) else { continue };
                self.blank(next);
                self.blank(close);
                if is_text {
                    self.label(next..close);
                }
            }
        }
    }

    /// Replaces a token by white space.
    fn blank(&mut self, at: usize) {
        if let Some(kind) = self.kinds.get_mut(at) {
            *kind = TokenKind::Space;
        }
    }

    /// Turns the words of a text into labels. Each is visited once, since an inner wrapper finds none left.
    fn label(&mut self, range: Range<usize>) {
        for kind in self.kinds.get_mut(range).unwrap_or_default() {
            match kind {
                TokenKind::Word(word) => *kind = TokenKind::Label(word),
                // Nested text is handled already, or will be.
                TokenKind::Wrapper(_) => *kind = TokenKind::Wrapper(false),
                _ => {}
            }
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

    /// The items of a list: separated by commas, semicolons, "and" and "or" outside of brackets. `None` if there is
    /// only one, or if one is empty.
    ///
    /// If both occur, semicolons separate first: `p = 5, q = 2; p = 7, q = 2` is a list of two.
    pub(super) fn items(&self, range: Range<usize>) -> Option<Vec<Range<usize>>> {
        let outer = self.has_both_separators(range.clone());
        let mut items = Vec::new();
        let mut start = range.start;
        let mut after_comma = false;
        let mut at = range.start;
        while at < range.end {
            let conjunction = match self.kind(at) {
                TokenKind::GroupOpen | TokenKind::Open(_) | TokenKind::Begin(_) => {
                    at = self.partner(at, range.end).unwrap_or(at) + 1;
                    continue;
                }
                TokenKind::Symbol(';') => false,
                TokenKind::Symbol(',') if !outer => false,
                TokenKind::Word("and" | "or") | TokenKind::Label("and" | "or") if !outer => true,
                _ => {
                    at += 1;
                    continue;
                }
            };
            let item = self.trimmed(start..at);
            // ", and" is one separator.
            if !(conjunction && after_comma && item.is_empty()) {
                items.push(item);
            }
            after_comma = !conjunction;
            at += 1;
            start = at;
        }
        items.push(self.trimmed(start..range.end));
        (items.len() > 1 && items.iter().all(|item| !item.is_empty())).then_some(items)
    }

    /// Whether both semicolons and commas occur outside of brackets.
    fn has_both_separators(&self, range: Range<usize>) -> bool {
        let mut commas = false;
        let mut semicolons = false;
        let mut at = range.start;
        while at < range.end {
            match self.kind(at) {
                TokenKind::GroupOpen | TokenKind::Open(_) | TokenKind::Begin(_) => {
                    at = self.partner(at, range.end).unwrap_or(at)
                }
                TokenKind::Symbol(',') => commas = true,
                TokenKind::Symbol(';') => semicolons = true,
                _ => {}
            }
            at += 1;
        }
        commas && semicolons
    }

    /// `$10,200 + $255` without its currency signs, and the sign: amounts of one currency with plus and minus between
    /// them. `None` for anything else.
    pub(super) fn sum_of_money(&self, range: Range<usize>) -> Option<(Self, char)> {
        let mut sign = None;
        let (mut amounts, mut operators) = (0, 0);
        for at in range.clone() {
            match self.kind(at) {
                TokenKind::Currency(found) if sign.is_none_or(|sign| sign == *found) => {
                    sign = Some(*found);
                    amounts += 1;
                    if !matches!(self.kind(at + 1), TokenKind::Numeral(_)) {
                        return None;
                    }
                }
                TokenKind::Numeral(_) if at > range.start && matches!(self.kind(at - 1), TokenKind::Currency(_)) => {}
                TokenKind::Symbol('+' | '-') => operators += 1,
                TokenKind::Space => {}
                _ => return None,
            }
        }
        let sign = sign.filter(|_| operators > 0 && amounts > 1)?;
        let mut bare = Self { kinds: self.kinds.clone(), partners: self.partners.clone() };
        for at in range {
            if matches!(bare.kind(at), TokenKind::Currency(_)) {
                bare.blank(at);
            }
        }
        Some((bare, sign))
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
