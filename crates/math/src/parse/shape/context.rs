//! The state shared by the parsers of shapes: tokens, fuel and nesting depth.

use super::Read;
use crate::parse::structure::Tokens;
use crate::{Fuel, OutOfFuel};

/// Deepest nesting of shapes.
const MAX_DEPTH: usize = 24;

/// The state of parsing one answer.
pub(in crate::parse) struct Context<'t, 'a, 'f> {
    tokens: &'t Tokens<'a>,
    fuel: &'f mut Fuel,
    depth: usize,
    /// Whether a single letter after a number and a space is a unit: `36 s`.
    pub(in crate::parse) letters_are_units: bool,
}

impl<'t, 'a, 'f> Context<'t, 'a, 'f> {
    pub(in crate::parse) fn new(tokens: &'t Tokens<'a>, fuel: &'f mut Fuel) -> Self {
        Self { tokens, fuel, depth: 0, letters_are_units: false }
    }

    pub(super) fn tokens(&self) -> &'t Tokens<'a> {
        self.tokens
    }

    pub(super) fn fuel(&mut self) -> &mut Fuel {
        self.fuel
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), OutOfFuel> {
        self.fuel.spend(steps)
    }

    /// Parses one level deeper. `None` at the deepest level.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_DEPTH {
            return Ok(None);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
}
