//! The learner's settings, their defaults and their ranges.

mod attention;
mod compute;
mod lag;
mod lora;
mod optimizer;
mod packing;
mod probe;
mod ranks;

pub use attention::AttentionPath;
pub use compute::{Compute, ComputeType};
pub use lag::{SampledVersions, VersionMix};
pub use lora::{BaseType, LoraSettings};
pub use optimizer::{MomentsLocation, OptimizerSettings, Schedule};
pub(crate) use packing::GradientPacking;
pub use probe::ProbeSettings;
pub use ranks::{RankPlace, RankSettings};

use std::path::{Path, PathBuf};

use evenkeel_config::Settings;
use evenkeel_model::{Config, LoraShape, ModelError, Parameters, Recompute};
use evenkeel_objective::{Correction, MAX_REWARD};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::terms::distillation::{self, DistillationSettings};
use crate::terms::{LossTerm, LossTerms, kl};

/// Which log-probabilities the ratio of the first update is taken against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OldLogp {
    /// The learner's own, under the weights before the first update on the batch. Those of the first update come from
    /// its own forward pass (ratio 1), those of later mini-batches from a separate forward pass.
    #[default]
    Recompute,
    /// As `recompute`, but for samples that may be from an older version (`pipeline.max_lag`): the ratio is taken
    /// against the weights that the step starts from, whichever version sampled, and the correction accounts for the
    /// difference between those two (decoupled PPO, arXiv 2110.00641).
    Proximal,
    /// The engine's: no extra pass, and the ratio also corrects for the mismatch between engine and learner.
    Rollout,
}

impl OldLogp {
    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recompute => "recompute",
            Self::Proximal => "proximal",
            Self::Rollout => "rollout",
        }
    }

    /// Whether they are the learner's own, under the weights before the first update on the batch.
    pub const fn is_learners(self) -> bool {
        matches!(self, Self::Recompute | Self::Proximal)
    }

    /// What they are, as part of a formula.
    const fn formula(self) -> &'static str {
        match self {
            Self::Recompute => "the learner's before the first update of the step",
            Self::Proximal => "the learner's before the first update of the step, whichever version sampled",
            Self::Rollout => "rollout_logp, the engine's",
        }
    }
}

/// The shape of a run's batches, as far as its settings determine it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchShape {
    /// Responses to each prompt.
    pub group_size: usize,
    /// The largest absolute reward, shaping included.
    pub largest_reward: f64,
}

/// Everything that determines what a step does. Unknown fields are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingSettings {
    /// Advantages, aggregation, policy term, correction, KL and entropy.
    pub objective: evenkeel_objective::Settings,
    /// The policy's optimizer.
    pub optimizer: OptimizerSettings,
    /// The optimizer of the supervised warm start, with its own moments.
    pub supervised: OptimizerSettings,
    /// The sampling temperature, above 0: the learner scores under the distribution that the engine sampled from.
    pub temperature: f32,
    /// The log-probabilities that the ratio is taken against.
    pub old_logp: OldLogp,
    /// Groups per optimizer update, never split; 0 uses the whole batch for one update. A run's batch must be a
    /// multiple of it.
    pub mini_batch_groups: usize,
    /// Passes over a batch, 1 or more.
    pub epochs: usize,
    /// Whether each epoch takes the groups in a random (seeded) order instead of data order.
    pub shuffle: bool,
    /// Number of skipped updates in a row, across steps, at which a step fails; 0 is no limit. An update is skipped if
    /// its loss or gradient is not finite.
    pub max_skipped_updates: u64,
    /// Adapters that are trained instead of all weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
    /// A teacher that scores the policy's samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distillation: Option<DistillationSettings>,
    /// A teacher that the policy is pulled to.
    #[cfg(test)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<crate::terms::teacher::TeacherSettings>,
    /// Several processes that train together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RankSettings>,
    /// Which steps also compute the gradient of every aggregation rule.
    pub probe_gradients: ProbeSettings,
    /// Seed of all randomness in the learner (the order of groups with `shuffle`). A run sends its `run.seed` with each
    /// step, so this is not a setting in a file and not part of [`hash`](Self::hash).
    #[serde(skip)]
    pub seed: u64,
    /// Device, compute type, threads and memory.
    pub compute: Compute,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            objective: evenkeel_objective::Settings::default(),
            optimizer: OptimizerSettings::default(),
            supervised: OptimizerSettings { learning_rate: 1e-5, ..OptimizerSettings::default() },
            temperature: 1.0,
            old_logp: OldLogp::default(),
            mini_batch_groups: 0,
            epochs: 1,
            shuffle: false,
            max_skipped_updates: 10,
            lora: None,
            distillation: None,
            #[cfg(test)]
            teacher: None,
            ranks: None,
            probe_gradients: ProbeSettings::default(),
            seed: 0,
            compute: Compute::default(),
        }
    }
}

