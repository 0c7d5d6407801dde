//! The settings of the service.

use std::path::PathBuf;
use std::time::Duration;

use candle_core::DType;
use evenkeel_config::{ByteSize, HumanDuration, Settings};
use evenkeel_model::kernels::cpu::ARITHMETIC;
use evenkeel_proto::FieldError;
use evenkeel_rpc::items::ItemLimits;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::DiskPlan;
use crate::publish::PublishOptions;
use crate::ranks::Division;
use crate::settings::TrainingSettings;

/// The type of published weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PublishType {
    /// fp32.
    #[default]
    F32,
    /// bfloat16.
    Bf16,
    /// float16.
    F16,
}

/// The type of weights and moments in checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointType {
    /// fp32: a resumed run is bit-identical. 12 bytes per parameter.
    #[default]
    F32,
    /// bfloat16: half the disk space, but a resumed run differs, since weights and moments are rounded once.
    Bf16,
}

impl From<CheckpointType> for DType {
    fn from(kept: CheckpointType) -> Self {
        match kept {
            CheckpointType::F32 => DType::F32,
            CheckpointType::Bf16 => DType::BF16,
        }
    }
}

impl From<PublishType> for DType {
    fn from(published: PublishType) -> Self {
        match published {
            PublishType::F32 => DType::F32,
            PublishType::Bf16 => DType::BF16,
            PublishType::F16 => DType::F16,
        }
    }
}

/// The settings of the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerSettings {
    /// The gRPC server.
    pub server: ServerSettings,
    /// The Hugging Face folder of the initial model.
    pub model: PathBuf,
    /// The folder of checkpoints, which are in `RUN/step-N`.
    pub checkpoints: PathBuf,
    /// The folder of published weights, which are in `step-N`. It is made for its user alone; refused are a link, a
    /// folder of another user, and one that others may write to.
    pub weights: PathBuf,
    /// The type of published weights.
    pub publish_dtype: PublishType,
    /// The type of weights and moments in checkpoints.
    pub checkpoint_dtype: CheckpointType,
    /// Calls and items that may wait for the model; further ones are refused with RESOURCE_EXHAUSTED.
    pub queue: usize,
    /// Memory for items that wait to be scored and for scores that clients have not read yet. Not below
    /// `server.max_message`.
    pub max_memory: ByteSize,
    /// How long a training step that occupies the learner may wait for its next part, such as `5m`; then it is dropped,
    /// and nothing has changed.
    #[serde(with = "HumanDuration")]
    pub step_idle: Duration,
    /// How long an idle run keeps the learner, such as `10m`; until then no other run's checkpoint is loaded.
    #[serde(with = "HumanDuration")]
    pub lease: Duration,
    /// Largest number of groups, or examples, in one step.
    pub max_step_items: u32,
    /// The training settings.
    pub training: TrainingSettings,
    /// Whether all who read published weights are in this process, which then need not wait for the disk.
    #[serde(skip)]
    pub weights_read_here: bool,
    /// Whether checkpoints are written; a run that is only timed writes none.
    #[serde(skip)]
    pub keeps_checkpoints: bool,
    /// Whether the run's engines are known to stay awake while the learner trains. All memory that it needs of a GPU
    /// then has to be free at the start.
    #[serde(skip)]
    pub engines_stay_awake: bool,
}

impl Default for LearnerSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            model: PathBuf::new(),
            checkpoints: "checkpoints".into(),
            weights: "weights".into(),
            publish_dtype: PublishType::default(),
            checkpoint_dtype: CheckpointType::default(),
            queue: 4096,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            step_idle: Duration::from_secs(300),
            lease: Duration::from_secs(600),
            max_step_items: 1 << 20,
            training: TrainingSettings::default(),
            weights_read_here: false,
            keeps_checkpoints: true,
            engines_stay_awake: false,
        }
    }
}

impl LearnerSettings {
    /// What a run takes on disks that has `at_once` checkpoints and published versions at a time.
    pub(super) fn disk_plan(&self, parameters: u64, at_once: [Option<u64>; 2]) -> DiskPlan {
        let plan = DiskPlan::new(parameters, self.checkpoint_dtype, self.publish_dtype, at_once);
        if self.keeps_checkpoints { plan } else { DiskPlan { checkpoint: 0, ..plan } }
    }

    /// Why no run can begin: empty folders without room for the first of each. How many are kept is known only once a
    /// run begins. Rank 0 alone writes any.
    pub(super) fn full_disk(&self, parameters: u64, division: Division) -> Option<String> {
        let plan = self.disk_plan(parameters, [Some(1); 2]);
        (division.rank() == 0).then(|| plan.refusal(&self.checkpoints, &self.weights)).flatten()
    }

    /// How an engine computes, by name, that has the learner's log-probabilities to the bit once it has loaded what is
    /// published; `None` where no engine has them. Several ranks have the bits of one.
    pub fn arithmetic(&self) -> Option<&'static str> {
        let is_exact = self.training.compute.is_fp32_on_cpu() && self.publish_dtype == PublishType::F32;
        // Empty on processors on which the two differ.
        (is_exact && !ARITHMETIC.is_empty()).then_some(ARITHMETIC)
    }

    pub(super) fn publish_options(&self) -> PublishOptions {
        PublishOptions::for_engines(self.publish_dtype)
    }
}

impl Settings for LearnerSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.training.validate().map_err(|error| error.within("training"))?;
        if self.model.as_os_str().is_empty() {
            return Err(FieldError::new("model", "empty", "a Hugging Face folder"));
        }
        if self.queue == 0 {
            return Err(FieldError::new("queue", 0, "1 or more"));
        }
        let least = self.server.max_message;
        if self.max_memory < least {
            let allowed = format!("server.max_message, which is {least}, or more");
            return Err(FieldError::new("max_memory", self.max_memory, allowed));
        }
        if self.step_idle.is_zero() {
            return Err(FieldError::new("step_idle", "0s", "above 0s"));
        }
        if self.max_step_items == 0 {
            return Err(FieldError::new("max_step_items", 0, "1 or more"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rank_that_writes_checkpoints_is_refused_for_a_disk_without_room_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let [checkpoints, weights] = ["checkpoints", "weights"].map(|name| folder.path().join(name));
        let settings = LearnerSettings { checkpoints, weights, ..LearnerSettings::default() };
        // Weights take 4 bytes for each parameter, a checkpoint 12.
        let parameters = evenkeel_host::free_space(folder.path()).unwrap().free / 10;
        let [first, second] = [0, 1].map(|rank| settings.full_disk(parameters, Division::new(rank, 2)));
        assert!(first.unwrap().contains("1 at once"));
        assert_eq!(second, None);
        let timed = LearnerSettings { keeps_checkpoints: false, ..settings };
        assert_eq!(timed.full_disk(parameters, Division::ALONE), None);
        assert!(timed.full_disk(10 * parameters, Division::ALONE).is_some(), "weights are published");
    }
}
