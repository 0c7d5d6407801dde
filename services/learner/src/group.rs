//! The input of a step: groups of responses to one prompt, sampled and verified.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use evenkeel_model::Config;
use evenkeel_objective::{LagRun, MAX_REWARD, validate_logp};
use evenkeel_proto::FieldError;
use serde::{Serialize, Serializer};

use crate::error::{LearnerError, Result};
use crate::settings::TrainingSettings;
use crate::tokens::{validate_ids, validate_length};

/// All responses to one prompt, the unit of normalisation. Never split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseGroup {
    /// The prompt's name in traces and in batches of skipped updates.
    pub id: String,
    /// Token ids of the prompt, 1 or more.
    pub prompt: Vec<u32>,
    /// What the model reads as its own teacher: the prompt with a hint. `None` without a hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hinted_prompt: Option<Vec<u32>>,
    /// Responses that were sampled for one prompt.
    pub responses: Vec<Response>,
}

/// One response. The learner computes the advantage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Response {
    /// Token ids, at least 1: sampled ones and, after tool calls, injected ones.
    pub tokens: Vec<u32>,
    /// Whether a token was sampled by the policy and is trained on; one for each token.
    pub mask: Vec<bool>,
    /// The engine's log-probability of each token at the sampling temperature, nats; not read where mask is false.
    pub rollout_logp: Vec<f32>,
    /// How far the versions that sampled the trainable tokens are behind the step's, in the order of these tokens;
    /// empty where none is.
    #[serde(serialize_with = "pairs", skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<LagRun>,
    /// How each log-probability is compared with the learner's; empty where none is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Sequences that begin with a prompt of their own: the index of the first token of each, ascending, and the
    /// prompt. The tokens before the first of these follow the prompt of the group. However many sequences carry it, it
    /// is one response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<(usize, Vec<u32>)>,
    /// The verifier's reward, before any shaping.
    pub raw_reward: f64,
    /// The reward that advantages are computed from.
    pub reward: f64,
    /// Whether the answer is correct, for the paper's quantities; `None` where nobody says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<bool>,
    /// What it is the weighted sum of, by name, for advantages that normalise each on its own; empty where it is of one
    /// piece.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, RewardPart>,
    /// False if verification failed for a reason that is not the response's own. It is then left out of mean,
    /// deviation, weights and loss.
    pub valid: bool,
}

/// How the engine's log-probability of a token is compared with the learner's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Comparison {
    /// Not at all: the engine computes otherwise, or had other weights.
    #[default]
    None,
    /// Not at all: the engine computes as the learner does and had its weights, but may have drawn the token without the
    /// end tokens.
    Early,
    /// To the bit: the step fails if it is not the learner's.
    Exact,
}

/// A part of a response that one request sampled, or that was injected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedPart {
    pub(crate) tokens: usize,
    pub(crate) is_sampled: bool,
    /// Whether an engine with the learner's arithmetic and the weights of the step has sampled it. Such an engine has
    /// computed all tokens before it with these weights.
    pub(crate) is_exact: bool,
}

impl Comparison {
    /// How each token of a response is compared. The first `min_tokens` sampled ones were drawn without end tokens.
    pub(crate) fn of_parts(parts: impl Iterator<Item = ComparedPart>, min_tokens: usize) -> Vec<Self> {
        let mut left = min_tokens;
        let mut all = Vec::new();
        for ComparedPart { tokens, is_sampled, is_exact } in parts {
            let early = if is_sampled { left.min(tokens) } else { 0 };
            left -= early;
            let one = |comparison| if is_sampled && is_exact { comparison } else { Self::None };
            all.extend(repeat_n(one(Self::Early), early));
            all.extend(repeat_n(one(Self::Exact), tokens - early));
        }
        all
    }
}

/// A component of a response's reward.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RewardPart {
    /// Weight in the sum; equal in all responses of a group.
    pub weight: f64,
    /// The value before the weight.
    pub value: f64,
}

impl Response {
    /// Trainable tokens, T in the formulas; 0 if the response is invalid.
    pub fn trainable(&self) -> usize {
        if self.valid { evenkeel_objective::trainable_tokens(&self.mask) } else { 0 }
    }
}

