//! Brackets, groups and circles as they are meant: `]3, 8[` is (3, 8), `{-}8` is -8, `72^o` is in degrees.

use super::Tokens;
use crate::parse::token::Kind;

/// Small groups that are dissolved: each takes linear time.
const MAX_DISSOLVED: usize = 8;

/// `]3, 8[` is (3, 8): brackets that are turned outward become parentheses.
pub(super) fn turn_outward_brackets(kinds: &mut [Kind<'_>]) {
    if !kinds.iter().any(|kind| matches!(kind, Kind::Open('[') | Kind::Close(']'))) {
        return;
    }
    // Of each open bracket, whether a separator stands in it.
    let mut open: Vec<bool> = Vec::new();
    for at in 0..kinds.len() {
        let next = kinds.iter().skip(at + 1).find(|kind| **kind != Kind::Space);
        let ends = matches!(
            next,
            None | Some(
                Kind::Close(_)
                    | Kind::GroupClose
                    | Kind::Symbol(',' | ';' | '.' | '\\')
                    | Kind::Word("U" | "and" | "or")
                    | Kind::Command("cup" | "cap" | "setminus")
            )
        );
        let Some(kind) = kinds.get_mut(at) else { return };
        match kind {
            Kind::Open('[') if ends && open.last() == Some(&true) => {
                *kind = Kind::Close(')');
                open.pop();
            }
            Kind::Close(']') if open.is_empty() && !ends => {
                *kind = Kind::Open('(');
                open.push(false);
            }
            Kind::Open(_) | Kind::GroupOpen => open.push(false),
            Kind::Close(_) | Kind::GroupClose => {
                open.pop();
            }
            Kind::Symbol(',' | ';') => {
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
            if !matches!(self.kind(at), Kind::GroupOpen) {
                at += 1;
                continue;
            }
            let inner = match (self.kind(at + 1), self.kind(at + 2)) {
                (Kind::GroupClose, _) => 0,
                (Kind::Symbol('-' | '+' | ':' | '='), Kind::GroupClose) => 1,
                _ => usize::MAX,
            };
            let before = at.checked_sub(1).map(|before| self.kind(before));
            let spaced = at.checked_sub(2).map(|before| self.kind(before));
            let before = if before == Some(&Kind::Space) { spaced } else { before };
            let is_free = matches!(before, None | Some(Kind::Numeral(_) | Kind::Close(_) | Kind::Symbol('=' | ',')));
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

    /// `72^o` and `72^{\\text{o}}` are 72 degrees.
    pub(super) fn read_letter_circles(&mut self) {
        for at in 1..self.kinds.len().saturating_sub(1) {
            if !matches!(self.kind(at), Kind::Symbol('^')) || !matches!(self.kind(at - 1), Kind::Numeral(_)) {
                continue;
            }
            let end = match self.kind(at + 1) {
                Kind::GroupOpen => self.partner(at + 1, self.kinds.len()).unwrap_or(at + 2),
                // `^\\text{o}` has lost its braces.
                Kind::Space => (at + 4).min(self.kinds.len()),
                _ => at + 2,
            };
            let letters = (at + 1..end).filter(|at| !matches!(self.kind(*at), Kind::Space | Kind::GroupOpen));
            let letters: Vec<usize> = letters.take(2).collect();
            if let [letter] = *letters.as_slice()
                && matches!(self.kind(letter), Kind::Word("o") | Kind::Label("o"))
                && let Some(kind) = self.kinds.get_mut(letter)
            {
                *kind = Kind::Command("circ");
                if matches!(self.kind(at + 1), Kind::Space) {
                    self.kinds.swap(letter, at + 1);
                }
            }
        }
    }
}
