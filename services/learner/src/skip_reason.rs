//! Why an update is skipped.

use std::fmt;

/// Why an update changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The loss was NaN or infinite.
    NonFiniteLoss,
    /// The norm of the gradient was NaN or infinite.
    NonFiniteGradient,
}

impl SkipReason {
    /// A short, stable name for metrics and reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NonFiniteLoss => "non_finite_loss",
            Self::NonFiniteGradient => "non_finite_gradient",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
