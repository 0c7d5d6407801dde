//! Which completion requests are accepted, and with which status the others are refused.

use serde_json::{Value, json};

use crate::support::{Client, serve};

/// Values by field that are accepted.
fn accepted() -> Vec<(&'static str, Value)> {
    vec![
        ("prompt", json!(["12", ["1", "2"], [5], [[5], [6, 7]], [5.0, "6", true], [["5"], [6.0]], vec!["1"; 1024]])),
        ("model", json!(["tiny", "", null])),
        ("n", json!([1, 1.0, "1", " 1 ", true])),
        ("max_tokens", json!([1, "2", 512, true, null])),
        ("min_tokens", json!([0, 1, "1", false])),
        ("temperature", json!([0, 2, "0.5", true, false, null])),
        ("top_p", json!([1, 0.1, "0.5", true, null])),
        ("top_k", json!([-1, 0, 1, 1e9, "5", false, null])),
        ("min_p", json!([0, 1, "0.5", true, null])),
        ("seed", json!([1, -1, -7, "5", 9_223_372_036_854_775_807u64, null])),
        ("logprobs", json!([0, 20, true, 1.0, null])),
        ("prompt_logprobs", json!([0, "0", false, null])),
        ("stop", json!(["a", [], ["a", "b"], vec!["a"; 1024], null])),
        ("stop_token_ids", json!([[], [0, 127], ["5", 6.0, true], null])),
        ("ignore_eos", json!([true, false, 0, 1.0, "yes", "OFF"])),
        ("skip_special_tokens", json!([true, "f"])),
        ("include_stop_str_in_output", json!([false, "T"])),
        ("add_special_tokens", json!([true, 0, null])),
        ("return_tokens_as_token_ids", json!([true, "n", null])),
        ("return_token_ids", json!(["on", null])),
        ("stream", json!([true, false, "y", 0, null])),
        ("stream_options", json!([{}, null])),
        ("stream_interval", json!([1, "7", null])),
        ("request_id", json!(["x", "", null])),
        ("cache_salt", json!(["v1", null])),
        ("user", json!(["me", 5, {"a": []}, null])),
        ("session_id", json!([5])),
        ("mm_payload", json!([[1]])),
        ("return_mm_kwargs", json!(["x"])),
        ("echo", json!([false, null])),
        ("frequency_penalty", json!([0, 0.0, -0.0, null])),
        ("presence_penalty", json!([0])),
        ("repetition_penalty", json!([1, 1.0])),
        ("logit_bias", json!([{}, [], null])),
        ("bad_words", json!([[], {}])),
        ("logprob_token_ids", json!([[]])),
        ("use_beam_search", json!([false])),
        ("length_penalty", json!([1, -0.5])),
        ("allowed_token_ids", json!([null])),
        ("suffix", json!([null])),
        ("response_format", json!([{"type": "text"}, null])),
        ("priority", json!([0, 0.0])),
        ("thinking_token_budget", json!([-1])),
        ("watermarking", json!([false])),
        ("vllm_xargs", json!([{}])),
        ("kv_transfer_params", json!([{}])),
        ("ec_transfer_params", json!([[]])),
        ("routed_experts_prompt_start", json!([0])),
        ("return_token_offsets", json!([false])),
        ("spaces_between_special_tokens", json!([true, false, 5, "x", null])),
        ("best_of", json!([null])),
        ("unknown", json!([null])),
    ]
}

