//! What a plan is made for.

use std::fmt;

use super::CudnnError;

/// The shape of attention, as a plan has it: room for so many sequences of at most so many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttentionShape {
    /// Sequences.
    pub sequences: usize,
    /// Tokens of the longest.
    pub longest: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub dim: usize,
}

/// A pass of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttentionPass {
    /// Output and logarithms of the denominators.
    Forward,
    /// Gradients. Those of queries are added up in the order in which blocks happen to end.
    Backward,
    /// Gradients, the same bits each time, for workspace that grows with the square of the length.
    DeterministicBackward,
}

impl AttentionPass {
    /// Whether gradients of queries are added up in memory.
    pub(super) fn sums_dq(self) -> bool {
        self == Self::Backward
    }

    fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::DeterministicBackward => "deterministic-backward",
        }
    }
}

impl fmt::Display for AttentionPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AttentionShape {
    /// Whether several query heads read the same keys.
    pub(super) fn shares_keys(&self) -> bool {
        self.heads != self.kv_heads
    }

    /// Refuses what no plan is made for.
    pub(super) fn check(&self) -> Result<(), CudnnError> {
        let wrong = |what, value, allowed: &str| Err(CudnnError::Shape { what, value, allowed: allowed.into() });
        if self.sequences == 0 || self.sequences > 1 << 20 {
            return wrong("sequences of attention", self.sequences, "1 to 1048576");
        }
        if self.longest == 0 || self.longest > 1 << 20 {
            return wrong("tokens of the longest sequence", self.longest, "1 to 1048576");
        }
        if self.dim != 64 && self.dim != 128 {
            return wrong("width of a head", self.dim, "64 or 128");
        }
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return wrong("key heads", self.kv_heads, &format!("a divisor of the {} query heads", self.heads));
        }
        Ok(())
    }
}

impl fmt::Display for AttentionShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequences, longest, heads, kv_heads, dim } = self;
        write!(f, "{sequences}x{longest}-heads-{heads}-{kv_heads}-dim-{dim}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_without_a_plan_are_refused_by_name() {
        let shape = AttentionShape { sequences: 4, longest: 2048, heads: 28, kv_heads: 4, dim: 128 };
        assert!(shape.check().is_ok());
        let refused = |shape: AttentionShape| shape.check().unwrap_err().to_string();
        assert_eq!(refused(AttentionShape { dim: 96, ..shape }), "width of a head is 96, allowed: 64 or 128");
        assert_eq!(
            refused(AttentionShape { kv_heads: 5, ..shape }),
            "key heads is 5, allowed: a divisor of the 28 query heads"
        );
        assert!(refused(AttentionShape { sequences: 0, ..shape }).starts_with("sequences of attention is 0"));
        assert!(refused(AttentionShape { longest: 0, ..shape }).starts_with("tokens of the longest sequence is 0"));
    }
}
