//! Which option of an engine gives it what a run needs, by product, for messages. Rules ask what an engine can do; only
//! the clients of the generation service know which product it is.

/// Log-probabilities of the distribution that is sampled from.
pub const PROCESSED_LOG_PROBABILITIES: &str = "vLLM: --logprobs-mode processed_logprobs";
/// Scores of given tokens.
pub const SCORES: &str = "vLLM: prompt_logprobs";
/// More adapters at a time.
pub const MORE_ADAPTERS: &str = "vLLM: --max-loras";
/// Adapters of a larger rank.
pub const ADAPTER_RANK: &str = "vLLM: --max-lora-rank";
