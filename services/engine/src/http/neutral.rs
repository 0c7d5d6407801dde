//! Fields of vLLM's API that this engine does not support: neutral values are accepted, all others are refused by name.

use serde_json::{Map, Value, json};

use super::error::ApiError;

/// Refuses every field whose value might have an effect in vLLM: the sender may rely on it.
pub(super) fn refuse_others(fields: &Map<String, Value>, skip_special_tokens: bool) -> Result<(), ApiError> {
    let is_neutral = |field: &str, value: &Value| match field {
        // There is no prefix cache, and there are no sessions or users.
        "session_id" | "user" | "mm_payload" | "return_mm_kwargs" => true,
        // Without effect if special tokens are skipped.
        "spaces_between_special_tokens" => skip_special_tokens || value != &json!(false),
        // Only used by beam search.
        "length_penalty" => value.is_number(),
        "logit_bias" | "bad_words" | "logprob_token_ids" | "vllm_xargs" | "kv_transfer_params"
        | "ec_transfer_params" => {
            value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
        }
        _ => neutral(field).is_some_and(|neutral| match neutral.as_f64() {
            Some(number) => value.as_f64() == Some(number),
            None => *value == neutral,
        }),
    };
    match fields.iter().find(|(field, value)| !is_neutral(field, value)) {
        Some((field, value)) => {
            let allowed = neutral(field).map_or_else(|| "absent".to_owned(), |neutral| format!("absent, or {neutral}"));
            Err(ApiError::unsupported(field, value, &allowed))
        }
        None => Ok(()),
    }
}

/// The value at which a field has no effect.
fn neutral(field: &str) -> Option<Value> {
    Some(match field {
        "echo" | "use_beam_search" | "watermarking" | "return_token_offsets" => json!(false),
        "frequency_penalty" | "presence_penalty" | "priority" | "routed_experts_prompt_start" => json!(0),
        "repetition_penalty" => json!(1),
        "thinking_token_budget" => json!(-1),
        "spaces_between_special_tokens" => json!(true),
        "response_format" => json!({"type": "text"}),
        _ => return None,
    })
}
