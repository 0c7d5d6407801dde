//! The shapes that a library makes plans for.

use evenkeel_errors::FieldError;

use std::fmt;

/// Tokens of the shortest sequence that a plan has room for.
const SHORTEST: usize = 128;
/// Bytes of workspace that a library may need for any pass.
const WORKSPACE: usize = 1 << 20;
/// Most sequences of a plan, and most tokens of one.
const MOST: usize = 1 << 20;

/// The shape that a library makes a plan for: room for this many sequences of at most this many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FusedShape {
    pub sequences: usize,
    /// Tokens of the longest.
    pub longest: usize,
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub dim: usize,
}

/// A pass of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FusedPass {
    /// Output and logarithms of the denominators.
    Forward,
    /// Gradients. Those of queries are added up in the order in which blocks happen to end, so that last bits differ
    /// from call to call.
    Backward,
    /// Gradients, the same bits each time, for workspace that grows with the square of the length.
    DeterministicBackward,
}

impl FusedPass {
    /// Whether gradients of queries are added up in memory.
    pub fn sums_dq(self) -> bool {
        self == Self::Backward
    }
}

impl fmt::Display for FusedPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::DeterministicBackward => "deterministic-backward",
        })
    }
}

impl FusedShape {
    /// The widths of a head that the library takes.
    pub const WIDTHS: [usize; 2] = [64, 128];

    /// Whether several query heads read the same keys.
    pub fn shares_keys(&self) -> bool {
        self.heads != self.kv_heads
    }

    /// Refuses what no plan is made for.
    ///
    /// # Errors
    /// No sequence, one without tokens, too many of either, heads of another width, or key heads that the query heads
    /// cannot share evenly.
    pub fn validate(&self) -> Result<(), FieldError> {
        for (what, value) in
            [("sequences of attention", self.sequences), ("tokens of the longest sequence", self.longest)]
        {
            if value == 0 || value > MOST {
                return Err(FieldError::new(what, value, format!("1 to {MOST}")));
            }
        }
        if !Self::WIDTHS.contains(&self.dim) {
            return Err(FieldError::new("width of a head", self.dim, Self::WIDTHS.map(|w| w.to_string()).join(" or ")));
        }
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            let allowed = format!("a divisor of the {} query heads", self.heads);
            return Err(FieldError::new("key heads", self.kv_heads, allowed));
        }
        Ok(())
    }

    /// Few numbers of sequences and lengths, so that few plans serve all micro-batches: powers of two, and halfway
    /// between them.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self { sequences: rounded_up(self.sequences), longest: rounded_up(self.longest).max(SHORTEST), ..self }
    }

    /// The most bytes of workspace that a pass takes: what a deterministic one keeps of each query and key in bf16, and
    /// a little.
    pub fn workspace(&self, pass: FusedPass) -> usize {
        WORKSPACE + if pass == FusedPass::DeterministicBackward { self.sequences * self.of_sequence() } else { 0 }
    }

    /// How many sequences a deterministic pass may have with so much workspace; 0 if one is too many.
    pub fn sequences_within(&self, workspace: usize) -> usize {
        rounded_down(workspace.saturating_sub(WORKSPACE) / self.of_sequence().max(1))
    }

    /// Sequences of each call, at most `most`, that together are `count` and need no empty ones: each has a number that
    /// [`rounded_up`](Self::rounded_up) keeps, so that few plans still serve all micro-batches.
    pub fn calls_without_empty_sequences(count: usize, most: usize) -> Vec<usize> {
        let mut left = count;
        let next = || {
            let call = rounded_down(left.min(most));
            left -= call;
            (call > 0).then_some(call)
        };
        std::iter::from_fn(next).collect()
    }

    fn of_sequence(&self) -> usize {
        2 * self.heads * self.longest.next_multiple_of(128).pow(2)
    }
}

impl fmt::Display for FusedShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequences, longest, heads, kv_heads, dim } = self;
        write!(f, "{sequences}x{longest}-heads-{heads}-{kv_heads}-dim-{dim}")
    }
}

