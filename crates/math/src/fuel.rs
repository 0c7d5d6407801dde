//! The work bound of a check, counted in steps and not in time, so that a pair has the same verdict on every machine.

/// Steps for reading or comparing a list item, in addition to those of its tokens and digits.
pub(crate) const ITEM: usize = 32;

/// Remaining steps of one check. A step is about the work of one token, some tens of nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fuel(u64);

/// A check exceeded its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of fuel")]
pub struct OutOfFuel;

impl Fuel {
    /// Fuel of this many steps.
    pub fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// Uses up steps. After a failure nothing is left, so that a later, smaller request fails too.
    pub fn spend(&mut self, steps: usize) -> Result<(), OutOfFuel> {
        let left = u64::try_from(steps).ok().and_then(|steps| self.0.checked_sub(steps));
        self.0 = left.unwrap_or(0);
        left.map(|_| ()).ok_or(OutOfFuel)
    }

    /// Number of remaining steps.
    pub fn left(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spent_fuel_does_not_come_back() {
        let mut fuel = Fuel::new(10);
        assert_eq!(fuel.spend(4), Ok(()));
        assert_eq!(fuel.left(), 6);
        assert_eq!(fuel.spend(7), Err(OutOfFuel));
        assert_eq!(fuel.spend(1), Err(OutOfFuel));
    }
}
