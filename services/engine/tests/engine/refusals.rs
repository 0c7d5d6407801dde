//! Bad input: refused by name in vLLM's format, before anything runs.

use crate::support::{serve, serve_with};
use evenkeel_config::ByteSize;
use serde_json::{Value, json};

/// Fields that vLLM refuses as well, with the param of the refusal.
fn refused_by_both() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": []}), "prompt"),
        (json!({"prompt": [[]]}), "prompt"),
        (json!({"prompt": [[1], []]}), "prompt"),
        (json!({"prompt": [128]}), "prompt"),
        (json!({"prompt": [4294967297u64]}), "prompt"),
        (json!({"prompt": [-1]}), "prompt[0]"),
        (json!({"prompt": [1, "a"]}), "prompt[1]"),
        (json!({"prompt": 5}), "prompt"),
        (json!({"prompt": vec![5; 513]}), "input_tokens"),
        (json!({"prompt": vec![5; 512]}), "max_tokens"),
        (json!({"model": 5}), "model"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": 513}), "max_tokens"),
        (json!({"max_tokens": 1u64 << 40}), "max_tokens"),
        (json!({"max_tokens": "x"}), "max_tokens"),
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"temperature": "x"}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_p": 1.1}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"top_k": 1.5}), "top_k"),
        (json!({"min_p": 1.1}), "min_p"),
        (json!({"n": 0}), "n"),
        (json!({"n": 2}), "n"),
        (json!({"n": 17000, "temperature": 1}), "n"),
        (json!({"seed": 9223372036854775808u64}), "seed"),
        (json!({"logprobs": -2}), "logprobs"),
        (json!({"logprobs": 21}), "logprobs"),
        (json!({"logprobs": "x"}), "logprobs"),
        (json!({"logprobs": 1.5}), "logprobs"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": 5}), "stop"),
        (json!({"stop_token_ids": [200]}), "stop_token_ids"),
        (json!({"stop_token_ids": ["x"]}), "stop_token_ids[0]"),
        (json!({"min_tokens": -1}), "min_tokens"),
        (json!({"min_tokens": 7}), "min_tokens"),
        (json!({"ignore_eos": "x"}), "ignore_eos"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options"),
        (json!({"stream": true, "temperature": 9}), "temperature"),
        (json!({"temperature": "x", "n": "y"}), "n"),
        (json!({"cache_salt": ""}), "cache_salt"),
    ]
}

