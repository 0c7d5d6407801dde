//! Section `data.word_problems`: which of the generated problems for pretrained models are asked.

use std::collections::BTreeSet;

use evenkeel_data::{ProblemDifficulty, ProblemKind};
use evenkeel_proto::FieldError;

use super::section::section;

section! {
    /// Section `data.word_problems`: the problems of `data.kind = "word-problems"`. Each kind is a data source of its
    /// own.
    pub struct WordProblemsSettings {
        /// Which kinds: `sum`, `difference`, `product`, `gain`, `loss`, `boxes`, `largest`, `steps`. Every step asks
        /// each of them alike.
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
}
