//! Names: letters, words, subscripts, primes and accents.

use super::frame::OnClose;
use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::expr::{Constant, Function, Node};
use crate::parse::text;
use crate::parse::token::TokenKind;

/// Words that spell a letter or constant.
const LETTER_NAMES: [&str; 34] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "vartheta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Sigma",
    "Phi",
    "Psi",
    "Omega",
    "hbar",
];

/// Commands that denote letters or symbols, besides those that words spell.
const LETTERS: &str = "Xi Pi Upsilon varsigma varrho varpi varkappa ell nabla partial aleph imath jmath prime hslash \
    wp square Box star bigstar ast diamond Diamond diamondsuit heartsuit clubsuit spadesuit dagger blacksquare";

/// Whether a command denotes a letter.
pub(in crate::parse) fn is_letter(command: &str) -> bool {
    LETTER_NAMES.contains(&command) || LETTERS.split_whitespace().any(|letter| letter == command)
}

/// Whether a character stands for a word or syllable, and for no variable: Chinese, Japanese, Korean.
pub(in crate::parse) fn is_script_of_words(character: char) -> bool {
    matches!(character, '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a word of a few letters has no vowel, so that it is a product: `pqrs`.
pub(in crate::parse) fn has_no_vowel(word: &str) -> bool {
    word.len() < 7 && word.is_ascii() && !word.bytes().any(|byte| b"aeiouyAEIOUY".contains(&byte))
}

/// Letters that denote functions before a parenthesis.
const FUNCTIONS: &str = "fghFGHPW";
/// Letters that are indices in a subscript.
const INDICES: &str = "ijkmn";
/// Longest word that is read as a product of its letters.
const MAX_LETTERS: usize = 3;

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

    /// `C_{10}^3` and `C^3_{10}`: the number of combinations. Nothing where the marks are no such numbers.
    fn combinations(&mut self) -> bool {
        let at = self.cursor.at();
        let number = |at: usize| {
            let inner = self.cursor.tokens().trimmed(at..self.argument_end(at)?);
            match self.cursor.kind(inner.start)? {
                TokenKind::Numeral(n) if inner.len() == 1 && n.is_digits() && n.integer.len() < 5 => {
                    n.integer.parse().ok()
                }
                _ => None,
            }
        };
        let Some(middle) = self.argument_end(at + 1) else { return false };
        let Some(end) = self.argument_end(middle + 1) else { return false };
        let (above, below): (Option<i64>, Option<i64>) = match (self.cursor.kind(at), self.cursor.kind(middle)) {
            (Some(TokenKind::Symbol('_')), Some(TokenKind::Symbol('^'))) => (number(at + 1), number(middle + 1)),
            (Some(TokenKind::Symbol('^')), Some(TokenKind::Symbol('_'))) => (number(middle + 1), number(at + 1)),
            _ => return false,
        };
        let (Some(above), Some(below)) = (above, below) else { return false };
        // `C_1^2` is the square of a constant.
        if below >= above {
            return false;
        }
        let above = self.builder.integer(above);
        let below = self.builder.integer(below);
        let node = self.builder.push(Node::Call2(Function::Binomial, above, below));
        self.stack.push_operand(node, LastOperand::Other);
        self.cursor.jump(end);
        true
    }

    fn symbol(&mut self, name: &str) -> ScalarResult {
        let node = self.builder.symbol(name);
        self.stack.push_operand(node, LastOperand::Other);
        Ok(())
    }

    /// The end of the argument that begins at `at`.
    fn argument_end(&self, at: usize) -> Option<usize> {
        match self.cursor.kind(at)? {
            TokenKind::GroupOpen => self.cursor.partner(at).map(|close| close + 1),
            TokenKind::Numeral(_) | TokenKind::Word(_) | TokenKind::Label(_) | TokenKind::Command(_) => Some(at + 1),
            _ => None,
        }
    }

    /// Whether a subscript is computed: an index letter, or a sum with one.
    fn is_index(&self, range: std::ops::Range<usize>) -> bool {
        let mut letters = range.clone().map(|at| self.cursor.tokens().kind(at));
        let is_letter =
            |kind: &TokenKind<'_>| matches!(kind, TokenKind::Word(word) if word.len() == 1 && INDICES.contains(word));
        range.len() == 1 && letters.clone().any(is_letter)
            || range.len() > 1
                && letters.clone().any(is_letter)
                && letters.any(|kind| matches!(kind, TokenKind::Symbol('+' | '-')))
    }

    /// Whether the following parenthesis holds an argument and not a factor.
    fn is_application(&self, name: &str) -> bool {
        // `f\left(2\right)` has white space before its bracket.
        let open = self.cursor.after_spaces(self.cursor.at());
        if !self.cursor.is_at_token_start() || self.cursor.kind(open) != Some(&TokenKind::Open('(')) {
            return false;
        }
        let Some(close) = self.cursor.partner(open) else { return false };
        let inner = self.cursor.tokens().stripped(open + 1..close);
        let base = name.trim_end_matches('\'');
        let base = base.trim_end_matches("^-1");
        let is_function = base.split('_').next().is_some_and(|base| base.len() == 1 && FUNCTIONS.contains(base));
        let is_zero = inner.len() == 1
            && matches!(self.cursor.kind(inner.start), Some(TokenKind::Numeral(n)) if n.integer == "0" && !n.point);
        is_function || is_zero || self.is_whole_application(inner, close)
    }

    /// Whether the inverse of a function is applied: `f^{-1}(2)`. Consumes its power.
    fn is_inverse(&mut self, name: &str) -> bool {
        if name.len() != 1 || !FUNCTIONS.contains(name) || self.cursor.peek() != Some(&TokenKind::Symbol('^')) {
            return false;
        }
        let Some(end) = self.argument_end(self.cursor.at() + 1) else { return false };
        let inner = self.cursor.tokens().trimmed(self.cursor.at() + 1..end);
        let is_minus_one = inner.len() == 2
            && self.cursor.kind(inner.start) == Some(&TokenKind::Symbol('-'))
            && matches!(self.cursor.kind(inner.start + 1), Some(TokenKind::Numeral(n)) if n.integer == "1" && !n.point);
        let is_applied = self.cursor.kind(self.cursor.after_spaces(end)) == Some(&TokenKind::Open('('));
        if is_minus_one && is_applied {
            self.cursor.jump(end);
        }
        is_minus_one && is_applied
    }

    /// Whether a name and a bracket with a number are all there is: `V(2)` is a value at 2, and no product.
    fn is_whole_application(&self, inner: std::ops::Range<usize>, close: usize) -> bool {
        let is_alone = self.stack.is_at_start() && self.cursor.after_spaces(close + 1) >= self.cursor.end();
        let sign = usize::from(self.cursor.kind(inner.start) == Some(&TokenKind::Symbol('-')));
        is_alone
            && inner.len() == 1 + sign
            && matches!(self.cursor.kind(inner.start + sign), Some(TokenKind::Numeral(_)))
    }

    /// `\hat{x}` is a name of its own.
    pub(super) fn accent(&mut self, accent: &str) -> ScalarResult {
        let at = self.cursor.after_spaces(self.cursor.at() + 1);
        let end = self.argument_end(at).ok_or(ScalarError::NotScalar)?;
        let inner = text::canonical(self.cursor.tokens(), at..end);
        self.cursor.jump(end);
        self.named(&format!("{accent}({inner})"))
    }

    /// `\frac{dy}{dx}` is a name of its own as well, and not a fraction from which d cancels. `false` if it is not a
    /// derivative.
    pub(super) fn derivative(&mut self) -> ScalarResult<bool> {
        let Some(above) = self.argument_end(self.cursor.at() + 1) else { return Ok(false) };
        let Some(below) = self.argument_end(above) else { return Ok(false) };
        let begins = |at: usize| {
            let mut at = at;
            while matches!(self.cursor.kind(at), Some(TokenKind::GroupOpen | TokenKind::Space)) {
                at += 1;
            }
            match self.cursor.kind(at) {
                Some(TokenKind::Word(word) | TokenKind::Label(word)) => word.starts_with('d'),
                Some(TokenKind::Command("partial")) => true,
                _ => false,
            }
        };
        let differential = |range: std::ops::Range<usize>| self.cursor.tokens().stripped(range).len() > 3;
        let is_long = |at: usize, end: usize| {
            differential(at..end) || matches!(self.cursor.kind(at + 1), Some(TokenKind::Word(word)) if word.len() > 1)
        };
        if !begins(self.cursor.at() + 1) || !begins(above) || !is_long(above, below) {
            return Ok(false);
        }
        let name = text::canonical(self.cursor.tokens(), self.cursor.at()..below);
        self.cursor.jump(below);
        self.symbol(&name)?;
        Ok(true)
    }
}

/// Whether a word mixes letters and functions, like `xsinx`.
fn contains_function(word: &str) -> bool {
    let tail = |at: usize| word.get(at..).is_some_and(|rest| Function::at_start(rest).is_some() || rest == "pi");
    (0..word.len().min(MAX_LETTERS)).any(tail)
}
