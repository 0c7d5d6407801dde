//! What a verdict means: whether it stands, and what may be done where it does not.

use crate::v1::{FieldViolation, InvalidReason, Outcome, Verdict};
use crate::{FieldError, Label};

/// Most components of a verdict.
const MAX_COMPONENTS: usize = 32;
/// Longest name of a component.
const MAX_COMPONENT_NAME: usize = 64;
/// Components that are not the verifier's: its reward, and the penalty that a run has for length.
const RESERVED: [&str; 2] = ["correctness", "length"];

/// Whether a component may be called this: 1 to 64 letters, digits, `_`, `-` and `.`.
#[must_use]
pub fn is_component_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_COMPONENT_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

impl Outcome {
    /// Whether the verdict is about the sample, so that it has a reward.
    pub fn is_verdict(self) -> bool {
        !matches!(self, Self::Unspecified | Self::Invalid)
    }

    /// Whether the answer is *correct*, as the glossary has it; `None` without a verdict, and where nobody says so.
    /// Accuracy is the mean of this.
    pub fn correct(self) -> Option<bool> {
        (self.is_verdict() && self != Self::Scored).then_some(self == Self::Correct)
    }
}

impl Verdict {
    /// A verdict that stands.
    pub fn judged(id: impl Into<String>, outcome: Outcome, reason_code: impl Into<String>, reward: f64) -> Self {
        debug_assert!(outcome.is_verdict(), "an outcome without a verdict has no reward");
        let outcome = outcome.into();
        Self { id: id.into(), outcome, reason_code: reason_code.into(), reward: Some(reward), ..Self::default() }
    }

    /// No verdict, for a reason that is not the sample's own.
    pub fn invalid(id: impl Into<String>, reason: InvalidReason, detail: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            outcome: Outcome::Invalid.into(),
            invalid_reason: reason.into(),
            reason_code: reason.label().to_owned(),
            detail: detail.into(),
            ..Self::default()
        }
    }

    /// No verdict, since the item breaks the protocol.
    pub fn refused(id: impl Into<String>, error: FieldError) -> Self {
        let detail = error.to_string();
        Self { violations: vec![FieldViolation::from(error)], ..Self::invalid(id, InvalidReason::BadRequest, detail) }
    }

    /// Why there is no verdict, as text: the code of a reward function or a judge, or the label of the reason, with the
    /// detail where there is one.
    pub fn reason_with_detail(&self) -> String {
        let of_judge = || self.judge_failure().map(Label::label);
        let label = self.no_reward().map(Label::label).or_else(of_judge);
        let label = label.unwrap_or_else(|| self.invalid_reason().label());
        match (label, self.detail.as_str()) {
            (label, "") => label.to_owned(),
            (label, detail) => format!("{label}: {detail}"),
        }
    }

    /// Whether the verdict stands, so that the sample counts.
    pub fn is_valid(&self) -> bool {
        self.outcome().is_verdict()
    }

    /// Whether the message is one that a verifier may send: an outcome, a reward from 0 to 1 exactly where it is a
    /// verdict, and components from -1 to 1. With the outcome SCORED they may be any finite numbers.
    pub fn validate(&self) -> Result<(), FieldError> {
        self.validate_reward()?;
        if self.components.len() > MAX_COMPONENTS {
            let found = format!("{} components", self.components.len());
            return Err(FieldError::new("components", found, format!("at most {MAX_COMPONENTS}")));
        }
        for (name, value) in &self.components {
            if !is_component_name(name) {
                let allowed = format!("letters, digits, `_`, `-` and `.`, at most {MAX_COMPONENT_NAME}");
                return Err(FieldError::new("components", format_args!("the name {name:?}"), allowed));
            }
            let field = || format!("components.{name}");
            if RESERVED.contains(&name.as_str()) {
                return Err(FieldError::new(field(), value, "absent, since it is not the verifier's"));
            }
            if !self.is_valid() {
                return Err(FieldError::new(field(), value, "absent where the outcome is INVALID"));
            }
            let is_free = self.outcome() == Outcome::Scored && value.is_finite();
            if !is_free && !(-1.0..=1.0).contains(value) {
                return Err(FieldError::new(field(), value, "-1 to 1"));
            }
        }
        Ok(())
    }

    fn validate_reward(&self) -> Result<(), FieldError> {
        let known = Outcome::try_from(self.outcome).is_ok_and(|outcome| outcome != Outcome::Unspecified);
        if !known {
            return Err(FieldError::new("outcome", self.outcome, "a known outcome"));
        }
        match (self.is_valid(), self.reward) {
            (true, Some(reward)) if self.outcome() == Outcome::Scored && reward.is_finite() => Ok(()),
            (true, Some(reward)) if (0.0..=1.0).contains(&reward) => self.validate_agreement(reward),
            (true, Some(reward)) => Err(FieldError::new("reward", reward, "0 to 1")),
            (true, None) => Err(FieldError::missing("reward", "0 to 1")),
            (false, Some(reward)) => Err(FieldError::new("reward", reward, "absent where the outcome is INVALID")),
            (false, None) if self.invalid_reason() == InvalidReason::Unspecified => Err(FieldError::new(
                "invalid_reason",
                self.invalid_reason,
                "a known reason where the outcome is INVALID",
            )),
            (false, None) => Ok(()),
        }
    }
}

