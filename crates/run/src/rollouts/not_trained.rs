//! Why a sample was not trained on.

use evenkeel_proto::Label;

/// Why the learner did not train on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotTrained {
    /// Dynamic sampling dropped its group.
    Filtered,
    /// The sample was generated and has no verdict.
    Invalid,
    /// The sample or its verdict took too long.
    Late,
    /// The sample could not be generated.
    Failed,
    /// The sample was cut off, and `shaping.mask_truncated` leaves such samples out.
    Masked,
    /// All rewards of its group are equal, or its own is the group's mean.
    ZeroAdvantage,
    /// The rule gives it no weight.
    ZeroWeight,
    /// The update that took it was skipped.
    UpdateSkipped,
}

impl Label for NotTrained {
    const ALL: &'static [Self] = &[
        Self::Filtered,
        Self::Invalid,
        Self::Late,
        Self::Failed,
        Self::Masked,
        Self::ZeroAdvantage,
        Self::ZeroWeight,
        Self::UpdateSkipped,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Filtered => "filtered",
            Self::Invalid => "invalid",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Masked => "masked",
            Self::ZeroAdvantage => "zero_advantage",
            Self::ZeroWeight => "zero_weight",
            Self::UpdateSkipped => "update_skipped",
        }
    }
}

impl NotTrained {
    pub fn words(self) -> &'static str {
        match self {
            Self::Filtered => "its group was filtered: all rewards are equal",
            Self::Invalid => "it has no verdict",
            Self::Late => "it was late",
            Self::Failed => "it could not be generated",
            Self::Masked => "it was cut off (shaping.mask_truncated)",
            Self::ZeroAdvantage => "its advantage is 0",
            Self::ZeroWeight => "the rule gives it no weight",
            Self::UpdateSkipped => "the update was skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_of_their_own() {
        for &reason in NotTrained::ALL {
            assert_eq!(NotTrained::from_label(reason.label()), Some(reason));
        }
    }
}
