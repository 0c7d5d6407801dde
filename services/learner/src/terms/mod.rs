//! Terms of the loss beside the policy's and the entropy's: what an algorithm needs besides rewards, and what it adds.
//!
//! A term compares the log-probability of each trainable token with another one, that of a network which no update
//! changes within a step. It says which network that is and what memory it takes, its value and slope, what a checkpoint
//! keeps of it, and what it reports ([`LossTerm`]). The rest of the learner knows [`LossTerms`] alone. It opens the
//! networks, plans their memory, scores with them, sums, gives the sums to all ranks, and writes and restores states.
//!
//! A new term is a folder here, declared below, and its registration in `settings`: the field of its section, and its
//! entry in [`TrainingSettings::loss_terms`](crate::TrainingSettings). [`kl`] is the KL term, [`distillation`] that of a
//! teacher, and `teacher` an algorithm of the tests that has a state. Nothing here knows the rest of the learner.

pub(crate) mod distillation;
pub(crate) mod kl;
mod loss_terms;
#[cfg(test)]
pub(crate) mod teacher;

use std::path::Path;
use std::sync::Arc;

use candle_core::DType;
use evenkeel_model::{Config, ModelError, NetworkOptions, Parameters, TrainableModel, network};
use evenkeel_objective::{Error, TermStats};
use evenkeel_proto::FieldError;
use evenkeel_run::metric::MetricName;
use serde_json::Value;

pub(crate) use loss_terms::{LossTerms, TermStates};

/// A term of the loss. It never changes: what follows from a step or a checkpoint is a new one.
pub(crate) trait LossTerm: Send + Sync {
    /// The setting that turns it on, below `learner`. A checkpoint has its state under this name.
    fn setting(&self) -> &'static str;

    /// Refuses settings out of range.
    ///
    /// # Errors
    /// The field by its path below `learner`, its value and what is allowed.
    fn validate(&self) -> Result<(), FieldError> {
        Ok(())
    }

    /// Whether its network has the weights that training began with.
    fn refers_to_initial_weights(&self) -> bool {
        false
    }

    /// Whether its network reads prompts with hints.
    fn reads_hints(&self) -> bool {
        false
    }

    /// What a token counts in the loss, the coefficient apart.
    fn share(&self) -> TokenShare {
        TokenShare::OfGroup
    }

    /// The temperature at which its network scores; `None` for that of the policy.
    fn temperature(&self) -> Option<f32> {
        None
    }

    /// Refuses a network that does not go with the policy in this folder, before either is loaded.
    ///
    /// # Errors
    /// The field by its path below `learner`, its value and what is allowed.
    fn validate_folder(&self, _policy: &Path) -> Result<(), ModelError> {
        Ok(())
    }

    /// The bytes of its network beside a policy with this many trained parameters.
    ///
    /// # Errors
    /// A network that cannot be had.
    fn network_bytes(&self, trained: u64) -> Result<u64, ModelError>;

    /// The network that gives the other log-probability of each token; `None` for the policy itself, as it is before the
    /// first update of a step.
    ///
    /// # Errors
    /// A network that cannot be had, or cannot score the tokens of the policy; a failure of the device.
    fn open_network(&self, policy: &InitialPolicy<'_>) -> Result<Option<Box<dyn TrainableModel>>, ModelError>;

    /// The sums of a response; the derivative by each log-probability is *added* to `gradient`. Terms have weights of
    /// their own over all valid responses, whatever the aggregation: `weight` is the [share](Self::share) of each token
    /// of this response.
    ///
    /// # Errors
    /// Lists of different lengths.
    fn response(&self, weight: f64, tokens: TermTokens<'_>, gradient: &mut [f32]) -> Result<TermStats, Error>;

    /// The term as part of the formula in the log, unless that of the objective has it.
    fn formula(&self) -> Option<String> {
        None
    }

    /// What a step reports, from the sums of its updates, whose losses have their normalizer. A part of the loss is
    /// reported as the [mean over updates](mean_loss), like all others, so that parts add up to the loss.
    fn metrics(&self, updates: &[TermStats]) -> Vec<(MetricName, f64)>;

    /// The term after a step in which these updates were applied; `None` if it is the same.
    fn after_step(&self, _applied: &[TermStats]) -> Option<Arc<dyn LossTerm>> {
        None
    }

    /// What a checkpoint keeps beside the settings; `None` if nothing.
    fn state(&self) -> Option<Value> {
        None
    }

    /// The term with a state of a checkpoint. One that a checkpoint lacks begins as the settings say.
    ///
    /// # Errors
    /// What is wrong with the state.
    fn with_state(&self, _state: &Value) -> Result<Arc<dyn LossTerm>, String> {
        Err(format!("`{}` has a state, allowed: none", self.setting()))
    }
}

/// The loss of a step: the mean over its updates, of which there is at least one.
fn mean_loss(updates: &[TermStats]) -> f64 {
    updates.iter().map(|update| update.loss).sum::<f64>() / updates.len() as f64
}

/// What a token counts in a term, the coefficient apart. P groups with a trainable token in the mini-batch, N trainable
/// tokens in it, N_g in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenShare {
    /// 1 / (P N_g), as under `token`.
    OfGroup,
    /// 1 / N, as under `batch-token`.
    OfBatch,
}

/// The shares of a response's tokens.
#[derive(Clone, Copy)]
pub(crate) struct TokenShares {
    pub(crate) of_group: f64,
    pub(crate) of_batch: f64,
}

impl TokenShares {
    pub(crate) fn get(&self, share: TokenShare) -> f64 {
        match share {
            TokenShare::OfGroup => self.of_group,
            TokenShare::OfBatch => self.of_batch,
        }
    }
}

/// The trainable tokens of a response.
#[derive(Clone, Copy)]
pub(crate) struct TermTokens<'a> {
    /// Log-probabilities under the policy.
    pub(crate) logp: &'a [f32],
    /// Log-probabilities that the ratio is taken against.
    pub(crate) old_logp: &'a [f32],
    /// Log-probabilities of the tokens by the engine.
    pub(crate) rollout_logp: &'a [f32],
    /// Log-probabilities under the frozen network.
    pub(crate) other_logp: &'a [f32],
}

/// The policy before its first step, as a term's network is opened beside it.
pub(crate) struct InitialPolicy<'a> {
    pub(crate) config: &'a Config,
    pub(crate) parameters: &'a Parameters,
    pub(crate) dtype: DType,
    pub(crate) options: NetworkOptions,
}

impl InitialPolicy<'_> {
    /// A network of these parameters that computes as the policy's does.
    pub(crate) fn network(
        &self,
        config: Config,
        parameters: Parameters,
    ) -> Result<Box<dyn TrainableModel>, ModelError> {
        network(config, parameters, self.dtype, self.options)
    }
}
