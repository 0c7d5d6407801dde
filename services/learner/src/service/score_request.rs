//! What an item asks to be scored with, after its check.

use candle_core::DType;
use evenkeel_model::sampling::{SampledFrom, TokenDraw, Truncation};
use evenkeel_model::{Parameters, tensor_groups};
use evenkeel_proto::v1::{SamplingDistribution, ScoreItem, ScoreWeights, SeededTokens};
use evenkeel_proto::{BASE_GROUP, FieldError};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_seeds::{Stream, Uniforms};

use crate::error::LearnerError;
use crate::memory::{MemoryPhase, OutOfMemory};
use crate::published_model::{PublishedWeights, Replaced};
use crate::sequence::Sequence;
use crate::tokens::{validate_ids, validate_length};
use crate::trainer::Trainer;

/// Largest number of end tokens of an item.
const MAX_END_TOKENS: usize = 64;

/// What all items of a batch ask for.
pub(super) struct ScoreTask {
    pub(super) temperature: f32,
    /// The version that scores.
    pub(super) version: u64,
    /// Published weights; `None` for those in memory.
    pub(super) weights: Option<PublishedWeights>,
    sampling: Option<(Truncation, Vec<u32>)>,
}

impl ScoreTask {
    /// Whether two items ask for the same, so that they can be in one batch.
    pub(super) fn is_same(a: &ScoreItem, b: &ScoreItem) -> bool {
        (a.temperature, a.version, &a.weights, &a.sampling) == (b.temperature, b.version, &b.weights, &b.sampling)
    }

    /// # Errors
    /// A field that is refused, a version that is not in memory.
    pub(super) fn of(item: &ScoreItem, trainer: &Trainer) -> Result<Self, ServiceError> {
        let temperature = match item.temperature {
            Some(temperature) if temperature.is_finite() && temperature > 0.0 => temperature,
            Some(temperature) => {
                return Err(FieldError::new("temperature", temperature, "a finite number above 0").into());
            }
            None => return Err(FieldError::missing("temperature", "a finite number above 0").into()),
        };
        let current = trainer.version();
        let weights = match (&item.weights, item.version) {
            (Some(_), Some(version)) => return Err(FieldError::new("version", version, "absent with weights").into()),
            (None, Some(version)) if version != current => {
                return Err(mismatch("version", version, current));
            }
            (weights, _) => weights.as_ref().map(|weights| published(weights, trainer)).transpose()?,
        };
        let sampling = item.sampling.as_ref().map(|sampling| distribution(sampling, trainer)).transpose()?;
        let version = weights.as_ref().map_or(current, |weights| weights.version);
        Ok(Self { temperature, version, weights, sampling })
    }

    /// The tokens of an item. Checks them completely, so that it cannot fail the others.
    pub(super) fn sequence(&self, item: &ScoreItem, trainer: &Trainer) -> Result<Sequence, ServiceError> {
        let prompt = &item.prompt_token_ids;
        let response = &item.response_token_ids;
        validate_ids(trainer.config(), "prompt_token_ids", prompt)?;
        validate_ids(trainer.config(), "response_token_ids", response)?;
        validate_length(trainer.config(), "response_token_ids", prompt.len() + response.len(), " with the prompt")?;
        let ids = [&prompt[..], response].concat();
        let scored = (prompt.len()..ids.len()).collect();
        Ok(Sequence::new(ids, prompt.len(), scored))
    }

    /// What is known of the draw of each token of an item. `can_draw`: whether this learner has the bits of an engine.
    pub(super) fn draws(&self, item: &ScoreItem, can_draw: bool) -> Result<Vec<TokenDraw>, FieldError> {
        let tokens = item.response_token_ids.len();
        let most = if self.sampling.is_some() { tokens } else { 0 };
        let early = item.min_tokens as usize;
        let allowed = || format!("at most {most}: the tokens of the response, 0 without sampling");
        FieldError::ensure(early <= most, "min_tokens", early, allowed())?;
        let mut draws: Vec<_> = (0..tokens).map(|at| TokenDraw { number: None, cannot_end: at < early }).collect();
        for (index, &SeededTokens { first, count, seed }) in item.seeded.iter().enumerate() {
            let field = format!("seeded[{index}]");
            FieldError::ensure(can_draw, &*field, "present", "absent: this learner has no engine's bits")?;
            FieldError::ensure(self.sampling.is_some(), &*field, "present", "absent without sampling")?;
            let run = first as usize..(first as usize).saturating_add(count as usize);
            let allowed = format!("within the {tokens} tokens of the response");
            FieldError::ensure(count > 0 && run.end <= tokens, &*field, format_args!("{run:?}"), allowed)?;
            let mut uniforms = Uniforms::new(seed, Stream::Tokens);
            for (draw, at) in draws[run].iter_mut().zip(0..) {
                draw.number = Some(uniforms.at(at));
            }
        }
        Ok(draws)
    }

