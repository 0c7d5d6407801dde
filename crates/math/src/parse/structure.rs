//! Which bracket belongs to which, what is only a wrapper, and where lists are cut.

use std::ops::Range;

use super::ParseError;
use super::token::Kind;

/// What a bracket that is open is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    Group,
    Written,
    Environment,
}

/// Tokens whose brackets are paired.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    kinds: Vec<Kind<'a>>,
    /// Index of the partner of a bracket; its own where there is none.
    partners: Vec<usize>,
}

impl<'a> Tokens<'a> {
    /// Pairs the brackets and dissolves wrappers. Braces must pair; written brackets need not, and need not be of one kind: `[0, 1)`.
    pub(super) fn of(kinds: Vec<Kind<'a>>) -> Result<Self, ParseError> {
        let mut partners: Vec<usize> = (0..kinds.len()).collect();
        let mut pair = |one: usize, other: usize| {
            for (at, partner) in [(one, other), (other, one)] {
                if let Some(known) = partners.get_mut(at) {
                    *known = partner;
                }
            }
        };
        let mut open: Vec<(usize, Opener)> = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            match kind {
                Kind::GroupOpen => open.push((at, Opener::Group)),
                Kind::Open(_) => open.push((at, Opener::Written)),
                Kind::Begin(_) => open.push((at, Opener::Environment)),
                Kind::End(_) => {
                    // Brackets that are open within the environment have no partner; those around it are left alone.
                    let inner = open.iter().rposition(|(_, opener)| *opener != Opener::Written);
                    if let Some(inner) = inner
                        && let Some(&(begin, Opener::Environment)) = open.get(inner)
                    {
                        pair(begin, at);
                        open.truncate(inner);
                    }
                }
                Kind::Close(_) => {
                    if let Some((begin, _)) = open.pop_if(|(_, opener)| *opener == Opener::Written) {
                        pair(begin, at);
                    }
                }
                Kind::GroupClose => loop {
                    // Brackets that are open within the group have no partner.
                    let (begin, opener) = open.pop().ok_or(ParseError::Unbalanced)?;
                    if opener == Opener::Group {
                        pair(begin, at);
                        break;
                    }
                },
                _ => {}
            }
        }
        if open.iter().any(|(_, opener)| *opener == Opener::Group) {
            return Err(ParseError::Unbalanced);
        }
        let mut tokens = Self { kinds, partners };
        tokens.dissolve_wrappers();
        Ok(tokens)
    }

    /// `\text{ cm}` is ` cm`: commands of wrappers and their braces become white space.
    fn dissolve_wrappers(&mut self) {
        for at in 0..self.kinds.len() {
            let Kind::Wrapper(is_text) = *self.kind(at) else { continue };
            self.blank(at);
            let next = if *self.kind(at + 1) == Kind::Space { at + 2 } else { at + 1 };
            if *self.kind(next) == Kind::GroupOpen {
                // Every brace has one.
                let Some(close) = self.partner(next, self.kinds.len()) else { continue };
                self.blank(next);
                self.blank(close);
                if is_text {
                    self.label(next..close);
                }
            }
        }
    }

    /// Makes a token white space.
    fn blank(&mut self, at: usize) {
        if let Some(kind) = self.kinds.get_mut(at) {
            *kind = Kind::Space;
        }
    }

    /// Makes the words of a text labels. Each is looked at once, since an inner wrapper finds none left.
    fn label(&mut self, range: Range<usize>) {
        for kind in self.kinds.get_mut(range).unwrap_or_default() {
            match kind {
                Kind::Word(word) => *kind = Kind::Label(word),
                // What lies within is text already, or will be.
                Kind::Wrapper(_) => *kind = Kind::Wrapper(false),
                _ => {}
            }
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.kinds.len()
    }

    /// The token at an index. Behind the last one there is a token that nothing is made of.
    pub(super) fn kind(&self, at: usize) -> &Kind<'a> {
        static NOTHING: Kind<'static> = Kind::Symbol('\0');
        self.kinds.get(at).unwrap_or(&NOTHING)
    }

    /// Index of the partner of an opening bracket, where it lies in front of `end`.
    pub(super) fn partner(&self, at: usize, end: usize) -> Option<usize> {
        self.partners.get(at).copied().filter(|&partner| partner > at && partner < end)
    }

    /// Without white space at either end.
    pub(super) fn stripped(&self, mut range: Range<usize>) -> Range<usize> {
        while range.start < range.end && *self.kind(range.start) == Kind::Space {
            range.start += 1;
        }
        while range.start < range.end && *self.kind(range.end - 1) == Kind::Space {
            range.end -= 1;
        }
        range
    }

    /// Without white space and braces around it, and without the full stop of a sentence.
    pub(super) fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let mut range = self.stripped(range);
        loop {
            if range.len() >= 2
                && *self.kind(range.start) == Kind::GroupOpen
                && self.partner(range.start, range.end) == Some(range.end - 1)
            {
                range = self.stripped(range.start + 1..range.end - 1);
                continue;
            }
            let ends_sentence = range.len() >= 2
                && *self.kind(range.end - 1) == Kind::Symbol('.')
                && *self.kind(range.end - 2) != Kind::Symbol('.');
            if !ends_sentence {
                return range;
            }
            range = self.stripped(range.start..range.end - 1);
        }
    }

    /// The items of a list: what stands between commas, semicolons, "and" and "or" outside of all brackets. `None` where there is
    /// only one, or where one would be empty.
    ///
    /// Semicolons cut first where there are both: `p = 5, q = 2; p = 7, q = 2` is a list of two.
    pub(super) fn items(&self, range: Range<usize>) -> Option<Vec<Range<usize>>> {
        let outer = self.has_both_separators(range.clone());
        let mut items = Vec::new();
        let mut start = range.start;
        let mut after_comma = false;
        let mut at = range.start;
        while at < range.end {
            let conjunction = match self.kind(at) {
                Kind::GroupOpen | Kind::Open(_) | Kind::Begin(_) => {
                    at = self.partner(at, range.end).unwrap_or(at) + 1;
                    continue;
                }
                Kind::Symbol(';') => false,
                Kind::Symbol(',') if !outer => false,
                Kind::Word("and" | "or") | Kind::Label("and" | "or") if !outer => true,
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

    /// Whether there are semicolons and commas outside of all brackets.
    fn has_both_separators(&self, range: Range<usize>) -> bool {
        let (mut commas, mut semicolons) = (false, false);
        let mut at = range.start;
        while at < range.end {
            match self.kind(at) {
                Kind::GroupOpen | Kind::Open(_) | Kind::Begin(_) => at = self.partner(at, range.end).unwrap_or(at),
                Kind::Symbol(',') => commas = true,
                Kind::Symbol(';') => semicolons = true,
                _ => {}
            }
            at += 1;
        }
        commas && semicolons
    }

    /// Index of the first token outside of all brackets that is one of these.
    pub(super) fn find(&self, range: Range<usize>, is: impl Fn(&Kind<'_>) -> bool) -> Option<usize> {
        let mut at = range.start;
        while at < range.end {
            let kind = self.kind(at);
            if is(kind) {
                return Some(at);
            }
            if matches!(kind, Kind::GroupOpen | Kind::Open(_) | Kind::Begin(_)) {
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