impl Settings for TrainingSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.objective.validate().map_err(|error| FieldError::from(error).within("objective"))?;
        self.optimizer.validate("optimizer")?;
        self.supervised.validate("supervised")?;
        self.compute.validate()?;
        if let Some(lora) = &self.lora {
            lora.validate().map_err(|error| error.within("lora"))?;
        }
        self.loss_terms().iter().try_for_each(LossTerm::validate)?;
        self.probe_gradients.validate(&self.objective)?;
        if let Some(ranks) = &self.ranks {
            ranks.validate(self.compute.gradient_blocks).map_err(|error| error.within("ranks"))?;
            if !self.compute.is_cpu() {
                let allowed = "cpu with ranks, which exchange over the host's memory";
                return Err(FieldError::new("compute.device", &self.compute.device, allowed));
            }
        }
        // Both phases use the same memory.
        if self.supervised.moments != MomentsLocation::Device {
            let allowed = "device: optimizer.moments applies to supervised steps too";
            return Err(FieldError::new("supervised.moments", self.supervised.moments.name(), allowed));
        }
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(FieldError::new("temperature", self.temperature, "a finite number above 0"));
        }
        if self.epochs == 0 {
            return Err(FieldError::new("epochs", 0, "1 or more"));
        }
        if self.distillation.is_some() && !self.old_logp.is_learners() {
            let allowed = "recompute or proximal with learner.distillation, which compares the learner's own \
                           log-probabilities before the first update of a step with the teacher's";
            return Err(FieldError::new("old_logp", self.old_logp.name(), allowed));
        }
        let correction = self.objective.correction;
        if self.old_logp == OldLogp::Rollout && correction != Correction::None {
            let allowed = "none with old_logp = rollout, where the ratio itself is taken against the engine's \
                           log-probabilities and the factor of a correction would always be 1";
            return Err(FieldError::new("objective.correction", correction, allowed));
        }
        Ok(())
    }
}

impl TrainingSettings {
    /// Rank, scale and targets of the adapters; `None` where all weights are trained.
    pub fn lora_shape(&self) -> Option<LoraShape> {
        self.lora.as_ref().map(LoraSettings::shape)
    }

    /// Whether adapters are trained beside a base in fp32.
    pub(crate) fn has_wide_base(&self) -> bool {
        self.lora.as_ref().is_some_and(|lora| lora.base_type == BaseType::F32)
    }

    /// Names, shapes and types of the parameters that these settings hold of a model, without values.
    ///
    /// # Errors
    /// Adapters that the model cannot have.
    pub fn described(&self, config: &Config) -> Result<Parameters, ModelError> {
        match &self.lora {
            Some(lora) if lora.base_type == BaseType::Bf16 => Parameters::described_in_bf16(config, &lora.shape()),
            _ => Parameters::described_with(config, self.lora_shape().as_ref()),
        }
    }

    /// Which of several ranks this process is; `None` if it trains alone.
    ///
    /// # Errors
    /// As [`RankSettings::place`]; ranks without a token.
    pub fn rank_place(&self) -> Result<Option<RankPlace>, FieldError> {
        let Some(ranks) = &self.ranks else { return Ok(None) };
        let place = ranks.place(self.compute.gradient_blocks, |name| std::env::var(name).ok())?;
        place.iter().try_for_each(|place| ranks.validate_token(place.division.rank()))?;
        Ok(place)
    }

    /// Refuses batches that these settings cannot train on.
    ///
    /// # Errors
    /// The first refused field of the batch, with its value and what is allowed.
    pub fn validate_batch(&self, batch: BatchShape) -> Result<(), FieldError> {
        self.validate_group_size(batch.group_size)?;
        if batch.largest_reward.is_nan() || batch.largest_reward.abs() > MAX_REWARD {
            let allowed = format!("a finite number up to {MAX_REWARD:e} in magnitude");
            return Err(FieldError::new("largest_reward", batch.largest_reward, allowed));
        }
        Ok(())
    }

    /// Refuses a number of responses to a prompt for which the advantages are undefined, unless nothing is learned from
    /// rewards.
    ///
    /// # Errors
    /// `group_size`, with its value and what is allowed.
    pub(crate) fn validate_group_size(&self, group_size: usize) -> Result<(), FieldError> {
        if self.reward_weight() == 0.0 && group_size > 0 {
            return Ok(());
        }
        self.objective.validate_group_size(group_size)
    }

    /// What the policy term, that of rewards, counts in the loss; 0 where a teacher alone decides.
    pub fn reward_weight(&self) -> f64 {
        self.distillation.as_ref().map_or(1.0, |distillation| distillation.reward_weight)
    }

