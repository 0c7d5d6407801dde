//! Bad input: refused with vLLM's status, kind and param, before anything runs.

use crate::support::{serve, serve_with};
use evenkeel_config::ByteSize;
use serde_json::{Value, json};

const BAD: &str = "BadRequestError";
const MALFORMED: &str = "Bad Request";

/// Fields, with the kind and param of the refusal by vLLM 0.32.
fn refused_by_both() -> Vec<(Value, &'static str, Value)> {
    vec![
        (json!({"prompt": null}), BAD, json!("prompt")),
        (json!({"prompt": ""}), BAD, json!("prompt")),
        (json!({"prompt": []}), BAD, Value::Null),
        (json!({"prompt": [[]]}), BAD, Value::Null),
        (json!({"prompt": [[1], []]}), BAD, Value::Null),
        (json!({"prompt": [128]}), BAD, Value::Null),
        (json!({"prompt": [4294967297u64]}), BAD, Value::Null),
        (json!({"prompt": [-1]}), MALFORMED, json!("body.prompt.0")),
        (json!({"prompt": [1, "a"]}), MALFORMED, json!("body.prompt.1")),
        (json!({"prompt": 5}), MALFORMED, json!("body.prompt")),
        (json!({"prompt": vec![5; 513]}), BAD, json!("input_tokens")),
        (json!({"prompt": vec![5; 512]}), BAD, json!("max_tokens")),
        (json!({"model": 5}), MALFORMED, json!("body.model")),
        (json!({"max_tokens": 0}), BAD, json!("max_tokens")),
        (json!({"max_tokens": -1}), BAD, json!("max_tokens")),
        (json!({"max_tokens": 513}), BAD, json!("max_tokens")),
        (json!({"max_tokens": 1u64 << 40}), BAD, json!("max_tokens")),
        (json!({"max_tokens": "x"}), MALFORMED, json!("body.max_tokens")),
        (json!({"temperature": -0.1}), BAD, json!("temperature")),
        (json!({"temperature": 2.1}), BAD, json!("temperature")),
        (json!({"temperature": "x"}), MALFORMED, json!("body.temperature")),
        (json!({"top_p": 0}), BAD, json!("top_p")),
        (json!({"top_p": 1.1}), BAD, json!("top_p")),
        (json!({"top_k": -2}), BAD, Value::Null),
        (json!({"top_k": 1.5}), MALFORMED, json!("body.top_k")),
        (json!({"min_p": 1.1}), BAD, Value::Null),
        (json!({"n": 0}), BAD, Value::Null),
        (json!({"n": 2}), BAD, Value::Null),
        (json!({"n": 17000, "temperature": 1}), BAD, Value::Null),
        (json!({"seed": 9223372036854775808u64}), MALFORMED, json!("body.seed")),
        (json!({"logprobs": -2}), BAD, json!("logprobs")),
        (json!({"logprobs": 21}), BAD, json!("logprobs")),
        (json!({"logprobs": "x"}), BAD, json!("logprobs")),
        (json!({"logprobs": 1.5}), MALFORMED, json!("body.logprobs")),
        (json!({"stop": ""}), BAD, Value::Null),
        (json!({"stop": 5}), MALFORMED, json!("body.stop")),
        (json!({"stop_token_ids": [200]}), BAD, json!("stop_token_ids")),
        (json!({"stop_token_ids": ["x"]}), MALFORMED, json!("body.stop_token_ids.0")),
        (json!({"min_tokens": -1}), BAD, Value::Null),
        (json!({"min_tokens": 7}), BAD, Value::Null),
        (json!({"ignore_eos": "x"}), MALFORMED, json!("body.ignore_eos")),
        (json!({"stream_options": {"include_usage": true}}), BAD, json!("stream_options")),
        (json!({"stream": true, "temperature": 9}), BAD, json!("temperature")),
        (json!({"temperature": "x", "n": "y"}), MALFORMED, json!("body.n")),
        (json!({"cache_salt": ""}), BAD, json!("cache_salt")),
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
    let here = refused_here().into_iter().map(|(fields, param)| (fields, BAD, json!(param)));
    for (fields, kind, param) in refused_by_both().into_iter().chain(here) {
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
            (&json!(kind), &param, &json!(400)),
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
        (&json_type[..], "{\"a\":", json!("body.5")),
        (&json_type, "[1]", json!("body")),
        (&json_type, "", json!("body")),
        (&[("content-type", "text/plain")], "{\"prompt\": [1]}", Value::Null),
        (&[], "{\"prompt\": [1]}", Value::Null),
    ] {
        let answer = served.client.raw("POST", "/v1/completions", headers, body.to_owned()).await;
        let json = answer.json();
        assert_eq!((answer.status, &json["error"]["type"]), (400, &json!(MALFORMED)), "{body}");
        assert_eq!(json["error"]["param"], param, "{body}: {json}");
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
    let malformed = json!(MALFORMED);
    for (path, body, status, kind, param) in [
        ("/tokenize", json!({}), 400, &malformed, json!("body.prompt")),
        ("/tokenize", json!({"prompt": 5}), 400, &malformed, json!("body.prompt")),
        ("/tokenize", json!({"prompt": "1", "model": "zzz"}), 404, &json!("NotFoundError"), json!("model")),
        ("/tokenize", json!({"messages": []}), 400, &json!(BAD), json!("messages")),
        ("/detokenize", json!({}), 400, &malformed, json!("body.tokens")),
        ("/detokenize", json!({"tokens": [-1]}), 400, &malformed, json!("body.tokens.0")),
        ("/update_weight_version", json!({}), 400, &malformed, json!("body.new_version")),
        ("/update_weight_version", Value::Null, 400, &malformed, json!("body.new_version")),
        ("/update_weight_version", json!({"new_version": 5}), 400, &malformed, json!("body.new_version")),
        ("/collective_rpc", json!({}), 400, &malformed, Value::Null),
        ("/collective_rpc", json!([]), 400, &malformed, Value::Null),
        ("/collective_rpc", json!({"method": "x"}), 500, &json!("InternalServerError"), Value::Null),
        ("/abort_requests", json!([]), 400, &malformed, Value::Null),
        ("/pause?mode=zzz", Value::Null, 400, &malformed, json!("query.mode")),
        ("/pause?clear_cache=zz", Value::Null, 400, &malformed, json!("query.clear_cache")),
        ("/update_weights", json!({"update_info": {}}), 501, &json!("NotImplementedError"), Value::Null),
    ] {
        let answer = served.client.post(path, body.clone()).await;
        let json = answer.json();
        assert_eq!(
            (answer.status, &json["error"]["type"], &json["error"]["param"]),
            (status, kind, &param),
            "{path} {body}: {json}"
        );
        assert_eq!(json["error"]["code"], status);
    }
    assert_eq!(served.client.get("/is_paused").await.good(), json!({"is_paused": false}));
    served.engine.stop().await;
}