    /// The distribution whose statistics are wanted, if any are.
    pub(super) fn sampled_from(&self) -> Option<SampledFrom<'_>> {
        let (truncation, end_tokens) = self.sampling.as_ref()?;
        Some(SampledFrom { temperature: self.temperature, truncation: *truncation, end_tokens })
    }

    /// Makes a lack of memory an error of published weights, where there are any.
    pub(super) fn explained(&self, trainer: &Trainer, error: LearnerError) -> LearnerError {
        match error {
            LearnerError::Model(source) if self.weights.is_some() && OutOfMemory::is(&source) => {
                LearnerError::NoRoom(source.to_string())
            }
            error => trainer.explain(MemoryPhase::Scoring, error),
        }
    }
}

/// The groups that may be replaced: those of the tensors that are trained, and with adapters `base`, which is all of
/// them at zero.
pub(super) fn group_names(parameters: &Parameters) -> Vec<String> {
    let base = parameters.lora().map(|_| BASE_GROUP.to_owned());
    tensor_groups(parameters).into_iter().map(|group| group.name).chain(base).collect()
}

fn published(weights: &ScoreWeights, trainer: &Trainer) -> Result<PublishedWeights, ServiceError> {
    let current = trainer.version();
    // Not a refused field: the caller knows a version that this learner does not, which has lost it.
    let validate =
        |field: &str, version: u64| if version > current { Err(mismatch(field, version, current)) } else { Ok(()) };
    validate("weights.version", weights.version)?;
    let replaced = match &weights.replaced {
        None => None,
        Some(replaced) => {
            validate("weights.replaced.version", replaced.version)?;
            let unknown = || {
                let names = group_names(trainer.parameters()).join(", ");
                FieldError::new("weights.replaced.group", &replaced.group, names)
            };
            if replaced.group == BASE_GROUP && trainer.parameters().lora().is_some() {
                Some(Replaced::Base)
            } else {
                let mut groups = tensor_groups(trainer.parameters()).into_iter();
                let group = groups.find(|group| group.name == replaced.group).ok_or_else(unknown)?;
                Some(Replaced::Group(group.parameters, replaced.version))
            }
        }
    };
    let rounded_to = match weights.rounded_to.as_str() {
        "" => None,
        "F32" => Some(DType::F32),
        "BF16" => Some(DType::BF16),
        "F16" => Some(DType::F16),
        other => return Err(FieldError::new("weights.rounded_to", other, "BF16, F16, F32 or empty").into()),
    };
    Ok(PublishedWeights { version: weights.version, replaced, rounded_to })
}

fn mismatch(field: &str, version: u64, current: u64) -> ServiceError {
    let message = format!("{field} is {version}, the learner's is {current}");
    ServiceError::Precondition { reason: Reason::VersionMismatch, message }
}

fn distribution(sampling: &SamplingDistribution, trainer: &Trainer) -> Result<(Truncation, Vec<u32>), FieldError> {
    let top_p = sampling.top_p.unwrap_or(1.0);
    FieldError::ensure(top_p > 0.0 && top_p <= 1.0, "sampling.top_p", top_p, "above 0, at most 1")?;
    let min_p = sampling.min_p.unwrap_or(0.0);
    FieldError::ensure((0.0..=1.0).contains(&min_p), "sampling.min_p", min_p, "0 to 1")?;
    let mut end_tokens = sampling.end_token_ids.clone();
    if end_tokens.len() > MAX_END_TOKENS {
        let found = format!("a list of {}", end_tokens.len());
        return Err(FieldError::new("sampling.end_token_ids", found, format!("at most {MAX_END_TOKENS}")));
    }
    if !end_tokens.is_empty() {
        validate_ids(trainer.config(), "sampling.end_token_ids", &end_tokens)?;
    }
    end_tokens.sort_unstable();
    end_tokens.dedup();
    Ok((Truncation { top_k: sampling.top_k.unwrap_or(0) as usize, top_p, min_p }, end_tokens))
}
