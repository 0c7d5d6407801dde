//! Brackets, groups and circles as they are meant: `]3, 8[` is (3, 8), `{-}8` is -8, `72^o` is in degrees.

use super::Tokens;
use crate::parse::token::TokenKind;

/// Small groups that are dissolved: each takes linear time.
const MAX_DISSOLVED: usize = 8;

/// `]3, 8[` is (3, 8): brackets that are turned outward become parentheses.
pub(super) fn turn_outward_brackets(kinds: &mut [TokenKind<'_>]) {
    if !kinds.iter().any(|kind| matches!(kind, TokenKind::Open('[') | TokenKind::Close(']'))) {
        return;
    }
    // For each open bracket, whether a separator stands in it.
    let mut open: Vec<bool> = Vec::new();
    for at in 0..kinds.len() {
        let next = kinds.iter().skip(at + 1).find(|kind| **kind != TokenKind::Space);
        let ends = matches!(
            next,
            None | Some(
                TokenKind::Close(_)
                    | TokenKind::GroupClose
                    | TokenKind::Symbol(',' | ';' | '.' | '\\')
                    | TokenKind::Word("U" | "and" | "or")
                    | TokenKind::Command("cup" | "cap" | "setminus" | "land" | "lor")
            )
        );
        let Some(kind) = kinds.get_mut(at) else { return };
        match kind {
            TokenKind::Open('[') if ends && open.last() == Some(&true) => {
                *kind = TokenKind::Close(')');
                open.pop();
            }
            TokenKind::Close(']') if open.is_empty() && !ends => {
                *kind = TokenKind::Open('(');
                open.push(false);
            }
            TokenKind::Open(_) | TokenKind::GroupOpen => open.push(false),
            TokenKind::Close(_) | TokenKind::GroupClose => {
                open.pop();
            }
            TokenKind::Symbol(',' | ';') => {
                if let Some(separated) = open.last_mut() {
                    *separated = true;
                }
            }
            _ => {}
        }
    }
}

impl Tokens<'_> {
    /// `60{}^\\circ` is `60^\\circ`, and `{-}8` is `-8`: groups that hold nothing or a sign, and are no argument.
    pub(super) fn dissolve_small_groups(&mut self) {
        let mut dissolved = 0;
        let mut at = 0;
        while at + 1 < self.kinds.len() && dissolved < MAX_DISSOLVED {
            if !matches!(self.kind(at), TokenKind::GroupOpen) {
                at += 1;
                continue;
            }
            let inner = match (self.kind(at + 1), self.kind(at + 2)) {
                (TokenKind::GroupClose, _) => 0,
                (TokenKind::Symbol('-' | '+' | ':' | '='), TokenKind::GroupClose) => 1,
                _ => usize::MAX,
            };
            let before = at.checked_sub(1).map(|before| self.kind(before));
            let spaced = at.checked_sub(2).map(|before| self.kind(before));
            let before = if before == Some(&TokenKind::Space) { spaced } else { before };
            let is_free = matches!(
                before,
                None | Some(TokenKind::Numeral(_) | TokenKind::Close(_) | TokenKind::Symbol('=' | ','))
            );
            if inner > 1 || !is_free {
                at += 1;
                continue;
            }
            // The closing brace first, so that the index of the other stays.
            for brace in [at + 1 + inner, at] {
                self.kinds.remove(brace);
                self.partners.remove(brace);
                for partner in &mut self.partners {
                    *partner -= usize::from(*partner > brace);
                }
            }
            dissolved += 1;
        }
    }

    /// `1{\\frac12}` and `{1}{\\frac12}` are mixed numbers: braces are not seen.
    pub(super) fn unwrap_mixed_numbers(&mut self) {
        for at in 0..self.kinds.len() {
            // `{g}_{k}` is g_k.
            let is_letter = matches!(self.kind(at + 1), TokenKind::Word(word) if word.chars().nth(1).is_none());
            if *self.kind(at) == TokenKind::GroupOpen
                && is_letter
                && *self.kind(at + 2) == TokenKind::GroupClose
                && *self.kind(at + 3) == TokenKind::Symbol('_')
                && (at == 0 || !self.takes_argument(at - 1))
            {
                self.blank(at);
                self.blank(at + 2);
            }
            let close = match (self.kind(at), self.kind(at + 1)) {
                (TokenKind::GroupOpen, TokenKind::Command("frac")) => self.partner(at, self.kinds.len()),
                _ => None,
            };
            let Some(close) = close.filter(|close| self.is_fraction(at + 1..*close)) else { continue };
            // `1\\,{\\frac12}`
            let spaced = at > 1
                && *self.kind(at - 1) == TokenKind::Space
                && matches!(self.kind(at - 2), TokenKind::Numeral(_))
                && (at < 3 || !self.takes_argument(at - 3));
            match self.kind(at.saturating_sub(1)) {
                TokenKind::Space if spaced => {}
                TokenKind::Numeral(_) if at < 2 || !self.takes_argument(at - 2) => {}
                TokenKind::GroupClose
                    if at >= 3
                        && matches!(self.kind(at - 2), TokenKind::Numeral(_))
                        && matches!(self.kind(at - 3), TokenKind::GroupOpen)
                        && (at < 4 || !self.takes_argument(at - 4)) =>
                {
                    self.blank(at - 1);
                    self.blank(at - 3);
                }
                _ => continue,
            }
            self.blank(at);
            self.blank(close);
        }
    }

    /// `12 \\text{ over } 15` and `5 \\text{ plus } 7`: words between two numbers that are signs.
    pub(super) fn read_spoken_operators(&mut self) {
        for at in 1..self.kinds.len().saturating_sub(1) {
            let TokenKind::Label(word) = *self.kind(at) else { continue };
            let sign = match word {
                "plus" => TokenKind::Symbol('+'),
                "minus" => TokenKind::Symbol('-'),
                "times" => TokenKind::Command("times"),
                "over" | "divided" => TokenKind::Symbol('/'),
                _ => continue,
            };
            let is_space = |at: &usize| *self.kind(*at) == TokenKind::Space;
            let before = (0..at).rev().find(|at| !is_space(at));
            let mut after = (at + 1..self.kinds.len()).find(|at| !is_space(at));
            let by = after.filter(|at| *self.kind(*at) == TokenKind::Label("by"));
            if (word == "divided") != by.is_some() {
                continue;
            }
            if let Some(by) = by {
                after = (by + 1..self.kinds.len()).find(|at| !is_space(at));
            }
            let is_number = |at: Option<usize>| at.is_some_and(|at| matches!(self.kind(at), TokenKind::Numeral(_)));
            if !is_number(before) || !is_number(after) {
                continue;
            }
            if let Some(by) = by {
                self.blank(by);
            }
            if let Some(kind) = self.kinds.get_mut(at) {
                *kind = sign;
            }
        }
    }

    /// Whether a range is `\\frac` and two arguments in braces or digits.
    fn is_fraction(&self, range: std::ops::Range<usize>) -> bool {
        let argument = |at: usize| match self.kind(at) {
            TokenKind::GroupOpen => self.partner(at, range.end).map(|close| close + 1),
            TokenKind::Numeral(numeral) if numeral.is_digits() && numeral.integer.len() == 1 => Some(at + 1),
            _ => None,
        };
        // `\\frac12` is one numeral.
        let is_pair =
            matches!(self.kind(range.start + 1), TokenKind::Numeral(n) if n.is_digits() && n.integer.len() == 2);
        (is_pair && range.start + 2 == range.end) || argument(range.start + 1).and_then(argument) == Some(range.end)
    }

    /// Whether a token takes what follows it as its argument.
    fn takes_argument(&self, at: usize) -> bool {
        match self.kind(at) {
            TokenKind::Symbol('^' | '_') | TokenKind::Command("frac" | "sqrt" | "binom") | TokenKind::GroupClose => {
                true
            }
            TokenKind::Space => at > 0 && self.takes_argument(at - 1),
            _ => false,
        }
    }

    /// `72^o` and `72^{\\text{o}}` are 72 degrees.
    pub(super) fn read_letter_circles(&mut self) {
        for at in 1..self.kinds.len().saturating_sub(1) {
            if !matches!(self.kind(at), TokenKind::Symbol('^')) || !matches!(self.kind(at - 1), TokenKind::Numeral(_)) {
                continue;
            }
            let end = match self.kind(at + 1) {
                TokenKind::GroupOpen => self.partner(at + 1, self.kinds.len()).unwrap_or(at + 2),
                // `^\\text{o}` has lost its braces.
                TokenKind::Space => (at + 4).min(self.kinds.len()),
                _ => at + 2,
            };
            let letters = (at + 1..end).filter(|at| !matches!(self.kind(*at), TokenKind::Space | TokenKind::GroupOpen));
            let letters: Vec<usize> = letters.take(2).collect();
            if let [letter] = *letters.as_slice()
                && matches!(self.kind(letter), TokenKind::Word("o") | TokenKind::Label("o"))
                && let Some(kind) = self.kinds.get_mut(letter)
            {
                *kind = TokenKind::Command("circ");
                if matches!(self.kind(at + 1), TokenKind::Space) {
                    self.kinds.swap(letter, at + 1);
                }
            }
        }
    }
}