/// Fields that vLLM supports or ignores and this engine refuses.
fn refused_here() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"echo": true}), "echo"),
        (json!({"prompt_logprobs": 1}), "prompt_logprobs"),
        (json!({"repetition_penalty": 1.1}), "repetition_penalty"),
        (json!({"presence_penalty": 0.1}), "presence_penalty"),
        (json!({"frequency_penalty": -0.1}), "frequency_penalty"),
        (json!({"logit_bias": {"5": 1}}), "logit_bias"),
        (json!({"allowed_token_ids": [5]}), "allowed_token_ids"),
        (json!({"bad_words": ["a"]}), "bad_words"),
        (json!({"logprob_token_ids": [1], "logprobs": 1}), "logprob_token_ids"),
        (json!({"use_beam_search": true}), "use_beam_search"),
        (json!({"suffix": "a"}), "suffix"),
        (json!({"truncate_prompt_tokens": 2}), "truncate_prompt_tokens"),
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (json!({"structured_outputs": {"regex": "a"}}), "structured_outputs"),
        (json!({"priority": 1}), "priority"),
        (json!({"repetition_detection": {"max_pattern_size": 2, "min_count": 2}}), "repetition_detection"),
        (
            json!({"spaces_between_special_tokens": false, "skip_special_tokens": false}),
            "spaces_between_special_tokens",
        ),
        (json!({"best_of": 2}), "best_of"),
        (json!({"temprature": 1}), "temprature"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_has_vllms_format_and_nothing_runs() {
    let served = serve().await;
    for (fields, param) in refused_by_both().into_iter().chain(refused_here()) {
        let answer = served.client.complete(fields.clone()).await;
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (400, "application/json"),
            "{fields}: {}",
            answer.text
        );
        let json = answer.json();
        let error = &json["error"];
        assert_eq!(crate::support::keys(error), ["code", "message", "param", "type"]);
        assert_eq!(
            (&error["type"], &error["param"], &error["code"]),
            (&json!("BadRequestError"), &json!(param), &json!(400)),
            "{fields}: {json}"
        );
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(served.client.metric("generation_tokens_total").await, 0.0);
    // Refused requests occupy nothing.
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neutral_values_of_every_field_pass() {
    let served = serve().await;
    let fields = json!({
        "echo": false, "prompt_logprobs": null, "repetition_penalty": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0,
        "logit_bias": {}, "bad_words": [], "use_beam_search": false, "length_penalty": 1.0, "priority": 0, "user": "me",
        "cache_salt": "v1", "session_id": "s", "response_format": {"type": "text"}, "stream": false, "min_p": 0.0,
        "top_k": -1, "top_p": 1.0, "spaces_between_special_tokens": false, "include_stop_str_in_output": false,
        "stop": [], "stop_token_ids": [], "logprobs": 0, "seed": null, "n": 1, "model": "", "kv_transfer_params": null,
        "add_special_tokens": true, "vllm_xargs": {}, "stream_options": {}, "unknown": null
    });
    served.client.complete(fields).await.good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_bodies_are_refused() {
    let served = serve().await;
    let json_type = [("content-type", "application/json")];
    for (headers, body, param) in [
        (&json_type[..], "{\"a\":", "body"),
        (&json_type, "[1]", "body"),
        (&json_type, "", "body"),
        (&[("content-type", "text/plain")], "{\"prompt\": [1]}", "content-type"),
        (&[], "{\"prompt\": [1]}", "content-type"),
    ] {
        let answer = served.client.raw("POST", "/v1/completions", headers, body.to_owned()).await;
        let json = answer.json();
        assert_eq!((answer.status, &json["error"]["param"]), (400, &json!(param)), "{body}: {json}");
    }
    let answer = served.client.complete(json!({"model": "zzz"})).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (404, &json!("NotFoundError")));
    assert_eq!(answer.json()["error"]["param"], "model");
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_values_come_back_cut_and_escaped() {
    let served = serve().await;
    let long = format!("\u{202e}{}", "x".repeat(100_000));
    for (path, body) in [
        ("/v1/completions", json!({"model": "tiny", "prompt": {long.clone(): 1}})),
        ("/v1/completions", json!({"model": "tiny", "prompt": [1], "temperature": long})),
        ("/v1/completions", json!({"model": "tiny", "prompt": [1], "logprobs": long})),
        ("/v1/completions", json!({"model": "tiny", "prompt": [1], "stream": true, "stream_options": {"a": long}})),
        ("/v1/completions", json!({"model": "tiny", "prompt": [1], "echo": long})),
        ("/v1/completions", json!({"model": "tiny", "prompt": [1], long.clone(): 1})),
        ("/v1/completions", json!({"model": long, "prompt": [1]})),
        ("/tokenize", json!(long)),
        ("/abort_requests", json!({"request_ids": long})),
        ("/update_weight_version", json!({"new_version": [long]})),
        ("/collective_rpc", json!({"method": long})),
        ("/collective_rpc", json!({"method": "reload_weights", "kwargs": {long.clone(): long}})),
    ] {
        let answer = served.client.post(path, body).await;
        assert!(answer.status >= 400 && answer.json()["error"]["message"].is_string(), "{path}: {}", answer.status);
        assert!(answer.text.len() < 2_000 && !answer.text.contains('\u{202e}'), "{path}: {}", answer.text);
    }
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_beyond_the_limit_is_refused() {
    let served =
        serve_with(|settings| evenkeel_engine::EngineSettings { max_body: ByteSize::b(1000), ..settings }).await;
    assert_eq!(served.client.complete(json!({"prompt": vec![5; 600]})).await.status, 413);
    served.client.complete(json!({"prompt": vec![5; 100]})).await.good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_routes_refuse_in_the_same_format() {
    let served = serve().await;
    for (path, body, status, param) in [
        ("/tokenize", json!({}), 400, json!("body")),
        ("/tokenize", json!({"prompt": 5}), 400, json!("prompt")),
        ("/tokenize", json!({"prompt": "1", "model": "zzz"}), 404, json!("model")),
        ("/tokenize", json!({"messages": []}), 400, json!("messages")),
        ("/detokenize", json!({}), 400, json!("body")),
        ("/detokenize", json!({"tokens": [-1]}), 400, json!("tokens[0]")),
        ("/update_weight_version", json!({}), 400, json!("new_version")),
        ("/update_weight_version", Value::Null, 400, json!("new_version")),
        ("/update_weight_version", json!({"new_version": 5}), 400, json!("new_version")),
        ("/collective_rpc", json!({}), 400, json!("method")),
        ("/collective_rpc", json!([]), 400, json!("body")),
        ("/collective_rpc", json!({"method": "x"}), 500, Value::Null),
        ("/abort_requests", json!([]), 400, json!("body")),
        ("/pause?mode=zzz", Value::Null, 400, json!("query.mode")),
        ("/pause?clear_cache=zz", Value::Null, 400, json!("query.clear_cache")),
        ("/update_weights", json!({"update_info": {}}), 501, Value::Null),
    ] {
        let answer = served.client.post(path, body.clone()).await;
        let json = answer.json();
        assert_eq!((answer.status, &json["error"]["param"]), (status, &param), "{path} {body}: {json}");
        assert_eq!(json["error"]["code"], status);
    }
    assert_eq!(served.client.get("/is_paused").await.good(), json!({"is_paused": false}));
    served.engine.stop().await;
}
