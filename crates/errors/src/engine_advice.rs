//! Which option of an engine gives it what a run needs, by product, for messages. Rules ask what an engine can do; only
//! the clients of the generation service know which product it is.

/// Log-probabilities of the distribution that is sampled from.
pub const PROCESSED_LOG_PROBABILITIES: &str = "vLLM: --logprobs-mode processed_logprobs";
/// Scores of given tokens.
pub const SCORES: &str = "vLLM: prompt_logprobs";
/// Option for more adapters at a time.
pub const MORE_ADAPTERS: &str = "vLLM: --max-loras";
/// Adapters of a larger rank.
pub const ADAPTER_RANK: &str = "vLLM: --max-lora-rank";
/// Option with which nothing in the model's folder changes how tokens are drawn.
pub const FOLDER_SETS_NOTHING: &str = "vLLM: --generation-config vllm, so that the model's folder sets nothing";
/// The type in which it computes.
pub const COMPUTE_TYPE: &str = "vLLM: --dtype, --quantization, --kv-cache-dtype";
/// A head that is the embedding and keeps its first values.
pub const TIED_HEAD: &str = "vLLM does not reload a tied output head: start it on the copy that `evenkeel model \
    untie` makes";
