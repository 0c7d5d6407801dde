//! Names: letters, words, subscripts, primes.

use super::frame::OnClose;
use super::letters::{LETTER_NAMES, MAX_LETTERS, contains_function, has_no_vowel, is_script_of_words};
use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::expr::{Constant, Function};
use crate::parse::text;
use crate::parse::token::TokenKind;

impl Parser<'_, '_, '_> {
    /// Whether a token begins with a function.
    pub(super) fn is_function(&self, kind: &TokenKind<'_>) -> bool {
        match kind {
            TokenKind::Command(name) => Function::named(name).is_some_and(|function| function != Function::Sqrt),
            TokenKind::Word(word) | TokenKind::Label(word) => {
                word.get(self.cursor.offset()..).is_some_and(|rest| Function::at_start(rest).is_some())
            }
            _ => false,
        }
    }

    /// Reads the next part of a word: a function, a spelled-out letter, or a single letter.
    pub(super) fn letters(&mut self, word: &str) -> ScalarResult {
        let rest = word.get(self.cursor.offset()..).ok_or(ScalarError::NotScalar)?;
        if let Some((function, length)) = Function::at_start(rest) {
            self.take(word, length);
            return self.function(function);
        }
        if rest.starts_with("pi") && self.cursor.offset() + 2 == word.len() {
            self.take(word, 2);
            let node = self.builder.constant(Constant::Pi);
            self.stack.push_operand(node, LastOperand::Other);
            return Ok(());
        }
        if self.cursor.is_at_token_start() && LETTER_NAMES.contains(&word) {
            self.cursor.advance();
            return self.named(word);
        }
        // Longer words are prose, unless they are abbreviations.
        if self.cursor.is_at_token_start() && word == "not" {
            return Err(ScalarError::NotScalar);
        }
        let is_mixed = word.len() < 6 && word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
        let is_prose = word.len() > MAX_LETTERS
            && !is_mixed
            && !has_no_vowel(word)
            && !word.bytes().all(|byte| byte.is_ascii_uppercase());
        if self.cursor.is_at_token_start() && is_prose && !contains_function(word) {
            return Err(ScalarError::NotScalar);
        }
        let letter = rest.chars().next().ok_or(ScalarError::NotScalar)?;
        self.take(word, letter.len_utf8());
        self.letter(letter)
    }

    /// Consumes bytes of the word at the cursor.
    fn take(&mut self, word: &str, bytes: usize) {
        self.cursor.consume(bytes, word.len());
    }

    /// The content of a `\text{}`.
    pub(super) fn label(&mut self, label: &str) -> ScalarResult {
        if let Some(function) = Function::named(label) {
            self.cursor.advance();
            return self.function(function);
        }
        if label.chars().nth(1).is_none() {
            self.cursor.advance();
            return self.letter(label.chars().next().ok_or(ScalarError::NotScalar)?);
        }
        Err(ScalarError::NotScalar)
    }

    fn letter(&mut self, letter: char) -> ScalarResult {
        if is_script_of_words(letter) {
            return Err(ScalarError::NotScalar);
        }
        let has_subscript =
            self.cursor.is_at_token_start() && matches!(self.cursor.peek(), Some(TokenKind::Symbol('_' | '\'')));
        let is_bound = self.bound.iter().any(|bound| bound.chars().eq([letter]));
        match letter {
            'e' if !has_subscript => {
                let node = self.builder.constant(Constant::E);
                self.stack.push_operand(node, LastOperand::Other);
                Ok(())
            }
            'i' if !has_subscript && !is_bound => {
                let node = self.builder.constant(Constant::I);
                self.stack.push_operand(node, LastOperand::Other);
                Ok(())
            }
            letter => self.named(letter.encode_utf8(&mut [0; 4])),
        }
    }

    /// Reads what follows a name: primes, a subscript, or an argument.
    pub(super) fn named(&mut self, name: &str) -> ScalarResult {
        let mut name = name.to_owned();
        if !self.cursor.is_at_token_start() {
            return self.symbol(&name);
        }
        if name == "C" && self.combinations() {
            return Ok(());
        }
        while self.cursor.peek() == Some(&TokenKind::Symbol('\'')) {
            name.push('\'');
            self.cursor.advance();
        }
        if let Some((order, end)) = self.order() {
            name.push_str(&order);
            self.cursor.jump(end);
        }
        let mut at = self.cursor.at();
        // `x _1`
        let subscript = self.cursor.after_spaces(at);
        if self.cursor.kind(subscript) == Some(&TokenKind::Symbol('_')) {
            at = subscript;
        }
        let mut after_power = false;
        if self.cursor.peek() == Some(&TokenKind::Symbol('^'))
            && let Some(next) = self.argument_end(self.cursor.at() + 1)
            && self.cursor.kind(next) == Some(&TokenKind::Symbol('_'))
        {
            (at, after_power) = (next, true);
        }
        if self.cursor.kind(at) == Some(&TokenKind::Symbol('_')) {
            let begin = at + 1;
            let end = self.argument_end(begin).ok_or(ScalarError::NotScalar)?;
            let inner = self.cursor.tokens().trimmed(begin..end);
            if !after_power && self.is_index(inner.clone()) {
                let name = self.builder.name(&format!("{name}_"));
                self.open(inner, end, OnClose::Apply(name));
                return Ok(());
            }
            name.push('_');
            name.push_str(&text::canonical(self.cursor.tokens(), inner));
            if after_power {
                self.cursor.skip_later(at..end);
            } else {
                self.cursor.jump(end);
            }
        }
        if self.is_inverse(&name) {
            name.push_str("^-1");
        }
        if self.is_application(&name) {
            let name = self.builder.name(&name);
            self.cursor.skip_spaces();
            return self.bracket(OnClose::Apply(name));
        }
        self.symbol(&name)
    }

    pub(super) fn symbol(&mut self, name: &str) -> ScalarResult {
        if self.cursor.tokens().is_bold(name) {
            self.builder.mark_as_matrix(name);
        }
        let node = self.builder.symbol(name);
        self.stack.push_operand(node, LastOperand::Other);
        Ok(())
    }

    /// The end of the argument that begins at `at`.
    pub(super) fn argument_end(&self, at: usize) -> Option<usize> {
        match self.cursor.kind(at)? {
            TokenKind::GroupOpen => self.cursor.partner(at).map(|close| close + 1),
            TokenKind::Numeral(_) | TokenKind::Word(_) | TokenKind::Label(_) | TokenKind::Command(_) => Some(at + 1),
            _ => None,
        }
    }
}
