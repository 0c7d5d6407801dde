//! Lists: items between separators outside of brackets.

use std::ops::Range;

use super::Tokens;
use crate::parse::token::TokenKind;

impl Tokens<'_> {
    /// The items of a list: separated by commas, semicolons, "and" and "or" outside of brackets. `None` if there is
    /// only one, or if one is empty.
    ///
    /// If both occur, semicolons separate first: `p = 5, q = 2; p = 7, q = 2` is a list of two.
    pub(in crate::parse) fn items(&self, range: Range<usize>) -> Option<Vec<Range<usize>>> {
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
                kind if !outer && (kind.is_and() || kind.is_or()) => true,
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
    pub(in crate::parse) fn sum_of_money(&self, range: Range<usize>) -> Option<(Self, char)> {
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
        let mut bare = Self {
            kinds: self.kinds.clone(),
            partners: self.partners.clone(),
            bold: Vec::new(),
            functions: Vec::new(),
        };
        for at in range {
            if matches!(bare.kind(at), TokenKind::Currency(_)) {
                bare.blank(at);
            }
        }
        Some((bare, sign))
    }
}
