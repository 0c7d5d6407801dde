//! The input of a step: groups of responses to one prompt, sampled and verified.

use evenkeel_model::{Config, validate_ids};
use evenkeel_objective::{Error, LagRun, MAX_REWARD, validate_length, validate_logp};
use serde::{Serialize, Serializer};

use crate::error::{LearnerError, Result, input_error};
use crate::settings::LearnerSettings;

/// All responses to one prompt, the unit of normalisation. Never split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The prompt's name in errors and logs.
    pub id: String,
    /// Token ids of the prompt, 1 or more.
    pub prompt: Vec<u32>,
    /// The sampled responses.
    pub responses: Vec<Response>,
}

/// One response. Its advantage is computed by the learner.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Response {
    /// Token ids, at least 1: sampled ones and, after tool calls, injected ones.
    pub tokens: Vec<u32>,
    /// Whether a token was sampled by the policy and is trained on; one for each token.
    pub mask: Vec<bool>,
    /// The engine's log-probability of each token at the sampling temperature, nats; not read where mask is false.
    pub rollout_logp: Vec<f32>,
    /// How far the versions that sampled the trainable tokens are behind the step's, in the order of these tokens; empty where none is.
    #[serde(serialize_with = "pairs", skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<LagRun>,
    /// The verifier's reward, before any shaping. Above 0.5 counts as correct in the paper's quantities.
    pub raw_reward: f64,
    /// The reward that advantages are computed from.
    pub reward: f64,
    /// False if verification failed for a reason that is not the response's own. It is then left out of mean, deviation,
    /// weights and loss.
    pub valid: bool,
}

impl Response {
    /// Trainable tokens, T in the formulas; 0 if the response is invalid.
    pub fn trainable(&self) -> usize {
        if self.valid { evenkeel_objective::trainable_tokens(&self.mask) } else { 0 }
    }

    /// Whether the verifier judged it correct.
    pub fn is_correct(&self) -> bool {
        self.raw_reward > 0.5
    }
}

impl Group {
    /// Checks all external input before anything is computed.
    ///
    /// # Errors
    /// The first problem: field, group, response and token, the value, and what is allowed.
    pub fn validate(&self, index: usize, config: &Config, settings: &LearnerSettings) -> Result<()> {
        let location = format!("group {index} (`{}`)", self.id);
        if self.prompt.is_empty() {
            return Err(LearnerError::input(format!("{location}: prompt"), "empty", "1 or more token ids"));
        }
        settings.objective.validate_group_size(self.responses.len()).map_err(|error| {
            LearnerError::input(format!("{location}: number of responses"), error.value, error.allowed)
        })?;
        validate_ids(config, &self.prompt).map_err(|error| input_error(error, &format!("{location}, prompt")))?;
        for (number, response) in self.responses.iter().enumerate().filter(|(_, response)| response.valid) {
            let location = format!("{location}, response {number}");
            let length = self.prompt.len() + response.tokens.len();
            if length > config.max_position_embeddings {
                let field = format!("{location}: length of prompt and response");
                let allowed = format!("at most max_position_embeddings = {}", config.max_position_embeddings);
                return Err(LearnerError::input(field, length, allowed));
            }
            validate_ids(config, &response.tokens).map_err(|error| input_error(error, &location))?;
            response.validate().map_err(|error| error.at(index, Some(number)))?;
        }
        Ok(())
    }
}

/// Each run as `[lag, tokens]`.
fn pairs<S: Serializer>(runs: &[LagRun], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| (run.lag, run.tokens)))
}

impl Response {
    /// Errors name the token if there is one; the caller adds group and response.
    fn validate(&self) -> Result<(), Error> {
        if self.tokens.is_empty() {
            return Err(Error::refused("response", "empty", "1 or more token ids"));
        }
        let length = self.tokens.len();
        validate_length("mask", self.mask.len(), "response", length)?;
        validate_length("rollout_logp", self.rollout_logp.len(), "response", length)?;
        if !self.lags.is_empty() {
            let of_lags = self.lags.iter().map(|run| run.tokens).sum();
            validate_length("lags", of_lags, "trainable tokens", self.trainable())?;
        }
        for (field, reward) in [("reward", self.reward), ("raw_reward", self.raw_reward)] {
            if reward.is_nan() || reward.abs() > MAX_REWARD {
                let allowed = format!("a finite number up to {MAX_REWARD:e} in size");
                return Err(Error::refused(field, reward, allowed));
            }
        }
        validate_logp("rollout_logp", &self.mask, &self.rollout_logp)
    }
}
