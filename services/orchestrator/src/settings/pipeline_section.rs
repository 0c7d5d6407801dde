//! Section `pipeline`.

use evenkeel_proto::FieldError;

use super::SamplingSettings;
use super::engines::Engines;
use super::section::section;

/// Largest `max_lag`: so many published versions are kept for a resume, and so many steps of rollouts may wait.
const MOST: u32 = 16;

section! {
    /// Section `pipeline`: sampling ahead of training. The groups of a step are sampled by the weights of `max_lag` steps before it, whatever
    /// takes how long, so that engines sample while the learner trains and the run still replays to the bit.
    #[derive(Copy)]
    pub struct PipelineSettings {
        /// Steps between the weights that sample a step and those that it trains: 0 to 16. 0 alternates sampling and training; 1 keeps two
        /// devices busy; more evens out steps of unequal length.
        max_lag: u32 = 0,
    }
}

impl PipelineSettings {
    pub(super) fn validate_with(&self, sampling: &SamplingSettings) -> Result<(), FieldError> {
        if self.max_lag > MOST {
            return Err(FieldError::new("max_lag", self.max_lag, format!("0 to {MOST}")));
        }
        let asleep = match sampling.engines_while_training {
            Engines::Awake => return Ok(()),
            Engines::Offload => "offload",
            Engines::Discard => "discard",
        };
        if self.max_lag == 0 {
            return Ok(());
        }
        let allowed = format!(
            "0 with sampling.engines_while_training = \"{asleep}\": engines that sleep while the learner trains cannot sample ahead of it \
             (awake engines can)"
        );
        Err(FieldError::new("max_lag", self.max_lag, allowed))
    }
}