/// Values by field that are refused before the model's name is looked at.
fn unreadable() -> Vec<(&'static str, Value)> {
    vec![
        (
            "prompt",
            json!([
                null,
                "",
                [""],
                5,
                1.5,
                true,
                {},
                [1, "a"],
                [-1],
                [1.5],
                [null],
                ["a", 1],
                [[1], 2],
                [[1], [-2]],
                [["a"]],
                vec!["1"; 1025]
            ]),
        ),
        ("model", json!([5, ["tiny"], {}, true])),
        ("n", json!([null, "x", 1.5, [], {}, 9_223_372_036_854_775_808u64])),
        ("max_tokens", json!(["x", 1.5, [], {}, 1e300])),
        ("min_tokens", json!([null, "x", 0.5])),
        ("temperature", json!(["x", [], {}])),
        ("top_p", json!(["x", [1]])),
        ("top_k", json!(["x", 1.5, ""])),
        ("min_p", json!(["x", {}])),
        ("seed", json!(["x", 1.5, 9_223_372_036_854_775_808u64])),
        ("logprobs", json!([-2, -0.5, 1.5, "x", "1", [], 1e300])),
        ("prompt_logprobs", json!(["x", 0.5])),
        ("stop", json!([5, true, [5], ["a", null], {}])),
        ("stop_token_ids", json!([5, "5", ["x"], [1.5], [null], {}])),
        ("ignore_eos", json!([null, "x", 2, 0.5, "", " true", []])),
        ("skip_special_tokens", json!([null, "x"])),
        ("include_stop_str_in_output", json!([null, 5])),
        ("add_special_tokens", json!(["x", -1])),
        ("return_tokens_as_token_ids", json!([[]])),
        ("return_token_ids", json!(["x", {}])),
        ("stream", json!(["x", 2, []])),
        ("stream_options", json!([{"include_usage": true}, {"include_usage": null}, {"a": 1}, 5, "x", []])),
        ("stream_interval", json!(["x", 1.5])),
        ("request_id", json!([5, ["x"]])),
        ("cache_salt", json!(["", 5, false, []])),
    ]
}

/// Values by field that are refused once the model's name is known to be right.
fn not_allowed() -> Vec<(&'static str, Value)> {
    vec![
        ("prompt", json!([[], [[]], [[1], []], [128], [4_294_967_297u64], [u64::MAX], vec![5; 512], vec![5; 513]])),
        ("n", json!([0, -1, 2, 16_385, 17_000])),
        ("max_tokens", json!([0, -1, 513, 1u64 << 40])),
        ("min_tokens", json!([-1, 7])),
        ("temperature", json!([-0.1, 2.1, "nan", "inf", -1])),
        ("top_p", json!([0, 1.1, -1, "nan"])),
        ("top_k", json!([-2])),
        ("min_p", json!([-0.1, 1.1, "nan"])),
        ("logprobs", json!([-1, 21, 1000])),
        ("prompt_logprobs", json!([1, -1, true])),
        ("stop", json!(["", [""], ["a", ""], vec!["a"; 1025]])),
        ("stop_token_ids", json!([[128], [-1], [5, 200]])),
        ("stream_interval", json!([0, -1])),
        ("echo", json!([true, 0, "false"])),
        ("frequency_penalty", json!([0.1, "0", false])),
        ("presence_penalty", json!([-0.1])),
        ("repetition_penalty", json!([1.1, 0, true])),
        ("logit_bias", json!([{"5": 1}, 0, ""])),
        ("bad_words", json!([["a"]])),
        ("logprob_token_ids", json!([[1]])),
        ("use_beam_search", json!([true])),
        ("length_penalty", json!(["1", true])),
        ("allowed_token_ids", json!([[5], []])),
        ("suffix", json!(["a", ""])),
        ("prompt_embeds", json!(["x"])),
        ("truncate_prompt_tokens", json!([2, 0])),
        ("truncation_side", json!(["left"])),
        ("response_format", json!([{"type": "json_object"}, {}, "text"])),
        ("structured_outputs", json!([{"regex": "a"}, {}])),
        ("priority", json!([1])),
        ("thinking_token_budget", json!([0])),
        ("repetition_detection", json!([{"max_pattern_size": 2, "min_count": 2}])),
        ("watermarking", json!([true])),
        ("vllm_xargs", json!([{"a": 1}])),
        ("kv_transfer_params", json!([{"a": 1}])),
        ("ec_transfer_params", json!([5])),
        ("routed_experts_prompt_start", json!([1])),
        ("return_token_offsets", json!([true])),
        ("best_of", json!([2, 1])),
        ("temprature", json!([1, false])),
    ]
}

