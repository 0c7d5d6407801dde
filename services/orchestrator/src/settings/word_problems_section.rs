//! Section `data.word_problems`: which of the generated problems for pretrained models are asked.

use std::collections::BTreeSet;

use evenkeel_proto::FieldError;
use evenkeel_tasks::{Difficulty, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::section;

/// A kind of generated problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// `What is 12 + 7?`
    Sum,
    /// `What is 12 - 7?`
    Difference,
    /// `What is 3 * 7?`
    Product,
    /// Somebody has some and gets more.
    Gain,
    /// Somebody has some and gives some away.
    Loss,
    /// Boxes with as many things in each.
    Boxes,
    /// The largest of some numbers.
    Largest,
    /// Several changes, one after the other.
    Steps,
}

impl ProblemKind {
    /// All but `steps`, in which one answer takes several sums.
    pub(crate) const USUAL: [Self; 7] =
        [Self::Sum, Self::Difference, Self::Product, Self::Gain, Self::Loss, Self::Boxes, Self::Largest];

    pub(crate) const fn of_tasks(self) -> Kind {
        match self {
            Self::Sum => Kind::Sum,
            Self::Difference => Kind::Difference,
            Self::Product => Kind::Product,
            Self::Gain => Kind::Gain,
            Self::Loss => Kind::Loss,
            Self::Boxes => Kind::Boxes,
            Self::Largest => Kind::Largest,
            Self::Steps => Kind::Steps,
        }
    }
}

/// How hard generated problems are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemDifficulty {
    /// Numbers up to 30; 2 or 3 steps.
    #[default]
    Easy,
    /// Numbers of two digits; 2 to 4 steps.
    Medium,
    /// Numbers of up to three digits; 3 to 6 steps.
    Hard,
}

impl ProblemDifficulty {
    pub(crate) const fn of_tasks(self) -> Difficulty {
        match self {
            Self::Easy => Difficulty::Easy,
            Self::Medium => Difficulty::Medium,
            Self::Hard => Difficulty::Hard,
        }
    }
}

section! {
    /// Section `data.word_problems`: the problems of `data.kind = "word-problems"`. Each kind is a data source of its own.
    pub struct WordProblemsSettings {
        /// Which kinds: `sum`, `difference`, `product`, `gain`, `loss`, `boxes`, `largest`, `steps`. Every step asks each of them alike.
        kinds: Vec<ProblemKind> = ProblemKind::USUAL.to_vec(),
        /// How large numbers are, and how many steps there are.
        difficulty: ProblemDifficulty = ProblemDifficulty::Easy,
    }
}

impl WordProblemsSettings {
    /// Refuses no kind, one twice, and problems that are not asked.
    pub(super) fn validate_with(&self, is_used: bool) -> Result<(), FieldError> {
        let usual = Self::default();
        for (field, is_set) in
            [("kinds", self.kinds != usual.kinds), ("difficulty", self.difficulty != usual.difficulty)]
        {
            FieldError::ensure(is_used || !is_set, field, "set", "absent without data.kind = \"word-problems\"")?;
        }
        let different: BTreeSet<_> = self.kinds.iter().collect();
        let allowed = "at least one kind, each once";
        let good = !self.kinds.is_empty() && different.len() == self.kinds.len();
        FieldError::ensure(good, "kinds", format_args!("a list of {}", self.kinds.len()), allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_asked_once_and_only_where_problems_are_generated() {
        let refused =
            |settings: WordProblemsSettings, is_used| settings.validate_with(is_used).unwrap_err().to_string();
        let kinds = |kinds: &[ProblemKind]| WordProblemsSettings { kinds: kinds.to_vec(), ..Default::default() };
        assert_eq!(refused(kinds(&[]), true), "kinds is a list of 0, allowed: at least one kind, each once");
        assert!(refused(kinds(&[ProblemKind::Sum, ProblemKind::Sum]), true).starts_with("kinds is a list of 2"));
        let elsewhere = refused(kinds(&[ProblemKind::Steps]), false);
        assert_eq!(elsewhere, "kinds is set, allowed: absent without data.kind = \"word-problems\"");
        assert!(WordProblemsSettings::default().validate_with(false).is_ok());
    }

    #[test]
    fn a_kind_has_one_name_in_settings_and_in_metrics() {
        for kind in ProblemKind::USUAL.into_iter().chain([ProblemKind::Steps]) {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.of_tasks().name());
        }
    }
}
