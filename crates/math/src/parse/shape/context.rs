//! What every reader of a shape shares: the tokens, the fuel, and how deep shapes are nested.

use super::Read;
use crate::parse::structure::Tokens;
use crate::{Fuel, OutOfFuel};

/// Deepest nesting of shapes.
const MAX_DEPTH: usize = 24;

/// The state of reading one answer.
pub(in crate::parse) struct Context<'t, 'a, 'f> {
    tokens: &'t Tokens<'a>,
    fuel: &'f mut Fuel,
    depth: usize,
}

impl<'t, 'a, 'f> Context<'t, 'a, 'f> {
    pub(in crate::parse) fn new(tokens: &'t Tokens<'a>, fuel: &'f mut Fuel) -> Self {
        Self { tokens, fuel, depth: 0 }
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

    /// Reads one level deeper. `None` at the deepest.
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
