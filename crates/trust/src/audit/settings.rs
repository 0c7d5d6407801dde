//! Section `sampler_audit` of a recipe.

use evenkeel_errors::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selection::NONCES;

/// Most samples of a step that are audited.
const MOST: u32 = 1024;

/// What a failed check does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditMode {
    /// A failed check ends the run before the step changes any weights.
    #[default]
    Stop,
    /// A failed check is logged once for each engine and check.
    Warn,
    /// Nothing is checked.
    Off,
}

/// Section `sampler_audit`: whether samples are drawn as the settings say. The learner scores a few samples of each
/// step, chosen by a secret number of the step before anything is known about them; temperature, truncation, end
/// tokens, log-probabilities, rows of the head, copies and preferred answers are tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerAuditSettings {
    /// What a failed check does: `stop` ends the run before the step changes any weights, `warn` logs it, `off` checks
    /// nothing.
    pub mode: AuditMode,
    /// Samples of a step that the learner scores, on average: 1 to 1024. Each sequence that is sampled for a step,
    /// also in place of one that was left out, is chosen with the same chance, this number over `prompts_per_step`
    /// times `group_size`. As many answers of an evaluation are chosen, at least 16 on average.
    pub sequences: u32,
    /// One step in this many is audited if samples may be older than the learner's weights (`pipeline.max_lag` above
    /// 0), since the learner then reads a second copy of the weights for them. Which steps these are is secret, too.
    /// With a lag of 0 every step is audited. At least 1.
    pub every: u64,
    /// The number that decides which samples are audited, below 2^53, for tests. Absent: each step draws one that
    /// nobody can foretell, and its line of metrics has it afterwards. With a fixed one the run stays undecided: an
    /// engine that knows the number could be honest in the audited samples alone.
    pub nonce: Option<u64>,
    /// Chance that an honest run is accused, over all steps, checks and engines: above 0 and below 1.
    pub alpha: f64,
}

impl Default for SamplerAuditSettings {
    fn default() -> Self {
        Self { mode: AuditMode::Stop, sequences: 8, every: 4, nonce: None, alpha: 4e-4 }
    }
}

impl SamplerAuditSettings {
    /// Refuses values that are out of range.
    ///
    /// # Errors
    /// The first such field.
    pub fn validate(&self) -> Result<(), FieldError> {
        if !(1..=MOST).contains(&self.sequences) {
            return Err(FieldError::new("sequences", self.sequences, format!("1 to {MOST}")));
        }
        if self.every == 0 {
            return Err(FieldError::new("every", self.every, "at least 1"));
        }
        if let Some(nonce) = self.nonce.filter(|nonce| *nonce >= NONCES) {
            return Err(FieldError::new("nonce", nonce, format!("0 to {}", NONCES - 1)));
        }
        FieldError::ensure(self.alpha > 0.0 && self.alpha < 1.0, "alpha", self.alpha, "a number above 0 and below 1")
    }
}
