//! Fields of vLLM's API that this engine does not support: neutral values are accepted, all others are refused by name.

use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::fields::Fields;

/// A field, its neutral values, and their description.
type Neutral = (&'static str, fn(&Value) -> bool, &'static str);

fn number(wanted: f64) -> impl Fn(&Value) -> bool {
    move |value| value.as_f64() == Some(wanted)
}

fn is_false(value: &Value) -> bool {
    value == &json!(false)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

const NEUTRAL: [Neutral; 25] = [
    ("echo", is_false, "false"),
    ("frequency_penalty", |value| number(0.0)(value), "0"),
    ("presence_penalty", |value| number(0.0)(value), "0"),
    ("repetition_penalty", |value| number(1.0)(value), "1"),
    ("logit_bias", is_empty, "absent"),
    ("allowed_token_ids", |_| false, "absent"),
    ("bad_words", is_empty, "absent"),
    ("logprob_token_ids", is_empty, "absent"),
    ("use_beam_search", is_false, "false"),
    // Only used by beam search.
    ("length_penalty", Value::is_number, "a number"),
    ("suffix", |_| false, "absent"),
    ("prompt_embeds", |_| false, "absent"),
    ("truncate_prompt_tokens", |_| false, "absent"),
    ("truncation_side", |_| false, "absent"),
    ("response_format", |value| value == &json!({"type": "text"}), "{\"type\": \"text\"}"),
    ("structured_outputs", |_| false, "absent"),
    ("priority", |value| number(0.0)(value), "0"),
    ("thinking_token_budget", |value| number(-1.0)(value), "-1"),
    ("repetition_detection", |_| false, "absent"),
    ("watermarking", is_false, "false"),
    ("vllm_xargs", is_empty, "absent"),
    ("kv_transfer_params", is_empty, "absent"),
    ("ec_transfer_params", is_empty, "absent"),
    ("routed_experts_prompt_start", |value| number(0.0)(value), "0"),
    ("return_token_offsets", is_false, "false"),
];

/// Consumes every unsupported field, and refuses it unless its value is neutral.
pub(super) fn refuse(fields: &mut Fields, skip_special_tokens: bool) -> Result<(), ApiError> {
    for (field, neutral, allowed) in NEUTRAL {
        if let Some(value) = fields.take(field).filter(|value| !neutral(value)) {
            return Err(ApiError::unsupported(field, &value, allowed));
        }
    }
    // Without effect if special tokens are skipped.
    if let Some(value) =
        fields.take("spaces_between_special_tokens").filter(|value| is_false(value) && !skip_special_tokens)
    {
        return Err(ApiError::unsupported("spaces_between_special_tokens", &value, "true"));
    }
    // They have no effect: there is no prefix cache, and there are no sessions or users.
    for field in ["cache_salt", "session_id", "user", "mm_payload", "return_mm_kwargs"] {
        fields.take(field);
    }
    Ok(())
}
