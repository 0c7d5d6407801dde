//! Scores of the same tokens, and how far they are apart.

/// Log-probabilities of all tokens of the proof, in order.
pub(super) type TokenScores = Vec<f32>;

/// How far scores are apart.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Gap {
    /// The mean difference without its sign.
    pub(super) mean: f64,
    /// The largest.
    pub(super) max: f64,
}

impl Gap {
    /// The gap between scores of the same tokens. A value that is no number is infinitely far away.
    pub(super) fn between(a: &[f32], b: &[f32]) -> Self {
        let mut gap = Self::default();
        for (&a, &b) in a.iter().zip(b) {
            let apart = (f64::from(a) - f64::from(b)).abs();
            let apart = if apart.is_nan() { f64::INFINITY } else { apart };
            gap.mean += apart;
            gap.max = gap.max.max(apart);
        }
        gap.mean /= a.len().max(1) as f64;
        gap
    }
}

/// How much of a movement (`from` to `to`) scores follow that were at `theirs_from` and are at `theirs_to`: 1 for all of it, 0 for none. The
/// slope of their changes over its own, which noise in single tokens hardly moves.
pub(super) fn share_followed(from: &[f32], to: &[f32], theirs_from: &[f32], theirs_to: &[f32]) -> f64 {
    let (mut along, mut square) = (0.0, 0.0);
    for (((&from, &to), &theirs_from), &theirs_to) in from.iter().zip(to).zip(theirs_from).zip(theirs_to) {
        let moved = f64::from(to) - f64::from(from);
        along += moved * (f64::from(theirs_to) - f64::from(theirs_from));
        square += moved * moved;
    }
    if square > 0.0 { along / square } else { 1.0 }
}