    /// Refuses a number of groups in a step that mini-batches do not divide.
    ///
    /// # Errors
    /// `mini_batch_groups`, with its value and what is allowed.
    pub fn validate_groups(&self, groups: usize) -> Result<(), FieldError> {
        let size = self.mini_batch_groups;
        if size == 0 || groups.is_multiple_of(size) {
            return Ok(());
        }
        let allowed = format!("a divisor of the {groups} groups of a step, or 0 for all of them");
        Err(FieldError::new("mini_batch_groups", size, allowed))
    }

    /// Settings that have no effect, and what goes with others, one sentence each, for the start of a run.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = match &self.lora {
            Some(lora) => lora.notes(self.optimizer.learning_rate),
            None => Vec::new(),
        };
        notes.extend(self.distillation.iter().filter_map(DistillationSettings::note));
        if self.is_single_update() && self.old_logp.is_learners() && self.reward_weight() != 0.0 {
            notes.push(format!(
                "the clip of policy = {} never acts: with one update for each batch and old_logp = {} every ratio is 1 \
                 (mini_batch_groups or epochs make more updates)",
                self.objective.policy,
                self.old_logp.name()
            ));
        }
        notes
    }

    /// The settings that determine the bits of a run on this machine: defaults for those that only affect time and
    /// memory, or what is measured.
    pub fn result_affecting(&self) -> Self {
        let defaults = Compute::default();
        let micro_batch_tokens =
            if self.compute.is_cpu() { defaults.micro_batch_tokens } else { self.compute.micro_batch_tokens };
        let compute = Compute {
            threads: defaults.threads,
            recompute: Recompute::default(),
            micro_batch_tokens,
            ..self.compute.clone()
        };
        let optimizer = OptimizerSettings { moments: MomentsLocation::default(), ..self.optimizer.clone() };
        let lora = self.lora.clone().map(|lora| LoraSettings { base_type: BaseType::default(), ..lora });
        Self { compute, optimizer, lora, ranks: None, probe_gradients: ProbeSettings::default(), ..self.clone() }
    }

    /// Digest of the training settings, by which caller and learner check that theirs agree: `sha256:` and hexadecimal
    /// digits, over every setting that affects results (not the device or micro-batches).
    pub fn hash(&self) -> String {
        let Compute { dtype, gradient_blocks, .. } = self.compute;
        let compute = Compute { dtype, gradient_blocks, ..Compute::default() };
        let mut rules = Self { compute, ..self.result_affecting() };
        // Where it lies may differ between processes; inputs.json has what is in it.
        if let Some(distillation) = &mut rules.distillation {
            distillation.teacher = PathBuf::new();
        }
        let text = serde_json::to_string(&rules).expect("numbers and names serialise");
        evenkeel_host::sha256(text)
    }

    /// The resolved objective as one line, with the log-probabilities that the ratio is taken against.
    pub fn formula(&self) -> String {
        let old_logp = self.old_logp;
        let terms: String =
            self.loss_terms().iter().filter_map(LossTerm::formula).map(|term| format!("; {term}")).collect();
        format!(
            "{}{terms}; rho = exp(logp - old_logp), old_logp = {} [{}]",
            self.objective.formula(),
            old_logp.formula(),
            old_logp.name()
        )
    }

    /// The terms of the loss beside the policy's and the entropy's, in the order of their sums.
    pub(crate) fn loss_terms(&self) -> LossTerms {
        LossTerms::new([
            kl::term(&self.objective),
            distillation::term(self.distillation.as_ref(), &self.objective),
            #[cfg(test)]
            crate::terms::teacher::term(self.teacher.as_ref()),
        ])
    }

    /// Refuses networks of the loss's terms that do not go with the policy in a folder, such as a teacher with another
    /// vocabulary. No weights are read.
    ///
    /// # Errors
    /// The first such setting, by its path below `learner`, what is wrong with it and what is allowed.
    pub fn validate_networks(&self, policy: &Path) -> Result<(), FieldError> {
        self.loss_terms().iter().try_for_each(|term| term.validate_folder(policy)).map_err(|error| match error {
            ModelError::Input(error) => error,
            other => FieldError::new("model", other, "a folder that can be read"),
        })
    }

    /// How many further log-probabilities of each token the terms of the loss need, each from a frozen network.
    pub fn other_logps(&self) -> usize {
        self.loss_terms().len()
    }

    /// The setting that turns on a term of the loss whose network has the weights that training began with; `None`
    /// without such a term.
    pub fn refers_to_initial_weights(&self) -> Option<&'static str> {
        self.loss_terms().iter().find(|term| term.refers_to_initial_weights()).map(LossTerm::setting)
    }

    /// Updates of the optimizer in a step of `groups` groups.
    pub fn updates_in_step(&self, groups: usize) -> usize {
        let batches = groups.checked_div(self.mini_batch_groups).map_or(1, |count| count.max(1));
        batches * self.epochs
    }

    /// Whether one update takes the whole batch.
    pub fn is_single_update(&self) -> bool {
        self.mini_batch_groups == 0 && self.epochs == 1
    }
}