/// Several fields, with the status of the whole. Those with a `model` are for another model than the one served.
fn together() -> Vec<(u16, Value)> {
    vec![
        (200, json!({"stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": "yes"}})),
        (200, json!({"stream": true, "stream_options": {"include_usage": null, "other": null}})),
        // As in vLLM, only the literal `false` counts as no stream here.
        (200, json!({"stream": "no", "stream_options": {"include_usage": true}})),
        (200, json!({"stream": 0, "stream_options": {"include_usage": true}})),
        (400, json!({"stream": false, "stream_options": {"include_usage": true}})),
        (400, json!({"stream": true, "stream_options": {"include_usage": "x"}})),
        (400, json!({"stream": true, "stream_options": {"other": 1}})),
        (400, json!({"stream": true, "stream_options": {"other": 1}, "model": "zzz"})),
        (400, json!({"stream": true, "stream_options": 5})),
        (400, json!({"stream": true, "prompt_logprobs": 0})),
        (404, json!({"stream": true, "prompt_logprobs": 0, "model": "zzz"})),
        (200, json!({"n": 2, "temperature": 1})),
        (200, json!({"temperature": 0.00001, "n": 2})),
        (400, json!({"temperature": 0.000001, "n": 2})),
        (400, json!({"min_tokens": 3, "max_tokens": 2})),
        (400, json!({"max_tokens": null, "min_tokens": 17})),
        (400, json!({"prompt": vec![5; 510], "max_tokens": 6, "min_tokens": 3})),
        (200, json!({"prompt": vec![5; 510], "max_tokens": 6, "min_tokens": 2})),
        (400, json!({"spaces_between_special_tokens": false, "skip_special_tokens": false})),
        (404, json!({"spaces_between_special_tokens": false, "skip_special_tokens": false, "model": "zzz"})),
        (200, json!({"spaces_between_special_tokens": true, "skip_special_tokens": false})),
        (404, json!({"model": "zzz"})),
        (404, json!({"model": " tiny"})),
    ]
}

/// Sends a short request with these fields, of which null is sent as well.
async fn status(client: &Client, fields: &Value) -> (u16, String) {
    let mut body = json!({"prompt": [5, 6], "max_tokens": 6, "temperature": 0});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let answer = client.post("/v1/completions", body).await;
    (answer.status, answer.text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_has_its_status() {
    let served = serve().await;
    let mut wrong = Vec::new();
    let tables = [(accepted(), 200, 404), (unreadable(), 400, 400), (not_allowed(), 400, 404)];
    for (table, right_model, other_model) in tables {
        let all = table
            .iter()
            .flat_map(|(field, values)| values.as_array().unwrap().iter().map(move |value| (*field, value)));
        for (field, value) in all {
            let mut asked = vec![(json!({ field: value }), right_model)];
            if field != "model" {
                asked.push((json!({ field: value, "model": "zzz" }), other_model));
            }
            for (fields, expected) in asked {
                let (found, text) = status(&served.client, &fields).await;
                if found != expected {
                    wrong.push(format!("{expected} expected: {fields:.120} {found} {text:.200}"));
                }
            }
        }
    }
    for (expected, fields) in together() {
        let (found, text) = status(&served.client, &fields).await;
        if found != expected {
            wrong.push(format!("{expected} expected: {fields:.120} {found} {text:.200}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_field_that_is_there_twice_the_last_counts() {
    let served = serve().await;
    for (status, body) in [
        (200, r#"{"prompt": 5, "prompt": [5], "max_tokens": 0, "max_tokens": 1}"#),
        (400, r#"{"prompt": [5], "max_tokens": 1, "max_tokens": 0}"#),
        (400, r#"{"prompt": [5], "max_tokens": 1e999}"#),
        (400, r#"{"prompt": [5], "user": "\ud800"}"#),
    ] {
        let json_type = [("content-type", "application/json")];
        let answer = served.client.raw("POST", "/v1/completions", &json_type, body.to_owned()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
    }
    let deep = format!(r#"{{"prompt": [5], "user": {}{}}}"#, "[".repeat(200), "]".repeat(200));
    let answer = served.client.raw("POST", "/v1/completions", &[("content-type", "application/json")], deep).await;
    assert_eq!(answer.status, 400);
    served.engine.stop().await;
}
