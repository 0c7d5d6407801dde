//! Queries and keys, normalised and rotated.

/// Queries or keys that a forward pass kept.
pub(super) enum Rotated<M> {
    /// Values without a norm, as attention reads them.
    Plain(M),
    /// Values as projected, which the norm's backward pass reads, and as attention reads them.
    Normed { raw: M, rotated: Option<M> },
}

/// Queries or keys as attention reads them, and as projected if they have a norm.
pub(super) type WithRaw<M> = (M, Option<M>);

impl<M> Rotated<M> {
    pub(super) fn new((rotated, raw): WithRaw<M>) -> Self {
        match raw {
            Some(raw) => Self::Normed { raw, rotated: Some(rotated) },
            None => Self::Plain(rotated),
        }
    }

    pub(super) fn without_cheap(self) -> Self {
        match self {
            Self::Normed { raw, .. } => Self::Normed { raw, rotated: None },
            plain => plain,
        }
    }
}
