//! From what a verifier says of an answer to what becomes of its sample.

use super::bare::is_bare;
use super::correct::CorrectRules;
use super::sample::{SampleStatus, VerdictDetail};
use super::shaping::Shaping;
use super::verification::VerificationOutcome;
use crate::settings::LoopSettings;

/// The rules of a run for answers that were judged.
pub(crate) struct Judging {
    shaping: Shaping,
    correct: CorrectRules,
}

/// An answer, and who judged it.
pub(crate) struct JudgedAnswer<'a> {
    /// As the verifier got it.
    pub(crate) text: &'a str,
    /// Sampled tokens of the response.
    pub(crate) tokens: usize,
    /// The custom verifier that judged it, if any.
    pub(crate) verifier: Option<&'a str>,
    /// Whether its environment did.
    pub(crate) is_of_environment: bool,
}

impl Judging {
    pub(crate) fn new(settings: &LoopSettings) -> Self {
        let shaping = Shaping::new(&settings.shaping, &settings.sampling);
        Self { shaping, correct: CorrectRules::new(&settings.data) }
    }

    /// The status of a sample with that verification, the details of its verdict, and the attempts after the first.
    pub(crate) fn judged(
        &self,
        verification: VerificationOutcome,
        answer: &JudgedAnswer<'_>,
    ) -> (SampleStatus, VerdictDetail, u32) {
        match verification {
            VerificationOutcome::Verdict { reward, detail, retries } => {
                let bare = || is_bare(answer.text, detail.extracted.as_deref());
                let (rewards, components) = self.shaping.rewards(&reward, answer.tokens, bare);
                let outcome = self.correct.outcome(answer.verifier, answer.is_of_environment, &reward);
                (SampleStatus::Valid { outcome, rewards, components }, detail, retries)
            }
            VerificationOutcome::Invalid { reason, code, retries, late } => {
                let detail = VerdictDetail { reason: code, ..VerdictDetail::default() };
                (SampleStatus::Invalid { reason, late }, detail, retries)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::Outcome;

    use super::*;

    #[test]
    fn an_answer_that_nobody_judges_has_a_reward_of_0_and_counts_in_no_accuracy() {
        let answer = JudgedAnswer { text: "2", tokens: 1, verifier: None, is_of_environment: false };
        let judging = Judging::new(&LoopSettings::default());
        let (status, ..) = judging.judged(VerificationOutcome::unjudged(), &answer);
        let SampleStatus::Valid { outcome, rewards, .. } = status else { panic!("{status:?}") };
        assert_eq!((outcome, outcome.correct(), rewards.raw, rewards.shaped), (Outcome::Scored, None, 0.0, 0.0));
    }
}
