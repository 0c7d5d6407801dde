//! Sizes as people read them.

use std::fmt;

/// Bytes, displayed in the largest unit of which there is at least one: `512 bytes`, `64.0 MiB`, `1.5 TiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// In GiB, without the unit, for numbers that stand below each other: `0.1`, `64.0`.
    pub fn in_gib(self) -> String {
        format!("{:.1}", self.0 as f64 / (1u64 << 30) as f64)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| self.0 >> shift > 0) {
            Some((shift, unit)) => write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_largest_unit_of_which_there_is_one() {
        let sizes =
            [0, 1023, 1024, 1 << 20, (3 << 30) + (1 << 29), 12 << 40, u64::MAX].map(|bytes| Size(bytes).to_string());
        assert_eq!(
            [100 << 20, (3 << 30) + (1 << 29), 2 << 40].map(|bytes| Size(bytes).in_gib()),
            ["0.1", "3.5", "2048.0"]
        );
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1.0 KiB", "1.0 MiB", "3.5 GiB", "12.0 TiB", "16777216.0 TiB"]);
    }
}
