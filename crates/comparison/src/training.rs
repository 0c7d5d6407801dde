//! What is measured at each training step besides the reward: the quantities that the paper plots.

use evenkeel_run::metric::table as metric;
use serde::{Deserialize, Serialize};

/// A quantity of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Training {
    /// Policy-gradient loss, mean over the step's updates.
    Loss,
    /// Coefficient of variation of lengths within a group, mean over groups.
    LengthVariation,
    /// How many tokens longer answers with a negative advantage are than those with a positive one in their group, mean
    /// over groups that have both.
    LengthGap,
    /// Coefficient of variation of all lengths of the step.
    LengthVariationPooled,
    /// Mean length of the step's wrong answers minus that of its right ones, tokens.
    LengthGapPooled,
}

impl Training {
    /// Every quantity, in the order in which they are reported.
    pub const ALL: [Self; 5] =
        [Self::Loss, Self::LengthVariation, Self::LengthGap, Self::LengthVariationPooled, Self::LengthGapPooled];

    /// Name of the quantity in a run's metrics and in `compare.csv`.
    pub fn metric(self) -> &'static str {
        match self {
            Self::Loss => metric::POLICY_LOSS.name,
            Self::LengthVariation => metric::LENGTH_VARIATION.name,
            Self::LengthGap => metric::LENGTH_GAP.name,
            Self::LengthVariationPooled => metric::LENGTH_VARIATION_POOLED.name,
            Self::LengthGapPooled => metric::LENGTH_GAP_POOLED.name,
        }
    }

    /// The title of its figure.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Loss => "Policy-gradient loss",
            Self::LengthVariation => "Length variation",
            Self::LengthGap => "Length gap",
            Self::LengthVariationPooled => "Length variation, pooled",
            Self::LengthGapPooled => "Length gap, pooled",
        }
    }

    /// What its figure shows.
    pub(crate) fn caption(self) -> &'static str {
        match self {
            Self::Loss => "Mean over the updates of a step, over seeds: above 0 where wrong answers pull more",
            Self::LengthVariation => "Coefficient of variation within a group, mean over groups and seeds",
            Self::LengthGap => {
                "Answers with a negative minus those with a positive advantage, within a group, mean over groups and seeds"
            }
            Self::LengthVariationPooled => "Coefficient of variation over all answers of a step, mean over seeds",
            Self::LengthGapPooled => "Wrong minus right answers over a whole step, mean over seeds",
        }
    }

    /// What is on the y axis.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::LengthVariation | Self::LengthVariationPooled => "deviation / mean",
            Self::LengthGap | Self::LengthGapPooled => "tokens",
        }
    }

    /// Whether it is the other reading of a quantity that the paper does not define: pooled over the step.
    pub(crate) fn is_pooled(self) -> bool {
        matches!(self, Self::LengthVariationPooled | Self::LengthGapPooled)
    }
}