/// The smallest of 1, 2, 3, 4, 6, 8, 12, 16, ... that is not less.
fn rounded_up(number: usize) -> usize {
    let power = number.next_power_of_two();
    let between = power / 4 * 3;
    if between >= number && between > 0 { between } else { power }
}

/// The largest number of that series that is not more; 0 for 0.
fn rounded_down(number: usize) -> usize {
    let power = number.checked_ilog2().map_or(0, |power| 1 << power);
    if power + power / 2 <= number { power + power / 2 } else { power }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SHAPE: FusedShape = FusedShape { sequences: 3, longest: 300, heads: 4, kv_heads: 2, dim: 64 };

    #[test]
    fn shapes_without_a_plan_are_refused_by_name() {
        let shape = FusedShape { sequences: 4, longest: 2048, heads: 28, kv_heads: 4, dim: 128 };
        assert!(shape.validate().is_ok());
        let refused = |shape: FusedShape| shape.validate().unwrap_err().to_string();
        assert_eq!(refused(FusedShape { dim: 96, ..shape }), "width of a head is 96, allowed: 64 or 128");
        assert_eq!(
            refused(FusedShape { kv_heads: 5, ..shape }),
            "key heads is 5, allowed: a divisor of the 28 query heads"
        );
        assert!(refused(FusedShape { sequences: 0, ..shape }).starts_with("sequences of attention is 0"));
        assert!(refused(FusedShape { longest: 0, ..shape }).starts_with("tokens of the longest sequence is 0"));
    }

    #[test]
    fn calls_without_empty_sequences_have_all_sequences_in_few_plans() {
        for count in 0..200 {
            for most in [1, 2, 5, 12, 64, 1000] {
                let calls = FusedShape::calls_without_empty_sequences(count, most);
                assert_eq!(calls.iter().sum::<usize>(), count, "{count} by {most}");
                assert!(
                    calls.iter().all(|&call| call <= most && rounded_up(call) == call),
                    "{count} by {most}: {calls:?}"
                );
            }
        }
        assert_eq!(FusedShape::calls_without_empty_sequences(7, 100), [6, 1]);
        assert_eq!(FusedShape::calls_without_empty_sequences(29, 24), [24, 4, 1]);
    }

    #[test]
    fn rounding_up_leaves_room_for_all_wastes_less_than_half_and_is_done_once() {
        let mut distinct = BTreeSet::new();
        let mut last = 0;
        for number in 1..=40_000 {
            let rounded = rounded_up(number);
            assert!(rounded >= number && 2 * rounded < 3 * number + 2, "{number}: {rounded}");
            assert!(rounded >= last && rounded_up(rounded) == rounded, "{number}: {rounded}");
            last = rounded;
            distinct.insert(rounded);
        }
        // Two for each power of two.
        assert!(distinct.len() <= 2 * 17, "{distinct:?}");
        let shape = SHAPE.rounded_up();
        assert_eq!(shape, FusedShape { longest: 384, ..SHAPE });
        assert_eq!(
            FusedShape { longest: 1, sequences: 5, ..SHAPE }.rounded_up(),
            FusedShape { longest: 128, sequences: 6, ..SHAPE }
        );
    }

    #[test]
    fn as_many_sequences_fit_as_their_workspace_allows() {
        let shape = FusedShape { longest: 4096, heads: 16, ..SHAPE };
        // 512 MiB each.
        let sequences_within = |workspace| shape.sequences_within(workspace);
        assert_eq!(
            [sequences_within(0), sequences_within(512 << 20), sequences_within(513 << 20), sequences_within(4 << 30)],
            [0, 0, 1, 6]
        );
        for workspace in (0..40usize).map(|n| n << 28) {
            let sequences = sequences_within(workspace);
            if sequences > 0 {
                let room = FusedShape { sequences, ..shape }.rounded_up();
                assert!(room.workspace(FusedPass::DeterministicBackward) <= workspace, "{sequences} in {workspace}");
            }
        }
    }
}
