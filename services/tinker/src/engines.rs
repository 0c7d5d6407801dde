//! Whether engines and learner fit together: seen when the front starts, before any client comes.

use evenkeel_proto::engine_advice;
use evenkeel_proto::v1::{GenerationGetStatusResponse, ModelInfo};

use crate::Adapters;

/// The longest sequence that learner and engines both take.
///
/// # Errors
/// Engines that serve another vocabulary or tokenizer, that take no adapters, or none of this rank or of the head.
/// Fields that a service leaves at 0 or empty are unknown to it.
pub(crate) fn shared_context(
    engines: &GenerationGetStatusResponse,
    learner: &ModelInfo,
    adapters: Adapters,
) -> Result<u32, String> {
    let served = engines.model.clone().unwrap_or_default();
    let of_engines = served.vocabulary_size;
    let of_learner = learner.vocabulary_size;
    if of_engines != 0 && of_engines != of_learner {
        return Err(format!("the engines' vocabulary has {of_engines} tokens, the model's {of_learner}"));
    }
    let of_engines = &served.tokenizer_digest;
    let of_learner = &learner.tokenizer_digest;
    if ![of_engines, of_learner].iter().any(|digest| digest.is_empty()) && of_engines != of_learner {
        return Err(format!("the engines' tokenizer.json is {of_engines}, the model's {of_learner}"));
    }
    if !engines.takes_adapters {
        return Err(format!("engines are to compute LoRA adapters, and one lacks {}", engines.adapters_missing));
    }
    let rank = u64::from(adapters.rank);
    let largest = engines.max_adapter_rank;
    if largest != 0 && rank > largest {
        return Err(format!(
            "learner.lora.rank is {rank}, and an engine takes adapters up to rank {largest} ({})",
            engine_advice::ADAPTER_RANK
        ));
    }
    if adapters.head && engines.max_adapters > 0 {
        return Err(
            "learner.lora.targets has lm_head, and engines that take adapters by name could not be verified with \
             one of the head: take lm_head out, or use the embedded engine"
                .to_owned(),
        );
    }
    let of_both = [served.context_tokens, learner.context_tokens];
    Ok(of_both.into_iter().filter(|tokens| *tokens != 0).min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAPTERS: Adapters = Adapters { rank: 32, mlp: true, attention: true, head: false };

    fn model(context_tokens: u32) -> ModelInfo {
        ModelInfo { vocabulary_size: 100, context_tokens, tokenizer_digest: "sha256:a".into(), ..ModelInfo::default() }
    }

    fn vllm() -> GenerationGetStatusResponse {
        GenerationGetStatusResponse {
            model: Some(model(1024)),
            takes_adapters: true,
            max_adapters: 2,
            max_adapter_rank: 32,
            ..Default::default()
        }
    }

    fn refused(engines: &GenerationGetStatusResponse, adapters: Adapters) -> String {
        shared_context(engines, &model(8192), adapters).unwrap_err()
    }

    #[test]
    fn clients_are_told_the_shorter_context() {
        assert_eq!(shared_context(&vllm(), &model(8192), ADAPTERS), Ok(1024));
        assert_eq!(shared_context(&vllm(), &model(512), ADAPTERS), Ok(512));
    }

    #[test]
    fn engines_without_adapters_or_with_smaller_ones_are_refused() {
        let missing = "LoRA (vLLM: --enable-lora)".to_owned();
        let none = GenerationGetStatusResponse { takes_adapters: false, adapters_missing: missing, ..vllm() };
        assert_eq!(
            refused(&none, ADAPTERS),
            "engines are to compute LoRA adapters, and one lacks LoRA (vLLM: --enable-lora)"
        );
        let smaller = GenerationGetStatusResponse { max_adapter_rank: 16, ..vllm() };
        assert_eq!(
            refused(&smaller, ADAPTERS),
            "learner.lora.rank is 32, and an engine takes adapters up to rank 16 (vLLM: --max-lora-rank)"
        );
    }

    #[test]
    fn an_adapter_of_the_head_is_refused_where_adapters_are_taken_by_name() {
        let head = Adapters { head: true, ..ADAPTERS };
        assert!(refused(&vllm(), head).starts_with("learner.lora.targets has lm_head"));
        let embedded = GenerationGetStatusResponse { max_adapters: 0, max_adapter_rank: 0, ..vllm() };
        assert_eq!(shared_context(&embedded, &model(8192), head), Ok(1024));
    }

    #[test]
    fn engines_of_another_model_are_refused() {
        let other = ModelInfo { vocabulary_size: 90, ..model(1024) };
        let engines = GenerationGetStatusResponse { model: Some(other), ..vllm() };
        assert_eq!(refused(&engines, ADAPTERS), "the engines' vocabulary has 90 tokens, the model's 100");
        let other = ModelInfo { tokenizer_digest: "sha256:b".into(), ..model(1024) };
        let engines = GenerationGetStatusResponse { model: Some(other), ..vllm() };
        assert_eq!(refused(&engines, ADAPTERS), "the engines' tokenizer.json is sha256:b, the model's sha256:a");
    }
}
