//! The format of responses, key by key as in vLLM 0.32.

use std::time::{Duration, Instant};

use crate::support::{Client, Served, ids, keys, logprobs, model, serve, serve_with, settings, tokens, with};
use evenkeel_engine::{Engine, EngineSettings, LogprobsMode};
use serde_json::{Value, json};

const ANSWER: [&str; 11] = [
    "id",
    "object",
    "created",
    "model",
    "choices",
    "service_tier",
    "system_fingerprint",
    "usage",
    "kv_transfer_params",
    "ec_transfer_params",
    "metrics",
];
const CHOICE: [&str; 9] = [
    "index",
    "text",
    "logprobs",
    "finish_reason",
    "stop_reason",
    "token_ids",
    "prompt_logprobs",
    "prompt_token_ids",
    "routed_experts",
];
const FRAME_CHOICE: [&str; 7] =
    ["index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"];

fn same_keys(value: &Value, wanted: &[&str]) {
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    assert_eq!(keys(value), wanted, "{value}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_one_piece_has_every_key() {
    let served = serve().await;
    let answer = served.client.complete(json!({"model": "tiny"})).await.good();
    same_keys(&answer, &ANSWER);
    same_keys(&answer["choices"][0], &CHOICE);
    same_keys(
        &answer["usage"],
        &["prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"],
    );
    assert_eq!((&answer["object"], &answer["model"]), (&json!("text_completion"), &json!("tiny")));
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    assert!(answer["system_fingerprint"].as_str().unwrap().starts_with("vllm-0.32.0-"));
    let choice = &answer["choices"][0];
    for key in ["logprobs", "stop_reason", "token_ids", "prompt_logprobs", "prompt_token_ids", "routed_experts"] {
        assert_eq!(choice[key], Value::Null, "{key}");
    }
    assert_eq!(answer["usage"]["prompt_tokens"], 5);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_prompts_and_samples_are_ordered_by_prompt() {
    let served = serve().await;
    let prompts = json!([ids("1+1="), ids("22"), ids("3")]);
    let fields = json!({"prompt": prompts, "n": 2, "temperature": 1, "seed": 1, "return_token_ids": true});
    let answer = served.client.complete(fields).await.good();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 6);
    for (at, choice) in choices.iter().enumerate() {
        assert_eq!((&choice["index"], &choice["prompt_token_ids"]), (&json!(at), &prompts[at / 2]));
    }
    assert_eq!(answer["usage"]["prompt_tokens"], 4 + 2 + 1);
    // A text prompt gives the same as its ids.
    let text = served.client.complete(json!({"prompt": ["1+1=", "22"], "return_token_ids": true})).await.good();
    assert_eq!(text["choices"][0]["prompt_token_ids"], prompts[0]);
    assert_eq!(text["choices"][1]["prompt_token_ids"], prompts[1]);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logprobs_show_the_sampled_token_first_and_offsets_in_characters() {
    let served = serve().await;
    let fields = json!({"temperature": 1, "seed": 2, "max_tokens": 30, "logprobs": 4, "return_token_ids": true, "ignore_eos": true});
    let answer = served.client.complete(fields.clone()).await.good();
    let shown = &answer["choices"][0]["logprobs"];
    same_keys(shown, &["text_offset", "token_logprobs", "tokens", "top_logprobs"]);
    let mut offset = 0;
    for at in 0..30 {
        let token = shown["tokens"][at].as_str().unwrap();
        assert_eq!(shown["text_offset"][at], offset);
        offset += token.chars().count();
        let top = shown["top_logprobs"][at].as_object().unwrap();
        assert!((1..=5).contains(&top.len()), "{top:?}");
        assert!(top.contains_key(token));
    }
    let as_ids = served.client.complete(with(fields, json!({"return_tokens_as_token_ids": true}))).await.good();
    let all = tokens(&as_ids["choices"][0]);
    for (at, id) in all.iter().enumerate() {
        assert_eq!(as_ids["choices"][0]["logprobs"]["tokens"][at], format!("token_id:{id}"));
        let top = as_ids["choices"][0]["logprobs"]["top_logprobs"][at].as_object().unwrap();
        let own = top[&format!("token_id:{id}")].as_f64().unwrap();
        assert_eq!(own, logprobs(&as_ids["choices"][0])[at]);
        // Four alternatives, and the sampled token if it is not among them.
        assert!(top.len() == 4 || top.len() == 5);
    }
    let only = served.client.complete(json!({"logprobs": 0})).await.good();
    assert_eq!(only["choices"][0]["logprobs"]["top_logprobs"][0].as_object().unwrap().len(), 1);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_prompt_are_scored_as_if_they_had_been_sampled() {
    let served = serve().await;
    let sampled = json!({"temperature": 1, "seed": 2, "max_tokens": 20, "logprobs": 0, "return_token_ids": true, "ignore_eos": true});
    let answer = served.client.complete(sampled).await.good();
    let choice = &answer["choices"][0];
    let prompt: Vec<Value> = choice["prompt_token_ids"].as_array().unwrap().clone();
    let whole: Vec<Value> = prompt.iter().chain(choice["token_ids"].as_array().unwrap()).cloned().collect();
    // Several prompts at once, as a proof of weights asks.
    let scoring = json!({"prompt": [whole, prompt], "prompt_logprobs": 0, "max_tokens": 1, "temperature": 0.5});
    let answer = served.client.complete(scoring).await.good();
    let scores = answer["choices"][0]["prompt_logprobs"].as_array().unwrap().clone();
    assert_eq!((scores.len(), &scores[0]), (whole.len(), &Value::Null));
    for (at, expected) in logprobs(choice).into_iter().enumerate() {
        let at = prompt.len() + at;
        let score = &scores[at][whole[at].to_string()];
        assert_eq!(score["logprob"].as_f64().unwrap(), expected, "token {at}");
        assert!(score["rank"].as_u64().unwrap() >= 1 && score["decoded_token"].is_string(), "{score}");
    }
    assert_eq!(answer["choices"][1]["prompt_logprobs"].as_array().unwrap()[..], scores[..prompt.len()]);
    served.engine.stop().await;
}

/// The whole distribution of the first token, by id.
async fn distribution(client: Client, fields: Value) -> Vec<f64> {
    let base =
        json!({"logprobs": -1, "max_tokens": 1, "temperature": 1, "seed": 1, "return_tokens_as_token_ids": true});
    let answer = client.complete(with(base, fields)).await.good();
    let top = answer["choices"][0]["logprobs"]["top_logprobs"][0].as_object().unwrap().clone();
    (0..128).map(|id| top[&format!("token_id:{id}")].as_f64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logprobs_are_of_the_processed_or_the_raw_distribution_as_configured() {
    let processed = serve_with(|settings| EngineSettings { max_logprobs: -1, ..settings }).await;
    let plain = distribution(processed.client, json!({})).await;
    let hot = distribution(processed.client, json!({"temperature": 2})).await;
    let few = distribution(processed.client, json!({"top_k": 3})).await;
    for all in [&plain, &hot, &few] {
        let sum: f64 = all.iter().map(|x| x.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    }
    // Twice the temperature halves every difference; top-3 leaves three tokens.
    for id in 1..128 {
        assert!(((plain[id] - plain[0]) / 2.0 - (hot[id] - hot[0])).abs() < 1e-4);
    }
    let left: Vec<usize> = (0..128).filter(|&id| few[id] > -9999.0).collect();
    assert_eq!(left.len(), 3);
    assert!(((few[left[0]] - few[left[1]]) - (plain[left[0]] - plain[left[1]])).abs() < 1e-5);

    let raw = EngineSettings {
        max_logprobs: -1,
        logprobs_mode: LogprobsMode::RawLogprobs,
        ..settings(processed.folder.path())
    };
    let raw = Engine::start(raw).await.unwrap();
    for fields in [json!({}), json!({"temperature": 2}), json!({"top_k": 3}), json!({"temperature": 0})] {
        assert_eq!(distribution(Client(raw.address()), fields).await, plain);
    }
    raw.stop().await;
    processed.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_have_new_tokens_and_the_last_one_the_finish_reason() {
    let served = serve().await;
    let fields = json!({"max_tokens": 12, "return_token_ids": true, "logprobs": 1, "ignore_eos": true});
    let frames = served.client.frames(fields.clone()).await;
    for (at, frame) in frames.iter().enumerate() {
        let last = at + 1 == frames.len();
        let outer = ["id", "object", "created", "model", "choices", "system_fingerprint"];
        same_keys(frame, if last { &outer } else { &outer[..5] });
        let choice = &frame["choices"][0];
        same_keys(choice, &FRAME_CHOICE);
        assert_eq!(choice["prompt_token_ids"].is_null(), at > 0);
        assert_eq!(choice["finish_reason"], if last { json!("length") } else { Value::Null });
        assert_eq!(tokens(choice).len(), logprobs(choice).len());
        assert_eq!(frame["id"], frames[0]["id"]);
    }
    // The usage comes in a frame of its own, with the fingerprint.
    let frames = served.client.frames(with(fields.clone(), json!({"stream_options": {"include_usage": true}}))).await;
    let (usage, frames) = frames.split_last().unwrap();
    same_keys(usage, &["id", "object", "created", "model", "choices", "usage", "system_fingerprint"]);
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"], json!({"prompt_tokens": 5, "total_tokens": 17, "completion_tokens": 12}));
    assert!(frames.iter().all(|frame| frame.get("usage").is_none() && frame.get("system_fingerprint").is_none()));
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let frames = served.client.frames(with(fields, json!({"stream_options": options}))).await;
    let counts: Vec<_> = frames.iter().map(|frame| frame["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted() && counts.last() == Some(&12), "{counts:?}");
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sample_of_a_stream_has_its_own_frames_and_end() {
    let served = serve().await;
    let fields = json!({"prompt": [ids("1+1="), ids("2")], "n": 3, "temperature": 1, "seed": 8, "max_tokens": 20, "return_token_ids": true});
    let whole = served.client.complete(fields.clone()).await.good();
    let frames = served.client.frames(fields).await;
    for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
        let own: Vec<&Value> =
            frames.iter().map(|frame| &frame["choices"][0]).filter(|own| own["index"] == index).collect();
        let streamed: Vec<u32> = own.iter().flat_map(|own| tokens(own)).collect();
        assert_eq!(streamed, tokens(choice));
        assert_eq!(own.iter().filter(|own| !own["finish_reason"].is_null()).count(), 1);
        assert_eq!(own.iter().filter(|own| !own["prompt_token_ids"].is_null()).count(), 1);
        assert_eq!(own.last().unwrap()["finish_reason"], choice["finish_reason"]);
    }
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_have_as_many_tokens_as_requested() {
    let served = serve().await;
    let frames = served
        .client
        .frames(json!({"max_tokens": 21, "ignore_eos": true, "stream_interval": 5, "return_token_ids": true}))
        .await;
    let ends = frames.iter().scan(0, |end, frame| {
        *end += tokens(&frame["choices"][0]).len();
        Some(*end)
    });
    // The first token at once, then five at a time; merged frames of a slow reader have a multiple of five.
    let ends: Vec<_> = ends.collect();
    assert!(ends.iter().all(|end| [1, 6, 11, 16, 21].contains(end)) && ends.last() == Some(&21), "{ends:?}");
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_a_request_is_its_header_then_its_field_then_the_engines() {
    let served = serve().await;
    let id = |answer: crate::support::HttpAnswer| answer.good()["id"].as_str().unwrap().to_owned();
    let field = served.client.complete(json!({"request_id": "abc"})).await;
    assert_eq!(id(field), "cmpl-abc");
    let headers = [("content-type", "application/json; charset=utf-8"), ("x-request-id", "hdr")];
    let body = json!({"prompt": [5], "request_id": "abc", "max_tokens": 1}).to_string();
    assert_eq!(id(served.client.raw("POST", "/v1/completions", &headers, body).await), "cmpl-hdr");
    assert_ne!(id(served.client.complete(json!({})).await), id(served.client.complete(json!({})).await));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_describes_itself() {
    let Served { engine, client, folder } = serve().await;
    assert_eq!(client.get("/version").await.good(), json!({"version": "0.32.0"}));
    let health = client.get("/health").await;
    assert_eq!((health.status, health.text.as_str()), (200, ""));
    let models = client.get("/v1/models").await.good();
    same_keys(&models, &["object", "data"]);
    let card = &models["data"][0];
    same_keys(card, &["id", "object", "created", "owned_by", "root", "parent", "max_model_len", "permission"]);
    assert_eq!(
        (&card["id"], &card["max_model_len"], &card["root"]),
        (&json!("tiny"), &json!(512), &json!(folder.path()))
    );
    assert_eq!(card["permission"][0].as_object().unwrap().len(), 12);
    let info = client.get("/server_info?config_format=json").await.good();
    assert_eq!(info["vllm_config"]["model_config"]["logprobs_mode"], "processed_logprobs");
    assert_eq!(info["vllm_config"]["model_config"]["arithmetic"], evenkeel_model::kernels::cpu::ARITHMETIC);
    assert_eq!(client.get("/is_sleeping").await.good(), json!({"is_sleeping": false}));
    assert_eq!(client.get("/get_world_size").await.good(), json!({"world_size": 1}));
    assert_eq!(client.get("/nope").await.json(), json!({"detail": "Not Found"}));
    let wrong = client.get("/v1/completions").await;
    assert_eq!((wrong.status, wrong.json()), (405, json!({"detail": "Method Not Allowed"})));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_converted_to_ids_and_back() {
    let served = serve().await;
    let post = async |path: &str, body: Value| served.client.post(path, body).await.good();
    let tokens = post("/tokenize", json!({"prompt": "1+<eos>2"})).await;
    assert_eq!(tokens, json!({"count": 4, "max_model_len": 512, "tokens": [20, 14, 1, 21], "token_strs": null}));
    let strings = post("/tokenize", json!({"prompt": "12", "return_token_strs": true, "model": "tiny"})).await;
    assert_eq!(strings["token_strs"], json!(["1", "2"]));
    assert_eq!(post("/detokenize", json!({"tokens": [20, 14, 1, 21]})).await, json!({"prompt": "1+<eos>2"}));
    assert_eq!(post("/detokenize", json!({"tokens": [120, 4_000_000_000u64]})).await, json!({"prompt": ""}));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_without_a_tokenizer_serves_ids() {
    let folder = model(1);
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    let engine = Engine::start(settings(folder.path())).await.unwrap();
    let client = Client(engine.address());
    let fields = json!({"return_token_ids": true, "logprobs": 1, "return_tokens_as_token_ids": true});
    let answer = client.complete(fields).await.good();
    assert_eq!(answer["choices"][0]["text"], "");
    assert_eq!(tokens(&answer["choices"][0]).len(), 6);
    for (fields, param) in
        [(json!({"prompt": "12"}), "prompt"), (json!({"stop": "1"}), "stop"), (json!({"logprobs": 1}), "logprobs")]
    {
        let refused = client.complete(fields).await;
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(param)));
    }
    assert_eq!(client.post("/tokenize", json!({"prompt": "1"})).await.status, 400);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_vllms_names() {
    let began = Instant::now();
    let served = serve().await;
    // A while without requests, also on a machine that does other things.
    tokio::time::sleep(Duration::from_millis(50)).await;
    served
        .client
        .complete(json!({"n": 3, "temperature": 1, "seed": 1, "max_tokens": 9, "ignore_eos": true}))
        .await
        .good();
    let text = served.client.get("/metrics").await;
    assert_eq!(text.content_type, "text/plain; version=1.0.0; charset=utf-8");
    let lines: Vec<&str> = text.text.lines().collect();
    let labels = "engine=\"0\",model_name=\"tiny\"";
    for line in [
        format!("vllm:num_requests_running{{{labels}}} 0.0"),
        format!("vllm:num_requests_waiting{{{labels}}} 0.0"),
        format!("vllm:kv_cache_usage_perc{{{labels}}} 0.0"),
        format!("vllm:prompt_tokens_total{{{labels}}} 15.0"),
        format!("vllm:generation_tokens_total{{{labels}}} 27.0"),
        format!("vllm:request_success_total{{{labels},finished_reason=\"length\"}} 3.0"),
        format!("vllm:request_generation_tokens_sum{{{labels}}} 27.0"),
        format!("vllm:request_params_n_sum{{{labels}}} 3.0"),
        format!("vllm:time_to_first_token_seconds_count{{{labels}}} 3.0"),
        format!("vllm:inter_token_latency_seconds_count{{{labels}}} 24.0"),
        format!("vllm:e2e_request_latency_seconds_count{{{labels}}} 3.0"),
        "vllm:admission_rejections_total{model_name=\"tiny\",reason=\"max_num_queued_reqs\"} 0.0".to_owned(),
    ] {
        assert!(lines.contains(&line.as_str()), "{line} is not in\n{}", text.text);
    }
    let idle =
        lines.iter().find_map(|line| line.strip_prefix(&format!("evenkeel_engine_idle_seconds_total{{{labels}}} ")));
    let idle: f64 = idle.unwrap().parse().unwrap();
    assert!(idle > 0.0 && idle <= began.elapsed().as_secs_f64(), "{idle}");
    served.engine.stop().await;
}

#[tokio::test]
async fn a_single_sample_reports_the_durations_of_its_phases_if_configured() {
    let silent = serve().await;
    assert_eq!(silent.client.complete(json!({})).await.good()["metrics"], Value::Null);
    let served = serve_with(|settings| EngineSettings { per_request_metrics: true, ..settings }).await;
    let metrics = served.client.complete(json!({"max_tokens": 40, "ignore_eos": true})).await.good()["metrics"].clone();
    let ms = |name: &str| metrics[name].as_f64().unwrap();
    assert!(ms("time_to_first_token_ms") > 0.0 && ms("queue_time_ms") >= 0.0, "{metrics}");
    assert!((ms("mean_itl_ms") * 39.0 - ms("generation_time_ms")).abs() < 1e-6, "{metrics}");
    let whole = ms("time_to_first_token_ms") + ms("generation_time_ms");
    assert!((ms("tokens_per_second") - 40.0 / whole * 1e3).abs() < 1.0, "{metrics}");
    let two = served.client.complete(json!({"prompt": [[51], [52]]})).await.good();
    assert_eq!(two["metrics"], Value::Null, "whose would it be");
}
