//! Section `sampler_audit`.

use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepOrder;
use super::section::section;

/// Most samples of a step that are audited.
const MOST: u32 = 1024;

/// What a failed check does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditMode {
    /// A failed check ends the run before the step changes any weights.
    #[default]
    Stop,
    /// A failed check is said once for each engine and check.
    Warn,
    /// Nothing is checked.
    Off,
}

section! {
    /// Section `sampler_audit`: whether samples are drawn as the settings say. The learner scores a few samples of each
    /// step, chosen by the run's seed before anything is known about them; temperature, truncation, end tokens,
    /// log-probabilities and copies are tested.
    pub struct SamplerAuditSettings {
        /// What a failed check does: `stop` ends the run before the step changes any weights, `warn` says it, `off`
        /// checks nothing.
        mode: AuditMode = AuditMode::Stop,
        /// Samples of a step that the learner scores, at most those of its first update: 1 to 1024.
        sequences: u32 = 8,
        /// Steps between audits where samples may be older than the learner's weights (`pipeline.max_lag` above 0),
        /// since the learner then reads a second copy of the weights for them; with a lag of 0 every step is audited.
        /// At least 1.
        every: u64 = 4,
        /// Chance that an honest run is accused, over all steps, checks and engines: above 0 and below 1.
        alpha: f64 = 4e-4,
    }
}

impl SamplerAuditSettings {
    /// Where no sample of a run can be audited: why.
    pub(crate) fn note(&self, order: StepOrder) -> Option<String> {
        let is_on = self.mode != AuditMode::Off && order == StepOrder::Completion;
        let why = "the sampler audit is not possible here: pipeline.order = \"completion\" chooses the samples of a \
            step by their lengths";
        is_on.then(|| why.to_owned())
    }

    pub(super) fn validate(&self) -> Result<(), FieldError> {
        if !(1..=MOST).contains(&self.sequences) {
            return Err(FieldError::new("sequences", self.sequences, format!("1 to {MOST}")));
        }
        if self.every == 0 {
            return Err(FieldError::new("every", self.every, "at least 1"));
        }
        match self.alpha > 0.0 && self.alpha < 1.0 {
            true => Ok(()),
            false => Err(FieldError::new("alpha", self.alpha, "a number above 0 and below 1")),
        }
    }
}
