//! The bound of a check: steps instead of time, so that the same pair ends the same way on every machine.

/// Steps of reading or comparing an item of a list, beside those of its tokens and digits.
pub(crate) const ITEM: usize = 32;

/// Steps that are left to one check. A step is about the work of one token, some tens of nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fuel(u64);

/// A check took more steps than it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of fuel")]
pub struct OutOfFuel;

impl Fuel {
    /// That many steps.
    pub fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// Takes steps. Once there are too few, none are left at all, so that a later and smaller demand fails too.
    pub fn spend(&mut self, steps: usize) -> Result<(), OutOfFuel> {
        let left = u64::try_from(steps).ok().and_then(|steps| self.0.checked_sub(steps));
        self.0 = left.unwrap_or(0);
        left.map(|_| ()).ok_or(OutOfFuel)
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_gone() {
        let mut fuel = Fuel::new(10);
        assert_eq!(fuel.spend(4), Ok(()));
        assert_eq!(fuel.left(), 6);
        assert_eq!(fuel.spend(7), Err(OutOfFuel));
        assert_eq!(fuel.spend(1), Err(OutOfFuel));
    }
}
