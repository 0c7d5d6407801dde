//! The canonical spelling of text that is not parsed further, so that equivalent spellings compare equal.
//!
//! White space is kept between words and between digits only, arguments always have braces (`\frac12` is `\frac{1}{2}`,
//! `x^2` is `x^{2}`), and other braces are removed.

use std::ops::Range;

use super::structure::Tokens;
use super::token::TokenKind;

/// The canonical spelling of these tokens.
pub(super) fn canonical(tokens: &Tokens<'_>, range: Range<usize>) -> String {
    let range = without_parentheses(tokens, range);
    let mut writer = Writer { text: String::new(), space: false, last: Last::Other, arguments: vec![0] };
    for at in range {
        writer.token(tokens.kind(at));
    }
    writer.text
}

/// `(B)` is the choice B.
fn without_parentheses(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    if range.len() >= 3
        && matches!(tokens.kind(range.start), TokenKind::Open('('))
        && matches!(tokens.kind(range.end - 1), TokenKind::Close(')'))
    {
        let inner = tokens.stripped(range.start + 1..range.end - 1);
        if inner.len() == 1 && matches!(tokens.kind(inner.start), TokenKind::Word(_) | TokenKind::Label(_)) {
            return inner;
        }
    }
    range
}

/// The last thing written, as far as white space after it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Digits,
    /// More than one letter.
    Word,
    /// A single letter, such as a variable.
    Letter,
    /// A command that a following letter would extend.
    Command,
    Other,
}

struct Writer {
    text: String,
    space: bool,
    last: Last,
    /// Arguments still expected, for each open group; 0 also for a group that is not an argument.
    arguments: Vec<u8>,
}

impl Writer {
    fn token(&mut self, kind: &TokenKind<'_>) {
        match kind {
            TokenKind::Space | TokenKind::Wrapper(_) => self.space = true,
            TokenKind::Begin(name) | TokenKind::End(name) => {
                let command = if matches!(kind, TokenKind::Begin(_)) { "\\begin{" } else { "\\end{" };
                self.other(command);
                self.text.push_str(name);
                self.other("}");
            }
            TokenKind::GroupOpen => {
                // An argument's braces are written; other groups are only tracked.
                let is_argument = self.take_argument();
                if is_argument {
                    self.other("{");
                }
                self.arguments.push(if is_argument { ARGUMENT } else { 0 });
            }
            TokenKind::GroupClose => {
                let closed = self.arguments.pop().unwrap_or(0);
                if closed & ARGUMENT != 0 {
                    self.other("}");
                }
                if self.arguments.is_empty() {
                    self.arguments.push(0);
                }
            }
            TokenKind::Numeral(numeral) => {
                let mut digits: &str = &numeral.integer;
                while numeral.is_digits() && !digits.is_empty() && self.take_argument() {
                    let (first, rest) = digits.split_at(1);
                    self.braced(first);
                    digits = rest;
                }
                let point = if numeral.point { "." } else { "" };
                if !digits.is_empty() || numeral.point {
                    self.piece(Last::Digits, &[digits, point, numeral.fraction]);
                }
            }
            TokenKind::Word(word) | TokenKind::Label(word) if self.take_argument() => self.braced(word),
            TokenKind::Word(word) | TokenKind::Label(word) => {
                let last = if word.chars().nth(1).is_some() { Last::Word } else { Last::Letter };
                self.piece(last, &[word]);
            }
            TokenKind::Command(name) => {
                let is_argument = self.take_argument();
                if is_argument {
                    self.other("{");
                }
                self.space = false;
                self.text.push('\\');
                self.text.push_str(name);
                self.last = Last::Command;
                if is_argument {
                    self.other("}");
                }
                self.expect(match *name {
                    "frac" | "binom" => 2,
                    "sqrt" => 1,
                    _ => 0,
                });
            }
            TokenKind::Open(character)
            | TokenKind::Close(character)
            | TokenKind::Currency(character)
            | TokenKind::Symbol(character) => {
                self.symbol(*character);
            }
            TokenKind::Percent => self.symbol('%'),
        }
    }

    fn symbol(&mut self, character: char) {
        self.other(character.encode_utf8(&mut [0; 4]));
        if matches!(character, '^' | '_') {
            self.expect(1);
        }
    }

    /// Something that never needs white space around it.
    fn other(&mut self, text: &str) {
        self.space = false;
        self.text.push_str(text);
        self.last = Last::Other;
    }

    fn braced(&mut self, text: &str) {
        self.other("{");
        self.text.push_str(text);
        self.other("}");
    }

    /// Writes a piece of digits or letters.
    fn piece(&mut self, kind: Last, parts: &[&str]) {
        let separate = match (self.last, kind) {
            // A letter would extend the command's name; digits are separated for uniformity.
            (Last::Command, _) => true,
            (Last::Digits, Last::Digits) | (Last::Word, Last::Word | Last::Letter) | (Last::Letter, Last::Word) => {
                self.space
            }
            _ => false,
        };
        if separate {
            self.text.push(' ');
        }
        parts.iter().for_each(|part| self.text.push_str(part));
        (self.space, self.last) = (false, kind);
    }

    fn expect(&mut self, arguments: u8) {
        if let Some(expected) = self.arguments.last_mut() {
            *expected = (*expected & ARGUMENT) | arguments;
        }
    }

    /// Whether an argument is expected next.
    fn take_argument(&mut self) -> bool {
        match self.arguments.last_mut() {
            Some(expected) if *expected & !ARGUMENT > 0 => {
                *expected -= 1;
                true
            }
            _ => false,
        }
    }
}

/// Marks a group that is itself an argument.
const ARGUMENT: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;
    use crate::Fuel;

    fn spelled(text: &str) -> String {
        let tokens = Tokens::of(tokens(text, &mut Fuel::new(1000)).unwrap()).unwrap();
        canonical(&tokens, tokens.trimmed(tokens.all()))
    }

    #[test]
    fn spellings_of_one_thing_are_one_text() {
        assert_eq!(spelled("\\frac94\\pi"), "\\frac{9}{4}\\pi");
        assert_eq!(spelled("\\dfrac {9}{4} \\pi"), "\\frac{9}{4}\\pi");
        assert_eq!(spelled("x^2 + {y}_{12}"), "x^{2}+y_{12}");
        assert_eq!(spelled("x^{2}+y_{12}"), "x^{2}+y_{12}");
        assert_eq!(spelled("\\sqrt2"), spelled("\\sqrt{2}"));
        assert_eq!(spelled("\\frac{\\frac12}{3}"), "\\frac{\\frac{1}{2}}{3}");
        assert_eq!(spelled("\\left[ 0 , 1 \\right)"), "[0,1)");
        assert_eq!(spelled("4210_{7}"), spelled("4210_7"));
    }

    #[test]
    fn words_stay_apart_and_letters_do_not() {
        assert_eq!(spelled("\\text{even  function}"), "even function");
        assert_eq!(spelled("x y"), "xy");
        assert_eq!(spelled("1 2 x"), "1 2x");
        assert_eq!(spelled("5 cm"), spelled("5cm"));
        assert_eq!(spelled("\\pi r"), "\\pi r");
        assert_eq!(spelled("\\text{(C)}."), "C");
        assert_eq!(spelled("\\alpha 2"), "\\alpha 2");
    }
}
