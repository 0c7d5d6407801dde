//! Commands that are transparent to their argument: `\text{ cm}` is ` cm`.

use std::ops::Range;

use super::Tokens;
use crate::parse::token::{Style, TokenKind};

impl Tokens<'_> {
    /// `\text{ cm}` becomes ` cm`: wrapper commands and their braces turn into white space.
    pub(super) fn dissolve_wrappers(&mut self) {
        for at in 0..self.kinds.len() {
            // `\\qty{9.8}{m/s^2}`
            if *self.kind(at) == TokenKind::Command("qty")
                && let Some(amount) = self.partner(at + 1, self.kinds.len())
                && let Some(unit) = self.partner(amount + 1, self.kinds.len())
            {
                self.label(amount + 1..unit);
                [at, at + 1, amount, amount + 1, unit].into_iter().for_each(|at| self.blank(at));
            }
            let TokenKind::Wrapper(style) = *self.kind(at) else { continue };
            self.blank(at);
            let next = if matches!(self.kind(at + 1), TokenKind::Space) { at + 2 } else { at + 1 };
            if style == Style::Bold {
                self.note_bold(next);
            }
            if matches!(self.kind(next), TokenKind::GroupOpen) {
                // Every brace has a partner.
                let Some(close) = self.partner(next, self.kinds.len()) else { continue };
                self.blank(next);
                self.blank(close);
                if style == Style::Text {
                    self.label(next..close);
                }
            }
        }
    }

    /// Notes the letters of the argument at a token, or of the word there, as bold. The dot product of two vectors has no
    /// order.
    fn note_bold(&mut self, at: usize) {
        let end = self.partner(at, self.kinds.len()).unwrap_or(at);
        let is_dot = |kind: Option<&TokenKind<'_>>| matches!(kind, Some(TokenKind::Command("cdot" | "bullet")));
        let is_space = |kind: &&TokenKind<'_>| **kind == TokenKind::Space;
        let before = self.kinds.iter().take(at).rev().find(|kind| !is_space(kind));
        let after = self.kinds.iter().skip(end + 1).find(|kind| !is_space(kind));
        let has_dot = is_dot(before) || is_dot(after);
        for kind in self.kinds.get(at..=end).unwrap_or_default() {
            match kind {
                TokenKind::Word(word) if has_dot && word.chars().all(char::is_lowercase) => {}
                TokenKind::Word(word) => self.bold.extend(word.split_inclusive(|_: char| true)),
                TokenKind::Command(name) => self.bold.push(name),
                _ => {}
            }
        }
    }

    /// Turns the words of a text into labels. Each is visited once, since an inner wrapper finds none left.
    fn label(&mut self, range: Range<usize>) {
        for kind in self.kinds.get_mut(range).unwrap_or_default() {
            match kind {
                TokenKind::Word(word) => *kind = TokenKind::Label(word),
                // Nested text is handled already, or will be.
                TokenKind::Wrapper(_) => *kind = TokenKind::Wrapper(Style::Plain),
                _ => {}
            }
        }
    }
}