impl Verdict {
    /// A verdict that contradicts itself is a defect of the verifier, and neither half of it is to be trained on.
    /// Between both ends a reward may be a share of the tests.
    fn validate_agreement(&self, reward: f64) -> Result<(), FieldError> {
        let outcome = self.outcome();
        let Some(correct) = outcome.correct() else { return Ok(()) };
        match (correct, reward) {
            (true, 0.0) => Err(FieldError::new("reward", reward, "above 0 where the outcome is CORRECT")),
            (false, 1.0) => Err(FieldError::new(
                "reward",
                reward,
                format!("below 1 where the outcome is {}", outcome.as_str_name()),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_worker_is_no_wrong_answer() {
        let verdict = Verdict::invalid("a", InvalidReason::WorkerLost, "connection reset");
        assert!(!verdict.is_valid());
        assert_eq!(verdict.reward, None);
        assert_eq!(verdict.reason_with_detail(), "worker_lost: connection reset");
        assert_eq!(Verdict { detail: String::new(), ..verdict.clone() }.reason_with_detail(), "worker_lost");
        let of_function = Verdict { reason_code: "reward_exception".to_owned(), ..verdict.clone() };
        assert_eq!(of_function.reason_with_detail(), "reward_exception: connection reset");
        assert_eq!(verdict.validate(), Ok(()));
    }

    #[test]
    fn an_answer_is_correct_where_its_verdict_says_so_and_unknown_where_it_only_has_a_score() {
        use Outcome::{Correct, Incorrect, Invalid, NoAnswer, Scored, Undecided, Unspecified};
        let known = [(Correct, true), (Incorrect, false), (NoAnswer, false), (Undecided, false)];
        assert!(known.into_iter().all(|(outcome, correct)| outcome.correct() == Some(correct)));
        assert!([Scored, Invalid, Unspecified].into_iter().all(|outcome| outcome.correct().is_none()));
    }

    #[test]
    fn verdict_and_reward_go_together() {
        let good = Verdict::judged("a", Outcome::Correct, "equal_integer", 1.0);
        assert_eq!(good.validate(), Ok(()));
        let refused = |verdict: Verdict| verdict.validate().unwrap_err().field;
        assert_eq!(refused(Verdict { reward: None, ..good.clone() }), "reward");
        assert_eq!(refused(Verdict { reward: Some(1.5), ..good.clone() }), "reward");
        assert_eq!(refused(Verdict { outcome: 99, ..good.clone() }), "outcome");
        assert_eq!(refused(Verdict { outcome: Outcome::Invalid.into(), ..good.clone() }), "reward");
        assert_eq!(refused(Verdict { outcome: Outcome::Invalid.into(), reward: None, ..good }), "invalid_reason");
    }

    #[test]
    fn a_verdict_that_contradicts_itself_is_refused() {
        for outcome in
            [Outcome::Incorrect, Outcome::NoAnswer, Outcome::Undecided, Outcome::WrongAnswer, Outcome::TimeLimit]
        {
            let error = Verdict::judged("a", outcome, "x", 1.0).validate().unwrap_err();
            assert_eq!((error.field.as_str(), error.value.as_str()), ("reward", "1"));
            assert!(error.allowed.contains(outcome.as_str_name()), "{error}");
            for share in [0.0, 0.5, 0.999] {
                assert_eq!(Verdict::judged("a", outcome, "x", share).validate(), Ok(()));
            }
        }
        for reward in [0.0, 0.5, 1.0, -3.5, 1e9] {
            let scored = Verdict::judged("a", Outcome::Scored, "x", reward);
            assert_eq!(scored.validate(), Ok(()), "it says nothing of that");
            let components = [("style".to_owned(), reward)].into();
            assert_eq!(Verdict { components, ..scored }.validate(), Ok(()));
        }
        assert!(Verdict::judged("a", Outcome::Scored, "x", f64::INFINITY).validate().is_err());
        assert!(Verdict::judged("a", Outcome::Correct, "x", 0.0).validate().is_err());
        assert!(Verdict::judged("a", Outcome::Correct, "x", -0.0).validate().is_err());
        assert_eq!(Verdict::judged("a", Outcome::Correct, "x", 0.3).validate(), Ok(()));
    }

    #[test]
    fn components_are_finite_parts_with_plain_names_that_are_the_verifiers_own() {
        let good = Verdict::judged("a", Outcome::Correct, "fine", 1.0);
        let with = |name: &str, value: f64| {
            let components = [(name.to_owned(), value)].into();
            Verdict { components, ..good.clone() }.validate().map_err(|error| error.to_string())
        };
        assert_eq!((with("style", -1.0), with("format", 0.5)), (Ok(()), Ok(())));
        for (name, value, words) in [
            ("style", f64::NAN, "components.style is NaN, allowed: -1 to 1"),
            ("style", 1.01, "components.style is 1.01, allowed: -1 to 1"),
            ("correctness", 1.0, "components.correctness is 1, allowed: absent"),
            ("length", 0.0, "components.length is 0, allowed: absent"),
            ("a b", 0.0, "components is the name \"a b\", allowed: letters"),
            ("", 0.0, "components is the name \"\", allowed: letters"),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let many = (0..33).map(|number| (number.to_string(), 0.0)).collect();
        assert!(Verdict { components: many, ..good }.validate().is_err());
        let components = [("style".to_owned(), 0.0)].into();
        assert!(Verdict { components, ..Verdict::invalid("a", InvalidReason::Internal, "") }.validate().is_err());
    }

    #[test]
    fn a_refusal_carries_its_field() {
        let verdict = Verdict::refused("a", FieldError::missing("math.gold", "a gold answer"));
        assert_eq!(verdict.detail, "math.gold is absent, required: a gold answer");
        assert_eq!(verdict.violations[0].field, "math.gold");
    }
}
