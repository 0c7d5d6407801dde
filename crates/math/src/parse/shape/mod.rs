//! The shape of an answer: lists, relations, brackets, regions, matrices, quantities, and scalars at the leaves. Each level looks at its
//! tokens a fixed number of times, and there is a bound on levels.

mod list;
mod matrix;
mod quantity;
mod region;
mod relation;
mod special;

use std::ops::Range;

use super::scalar::{self, PlusMinus};
use super::structure::Tokens;
use super::token::Kind;
use super::{ParseError, number, text};
use crate::{Fuel, Text, Tuple, Value};

/// Shapes within shapes.
const MAX_DEPTH: usize = 24;

/// Reads tokens as values.
pub(super) struct Shaper<'t, 'a, 'f> {
    pub(super) tokens: &'t Tokens<'a>,
    pub(super) fuel: &'f mut Fuel,
    pub(super) depth: usize,
}

type Read<T = Value> = Result<Option<T>, ParseError>;

impl<'t, 'a> Shaper<'t, 'a, '_> {
    /// What these tokens are; text where they are nothing else.
    pub(super) fn value(&mut self, range: Range<usize>) -> Result<Value, ParseError> {
        let range = self.without_lead(range);
        if range.is_empty() {
            return Err(ParseError::Empty);
        }
        self.fuel.spend(4 + range.len() * 6)?;
        if self.depth >= MAX_DEPTH {
            return self.text(range);
        }
        self.depth += 1;
        let value = self.shape(range.clone());
        self.depth -= 1;
        match value? {
            Some(value) => Ok(value),
            None => self.text(range),
        }
    }

    fn shape(&mut self, range: Range<usize>) -> Read {
        if let Some(number) = number::read(self.tokens, range.clone(), self.fuel)? {
            return Ok(Some(Value::Number(number)));
        }
        if range.len() == 1 {
            // A single token is nothing that is made of others.
            return match self.special(range.clone())? {
                Some(value) => Ok(Some(value)),
                None => self.scalar(range),
            };
        }
        if let Some(value) = self.list(range.clone())? {
            return Ok(Some(value));
        }
        self.item(range)
    }

    /// One item of a list.
    fn item(&mut self, range: Range<usize>) -> Read {
        if let Some(value) = self.relation(range.clone())? {
            return Ok(Some(value));
        }
        self.member(range)
    }

    /// One side of a relation.
    fn member(&mut self, range: Range<usize>) -> Read {
        if let Some(number) = number::read(self.tokens, range.clone(), self.fuel)? {
            return Ok(Some(Value::Number(number)));
        }
        // The rest costs more than one look.
        if let Some(value) = self.special(range.clone())? {
            return Ok(Some(value));
        }
        if let Some(value) = self.ratio(range.clone())? {
            return Ok(Some(value));
        }
        if let Some(value) = self.region(range.clone())? {
            return Ok(Some(value));
        }
        if let Some(value) = self.bracket(range.clone())? {
            return Ok(Some(value));
        }
        if let Some(value) = self.matrix(range.clone())? {
            return Ok(Some(value));
        }
        self.quantity(range)
    }

    /// A scalar; with `±` in it, both that are meant.
    fn scalar(&mut self, range: Range<usize>) -> Read {
        if let Some(number) = number::read(self.tokens, range.clone(), self.fuel)? {
            return Ok(Some(Value::Number(number)));
        }
        if self.is_prose(range.clone()) {
            return Ok(None);
        }
        let Some(plus) = scalar::read(self.tokens, range.clone(), PlusMinus::Plus, self.fuel)? else { return Ok(None) };
        let is_both = range.clone().any(|at| matches!(self.tokens.kind(at), Kind::Command("pm" | "mp")));
        if !is_both {
            return Ok(Some(simple(Value::Expr(plus))));
        }
        let Some(minus) = scalar::read(self.tokens, range, PlusMinus::Minus, self.fuel)? else { return Ok(None) };
        Ok(Some(Value::List(vec![simple(Value::Expr(plus)), simple(Value::Expr(minus))])))
    }

    /// Words and nothing else: `navy` is no product of letters, and neither is what stands in a `\text{}`.
    fn is_prose(&self, range: Range<usize>) -> bool {
        let mut words = 0;
        let mut letters = 0;
        for at in range {
            match self.tokens.kind(at) {
                Kind::Space | Kind::Symbol('.' | '-' | '\'') => {}
                Kind::Label(label) if label.chars().nth(1).is_some() => words += 2,
                Kind::Label(_) => {}
                Kind::Word(word) => {
                    words += usize::from(
                        (word.len() > 2 || is_short_word(word))
                            && crate::expr::Function::at_start(word).is_none()
                            && *word != "pi",
                    );
                    letters += word.len();
                }
                _ => return false,
            }
        }
        words > 0 && letters != 1
    }

    /// `(…)`, `[…]`, `{…}` and `⟨…⟩` around everything.
    fn bracket(&mut self, range: Range<usize>) -> Read {
        let Kind::Open(open) = *self.tokens.kind(range.start) else { return Ok(None) };
        if self.tokens.partner(range.start, range.end) != Some(range.end - 1) {
            return Ok(None);
        }
        let Kind::Close(close) = *self.tokens.kind(range.end - 1) else { return Ok(None) };
        let inner = self.tokens.trimmed(range.start + 1..range.end - 1);
        match (open, close) {
            ('{', '}') if inner.is_empty() => Ok(Some(Value::Set(Vec::new()))),
            ('{', '}') => self.set(inner).map(Some),
            ('(' | '[' | '⟨', ')' | ']' | '⟩') => {
                if inner.is_empty() {
                    return Ok(None);
                }
                let Some(items) = self.tokens.items(inner.clone()) else {
                    return self.enclosed(inner);
                };
                let items = items.into_iter().map(|item| self.value(item)).collect::<Result<Vec<_>, _>>()?;
                Ok(Some(Value::Tuple(Tuple { open, close, items })))
            }
            _ => Ok(None),
        }
    }

    /// A single item in parentheses, which say nothing about it unless it is a factor.
    fn enclosed(&mut self, mut inner: Range<usize>) -> Read {
        // Parentheses within parentheses are taken off all at once.
        while inner.len() > 2
            && *self.tokens.kind(inner.start) == Kind::Open('(')
            && self.tokens.partner(inner.start, inner.end) == Some(inner.end - 1)
            && *self.tokens.kind(inner.end - 1) == Kind::Close(')')
            && *self.tokens.kind(inner.start + 1) == Kind::Open('(')
        {
            inner = self.tokens.stripped(inner.start + 1..inner.end - 1);
        }
        if self.depth >= MAX_DEPTH {
            return Ok(None);
        }
        self.depth += 1;
        let value = self.item(inner);
        self.depth -= 1;
        Ok(value?.filter(|value| !matches!(value, Value::Text(_))))
    }

    /// The items of a set; of one that is described, its condition.
    fn set(&mut self, inner: Range<usize>) -> Result<Value, ParseError> {
        let is_bar = |kind: &Kind<'_>| matches!(kind, Kind::Symbol(':' | '|') | Kind::Command("mid"));
        if let Some(bar) = self.tokens.find(inner.clone(), is_bar)
            && self.tokens.find(inner.clone(), |kind| *kind == Kind::Symbol(',')).is_none_or(|comma| comma > bar)
            && bar > inner.start
            && bar + 1 < inner.end
        {
            let condition = self.value(self.tokens.trimmed(bar + 1..inner.end))?;
            if matches!(condition, Value::Relation(_)) {
                return Ok(condition);
            }
        }
        let items = match self.tokens.items(inner.clone()) {
            Some(items) => items.into_iter().map(|item| self.value(item)).collect::<Result<Vec<_>, _>>()?,
            None => vec![self.value(inner)?],
        };
        Ok(Value::Set(list::flattened(list::continued(items))))
    }

    /// Without signs in front that only announce what follows, and without a broken end.
    fn without_lead(&self, range: Range<usize>) -> Range<usize> {
        let mut range = self.tokens.trimmed(range);
        while range.start < range.end
            && matches!(
                self.tokens.kind(range.start),
                Kind::Symbol('=' | ':') | Kind::Command("approx" | "therefore" | "Rightarrow" | "implies" | "\\")
            )
        {
            range = self.tokens.trimmed(range.start + 1..range.end);
        }
        while range.end > range.start
            && matches!(self.tokens.kind(range.end - 1), Kind::Symbol('\\' | ',' | ';' | ':') | Kind::Command("\\"))
        {
            range = self.tokens.trimmed(range.start..range.end - 1);
        }
        range
    }

    fn text(&mut self, range: Range<usize>) -> Result<Value, ParseError> {
        let text = text::canonical(self.tokens, range);
        if text.is_empty() { Err(ParseError::Empty) } else { Ok(special::meant(text)) }
    }
}

/// Words of two letters that are hardly products of them.
fn is_short_word(word: &str) -> bool {
    ["no", "on", "or", "in", "if", "of", "to", "is", "it", "up", "so"]
        .iter()
        .any(|short| word.eq_ignore_ascii_case(short))
}

/// An expression that is one number is a number.
fn simple(value: Value) -> Value {
    match value {
        Value::Expr(expr) => match expr.root() {
            crate::expr::Node::Literal(number) if expr.len() == 1 => Value::Number(number.clone()),
            _ => Value::Expr(expr),
        },
        value => value,
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}
