//! The position of the parser within the tokens.

use std::ops::Range;

use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;

/// A position within tokens, at or within one of them.
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t Tokens<'a>,
    at: usize,
    /// Bytes of the current token that are consumed already: `\frac12` takes two digits of one numeral.
    offset: usize,
    /// End of the range that is parsed now.
    end: usize,
    /// A subscript after a superscript, which was consumed before it.
    skipped: Option<Range<usize>>,
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub(super) fn new(tokens: &'t Tokens<'a>, range: Range<usize>) -> Self {
        Self { tokens, at: range.start, offset: 0, end: range.end, skipped: None }
    }

    pub(super) fn tokens(&self) -> &'t Tokens<'a> {
        self.tokens
    }

    /// The index of the current token.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes of the current token that are consumed already.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn is_at_token_start(&self) -> bool {
        self.offset == 0
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    /// End of the range that is parsed now.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The token at an index. `None` at the end of the range and after it.
    pub(super) fn kind(&self, at: usize) -> Option<&'t TokenKind<'a>> {
        (at < self.end).then(|| self.tokens.kind(at))
    }

    /// The current token; `None` at the end.
    pub(super) fn peek(&self) -> Option<&'t TokenKind<'a>> {
        self.kind(self.at)
    }

    /// The index of the first token from `at` on that is not white space.
    pub(super) fn after_spaces(&self, mut at: usize) -> usize {
        while self.kind(at) == Some(&TokenKind::Space) {
            at += 1;
        }
        at
    }

    /// The index of the partner of an opening bracket within the range.
    pub(super) fn partner(&self, at: usize) -> Option<usize> {
        self.tokens.partner(at, self.end)
    }

    /// Moves to the next token.
    pub(super) fn advance(&mut self) {
        self.jump(self.at + 1);
    }

    /// Moves to the start of a token.
    pub(super) fn jump(&mut self, at: usize) {
        self.at = at;
        self.offset = 0;
    }

    pub(super) fn skip_spaces(&mut self) {
        self.at = self.after_spaces(self.at);
    }

    /// Consumes bytes of the current token, which has `length`.
    pub(super) fn consume(&mut self, bytes: usize, length: usize) {
        self.offset += bytes;
        if self.offset >= length {
            self.advance();
        }
    }

    /// Parses another range from now on, or the rest of an outer one.
    pub(super) fn set_end(&mut self, end: usize) {
        self.end = end;
    }

    /// Skips tokens once they are reached.
    pub(super) fn skip_later(&mut self, range: Range<usize>) {
        self.skipped = Some(range);
    }

    pub(super) fn forget_skipped(&mut self) {
        self.skipped = None;
    }

    /// Moves past tokens that were consumed out of order.
    pub(super) fn pass_skipped(&mut self) {
        if let Some(skipped) = &self.skipped
            && self.at == skipped.start
        {
            self.at = skipped.end;
        }
    }
}
