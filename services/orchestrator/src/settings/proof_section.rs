//! Section `proof`.

use evenkeel_proto::FieldError;

use super::section::section;

/// Maximum number of sequences of a proof, and of tokens of each: its cost is to be negligible compared with a step.
const MOST: u32 = 1024;

section! {
    /// Section `proof`: whether the engines have the weights that they say they have. After an update the learner and every engine score
    /// the same fixed, random tokens; the run ends where they disagree, or where an engine's scores do not change while the learner's do.
    pub struct ProofSettings {
        /// Check the weights before the first step and then at this interval in steps; 0 for never.
        every: u64 = 1,
        /// Sequences to score: 1 to 1024.
        sequences: u32 = 16,
        /// Tokens of each, at most the model's context less one: 2 to 1024.
        tokens: u32 = 16,
        /// Largest mean difference between the log-probabilities of learner and engine, in nats and above 0; one token may differ ten times
        /// as much. Absent: 0.01 where learner, published weights and the embedded engine all have f32, 0.25 elsewhere.
        tolerance: Option<f64> = None,
    }
}

impl ProofSettings {
    /// The tolerance where a type narrower than f32 may be involved.
    pub const DEFAULT_TOLERANCE: f64 = 0.25;

    pub(super) fn validate(&self) -> Result<(), FieldError> {
        let within = |field: &str, value: u32, least: u32| match (least..=MOST).contains(&value) {
            true => Ok(()),
            false => Err(FieldError::new(field, value, format!("{least} to {MOST}"))),
        };
        within("sequences", self.sequences, 1)?;
        within("tokens", self.tokens, 2)?;
        match self.tolerance {
            Some(tolerance) if !(tolerance.is_finite() && tolerance > 0.0) => {
                Err(FieldError::new("tolerance", tolerance, "a finite number above 0, or absent"))
            }
            _ => Ok(()),
        }
    }
}