impl ResponseGroup {
    /// Checks all external input before anything is computed. `index` is the group's in the step.
    ///
    /// # Errors
    /// The first problem: the path of the field, its value, and what is allowed.
    pub fn validate(&self, index: usize, config: &Config, settings: &TrainingSettings) -> Result<()> {
        let refused = |error: FieldError| LearnerError::Input(error.within(format_args!("groups[{index}]")));
        validate_ids(config, "prompt", &self.prompt).map_err(refused)?;
        let responses = self.responses.len();
        settings
            .validate_group_size(responses)
            .map_err(|error| refused(FieldError::new("responses", list_of(responses), error.allowed)))?;
        validate_length(config, "prompt", self.prompt.len(), "").map_err(refused)?;
        self.validate_hint(config, settings).map_err(refused)?;
        for (number, response) in self.responses.iter().enumerate().filter(|(_, response)| response.valid) {
            let refused = |error: FieldError| refused(error.within(format_args!("responses[{number}]")));
            response.validate_sequences(config, self.prompt.len()).map_err(refused)?;
            validate_ids(config, "tokens", &response.tokens).map_err(refused)?;
            response.validate().map_err(refused)?;
            validate_logp("rollout_logp", &response.mask, &response.rollout_logp)
                .map_err(|error| error.at(index, Some(number)))?;
        }
        Ok(())
    }

    /// Refuses a hint that no teacher reads, and one that leaves no room for a response.
    fn validate_hint(&self, config: &Config, settings: &TrainingSettings) -> Result<(), FieldError> {
        const FIELD: &str = "hinted_prompt";
        let Some(hinted) = &self.hinted_prompt else { return Ok(()) };
        let reads_hints = settings.distillation.as_ref().is_some_and(|distillation| distillation.hints);
        let allowed = "absent without distillation.hints";
        FieldError::ensure(reads_hints, FIELD, list_of(hinted.len()), allowed)?;
        validate_ids(config, FIELD, hinted)?;
        for (number, response) in self.responses.iter().enumerate().filter(|(_, response)| response.valid) {
            let field = format!("responses[{number}]");
            let allowed = "none in a group with hinted_prompt: turns with prompts of their own have no hint";
            let contexts = response.contexts.len();
            FieldError::ensure(contexts == 0, format!("{field}.contexts"), list_of(contexts), allowed)?;
            validate_length(config, &field, hinted.len() + response.tokens.len(), " with hinted_prompt")?;
        }
        Ok(())
    }
}

/// Each run as `[lag, tokens]`.
fn pairs<S: Serializer>(runs: &[LagRun], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| (run.lag, run.tokens)))
}

impl Response {
    /// Refuses sequences that exceed the model's context together with the group's prompt.
    fn validate_sequences(&self, config: &Config, prompt: usize) -> Result<(), FieldError> {
        let tokens = self.tokens.len();
        let first = self.contexts.first().map_or(tokens, |(first, _)| *first).min(tokens);
        validate_length(config, "tokens", prompt + first, " with the prompt")?;
        let mut least = 0;
        for (index, (first, prompt)) in self.contexts.iter().enumerate() {
            let field = format!("contexts[{index}]");
            FieldError::ensure((least..tokens).contains(first), &*field, first, format!("{least} to {tokens} - 1"))?;
            let end = self.contexts.get(index + 1).map_or(tokens, |(next, _)| *next);
            validate_length(config, &field, prompt.len() + end.saturating_sub(*first), " with its prompt")?;
            validate_ids(config, &field, prompt)?;
            least = first + 1;
        }
        Ok(())
    }

    /// Refuses lists of other lengths than the tokens', and rewards that are too large.
    fn validate(&self) -> Result<(), FieldError> {
        let tokens = self.tokens.len();
        for (field, length) in [("mask", self.mask.len()), ("rollout_logp", self.rollout_logp.len())] {
            let allowed = format!("{tokens}, one for each token");
            FieldError::ensure(length == tokens, field, list_of(length), allowed)?;
        }
        if !self.comparisons.is_empty() {
            let length = self.comparisons.len();
            let allowed = format!("{tokens}, one for each token, or none");
            FieldError::ensure(length == tokens, "comparisons", list_of(length), allowed)?;
        }
        if !self.lags.is_empty() {
            let lags = self.lags.iter().map(|run| run.tokens).sum::<usize>();
            let trainable = self.trainable();
            let allowed = format!("those of {trainable}, all trainable ones");
            FieldError::ensure(lags == trainable, "lags", format_args!("those of {lags} tokens"), allowed)?;
        }
        let allowed = || format!("a finite number up to {MAX_REWARD:e} in magnitude");
        for (field, reward) in [("reward", self.reward), ("raw_reward", self.raw_reward)] {
            FieldError::ensure(reward.abs() <= MAX_REWARD, field, reward, allowed())?;
        }
        for (name, part) in &self.components {
            for (field, value) in [("weight", part.weight), ("value", part.value)] {
                FieldError::ensure(value.abs() <= MAX_REWARD, format!("components.{name}.{field}"), value, allowed())?;
            }
        }
        Ok(())
    }
}

/// The length of a list, as the value of its field.
fn list_of(length: usize) -> String {
    format!("a list of {length}")
}
