//! Which answers are correct: by the rule of the settings for who judged them, or else by the verdict.

use std::collections::BTreeMap;

use evenkeel_proto::v1::Outcome;

use super::shaping::VerdictReward;
use crate::settings::{CorrectRule, DataSettings, VerifierSettings};

/// The rules of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct CorrectRules {
    verifiers: BTreeMap<String, CorrectRule>,
    environments: Option<CorrectRule>,
}

impl CorrectRules {
    pub(super) fn new(data: &DataSettings) -> Self {
        let rule = |(name, verifier): (&String, &VerifierSettings)| Some((name.clone(), verifier.correct.clone()?));
        Self {
            verifiers: data.verifiers.iter().filter_map(rule).collect(),
            environments: data.environment_correct.clone(),
        }
    }

    /// The outcome of a verdict, which says whether the answer is correct. `verifier` is the custom one that judged the
    /// answer, if any.
    pub(super) fn outcome(&self, verifier: Option<&str>, is_of_environment: bool, verdict: &VerdictReward) -> Outcome {
        let rule = match (is_of_environment, verifier) {
            (true, _) => self.environments.as_ref(),
            (false, Some(name)) => self.verifiers.get(name),
            (false, None) => None,
        };
        rule.map_or(verdict.outcome, |rule| rule.outcome(verdict.outcome, verdict.raw, &verdict.components))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LoopSettings;

    #[test]
    fn a_rule_is_that_of_who_judged_the_answer_and_without_one_the_verdict_stands() {
        let mut settings = LoopSettings::default();
        let correct = Some(CorrectRule::Reward(0.5));
        let verifier = VerifierSettings { correct, ..VerifierSettings::default() };
        settings.data.verifiers = [("words".to_owned(), verifier), ("other".to_owned(), Default::default())].into();
        settings.data.environment_correct = Some(CorrectRule::Reward(0.25));
        let rules = CorrectRules::new(&settings.data);
        let is_correct = |verifier: Option<&str>, is_of_environment: bool, raw: f64| {
            let verdict = VerdictReward { outcome: Outcome::Incorrect, raw, components: BTreeMap::new() };
            rules.outcome(verifier, is_of_environment, &verdict).correct()
        };
        assert_eq!(
            (is_correct(Some("words"), false, 0.6), is_correct(Some("words"), false, 0.3)),
            (Some(true), Some(false))
        );
        assert_eq!((is_correct(Some("other"), false, 0.6), is_correct(None, false, 0.6)), (Some(false), Some(false)));
        assert_eq!((is_correct(Some("words"), true, 0.3), is_correct(None, true, 0.2)), (Some(true), Some(false)));
    }
}
