//! Section `pipeline`.

use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EnginesWhileTraining;
use super::PolicySamplingSettings;
use super::section::section;

/// Largest `max_lag`: as many published versions are kept for a resume, and as many steps of rollouts may wait.
const MAX_LAG: u32 = 16;

/// Which groups a step takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepOrder {
    /// The next ones of the data order, no matter which finish first: the run replays.
    #[default]
    Data,
    /// Groups that are complete first: the run does not replay.
    Completion,
}

section! {
    /// Section `pipeline`: sampling ahead of training. The groups of a step are sampled with the weights of `max_lag`
    /// steps before it, regardless of timing, so that engines sample while the learner trains and the run still replays
    /// to the bit.
    #[derive(Copy)]
    pub struct PipelineSettings {
        /// Number of steps between the weights that sample a step and those that it trains: 0 to 16. 0 alternates
        /// sampling and training; 1 keeps two devices busy; more evens out steps of unequal length.
        max_lag: u32 = 0,
        /// Groups of a step, the last ones in the data order, that are sampled with the next weights: those of
        /// `max_lag` - 1 steps before it. 0 to `sampling.prompts_per_step` - 1.
        split: u32 = 0,
        /// Long responses are sampled with several weights versions, one after the other: the engines switch in the
        /// middle of them instead of waiting for them to end.
        partial: bool = false,
        /// Maximum number of weights versions that sample parts of one response with `partial`: 2 to `max_lag` + 1, one
        /// less with a split. Each samples `sampling.max_tokens` / `max_versions` tokens, rounded up.
        max_versions: u32 = 2,
        /// Which groups a step takes: `data`, the next ones of the data order, or `completion`, those that are complete
        /// first. The latter is for throughput: the run does not replay, `max_lag` is the maximum lag of the weights,
        /// and no group is dropped.
        order: StepOrder = StepOrder::Data,
    }
}

impl PipelineSettings {
    /// Tokens that each version but the last samples of a response, where several may sample one of `max_tokens`.
    pub fn segment_tokens(&self, max_tokens: u32) -> Option<u32> {
        self.partial.then(|| max_tokens.div_ceil(self.max_versions.clamp(1, u8::MAX.into())))
    }

    /// What the user should know about it before the run starts.
    pub(crate) fn note(&self) -> Option<String> {
        (self.order == StepOrder::Completion).then(|| {
            "steps take the groups that are complete first (pipeline.order = \"completion\"): the run does not replay, \
             and short answers come in earlier steps than long ones; none is dropped"
                .to_owned()
        })
    }

    pub(super) fn validate_with(&self, sampling: &PolicySamplingSettings) -> Result<(), FieldError> {
        if self.max_lag > MAX_LAG {
            return Err(FieldError::new("max_lag", self.max_lag, format!("0 to {MAX_LAG}")));
        }
        self.validate_order()?;
        self.validate_engines(sampling)?;
        self.validate_split(sampling)?;
        self.validate_partial(sampling)
    }

    fn validate_order(&self) -> Result<(), FieldError> {
        if self.order == StepOrder::Data {
            return Ok(());
        }
        let with = match (self.max_lag, self.split, self.partial) {
            (0, ..) => "pipeline.max_lag = 0: a group can only wait for a later step where it may be older than that"
                .to_owned(),
            (_, split @ 1.., _) => {
                format!("pipeline.split = {split}: no group has weights of its own in order of completion")
            }
            (.., true) => {
                "pipeline.partial = true: in order of completion every response continues with the newest weights"
                    .to_owned()
            }
            _ => return Ok(()),
        };
        Err(FieldError::new("order", "\"completion\"", format!("\"data\" with {with}")))
    }

    fn validate_engines(&self, sampling: &PolicySamplingSettings) -> Result<(), FieldError> {
        let asleep = match sampling.engines_while_training {
            EnginesWhileTraining::Awake => return Ok(()),
            EnginesWhileTraining::Offload => "offload",
            EnginesWhileTraining::Discard => "discard",
        };
        if self.max_lag == 0 {
            return Ok(());
        }
        let allowed = format!(
            "0 with sampling.engines_while_training = \"{asleep}\": engines that sleep while the learner trains cannot \
             sample ahead of it (awake engines can)"
        );
        Err(FieldError::new("max_lag", self.max_lag, allowed))
    }

    fn validate_split(&self, sampling: &PolicySamplingSettings) -> Result<(), FieldError> {
        let groups = sampling.prompts_per_step;
        let allowed = match self.split {
            0 => return Ok(()),
            _ if self.max_lag == 0 => {
                "0 with pipeline.max_lag = 0: all groups of a step are then sampled with its own weights".to_owned()
            }
            split if split >= groups => {
                let most = groups.saturating_sub(1);
                format!(
                    "0 to {most} with sampling.prompts_per_step = {groups}: no group would be left for the previous \
                    weights"
                )
            }
            _ => return Ok(()),
        };
        Err(FieldError::new("split", self.split, allowed))
    }

    fn validate_partial(&self, sampling: &PolicySamplingSettings) -> Result<(), FieldError> {
        let lag = self.max_lag;
        let split = self.split;
        let versions = self.max_versions;
        if !self.partial {
            return if versions == Self::default().max_versions {
                Ok(())
            } else {
                Err(FieldError::new("max_versions", versions, "absent without pipeline.partial = true"))
            };
        }
        // A split needs weights of its own for the first part of the later responses.
        let (most, with_split) = match split {
            0 => (lag + 1, String::new()),
            _ => (lag, format!(" and pipeline.split = {split}")),
        };
        if most < 2 {
            let allowed = format!("false with pipeline.max_lag = {lag}{with_split}: there are no weights to switch to");
            return Err(FieldError::new("partial", true, allowed));
        }
        if !(2..=most).contains(&versions) {
            let allowed = format!("2 to {most} with pipeline.max_lag = {lag}{with_split}");
            return Err(FieldError::new("max_versions", versions, allowed));
        }
        if versions > sampling.max_tokens {
            let allowed = format!("at most sampling.max_tokens = {}", sampling.max_tokens);
            return Err(FieldError::new("max_versions", versions, allowed));
        }
        if !sampling.dynamic {
            return Ok(());
        }
        // The next step begins with the prompt after the last one that was tried. By then the engines have the last
        // weights of this one.
        let why = "the first prompts of a step are known when the last weights of the previous step sample";
        match (split, versions) {
            (0, 2) => Ok(()),
            (0, _) => Err(FieldError::new("max_versions", versions, format!("2 with sampling.dynamic: {why}"))),
            _ => Err(FieldError::new("split", split, format!("0 with pipeline.partial and sampling.dynamic: {why}"))),
        }
    }
}
