//! What ends a sample, and how that is reported.

use crate::support::{Client, EOS, PAD, Served, ids, logprobs, model, serve, settings, tokens, with};
use evenkeel_engine::{Engine, EngineSettings};
use serde_json::{Value, json};

/// A long sample that ignores the end token, as a reference.
async fn plain(served: &Served) -> (Vec<u32>, String) {
    let fields = json!({"temperature": 1, "seed": 11, "max_tokens": 60, "ignore_eos": true, "return_token_ids": true});
    let answer = served.client.complete(fields).await.good();
    let choice = &answer["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!("length"), &Value::Null));
    (tokens(choice), choice["text"].as_str().unwrap().to_owned())
}

async fn again(served: &Served, fields: Value) -> Value {
    let base = json!({"temperature": 1, "seed": 11, "max_tokens": 60, "ignore_eos": true, "return_token_ids": true, "logprobs": 0});
    let answer = served.client.complete(with(base, fields)).await.good();
    let choice = answer["choices"][0].clone();
    // One log-probability for each token, whatever ended the sample; the usage equals the number of tokens.
    assert_eq!(logprobs(&choice).len(), tokens(&choice).len());
    assert_eq!(answer["usage"]["completion_tokens"], tokens(&choice).len());
    choice
}

/// A position whose token has not occurred before and has one character.
fn place(all: &[u32]) -> usize {
    (8..all.len()).find(|&at| !all[..at].contains(&all[at]) && (4..98).contains(&all[at])).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_token_is_in_the_ids_and_not_in_the_text() {
    let served = serve().await;
    let (all, _) = plain(&served).await;
    let at = place(&all);
    let choice = again(&served, json!({"stop_token_ids": [all[at], 127]})).await;
    assert_eq!(tokens(&choice), all[..=at]);
    assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!("stop"), &json!(all[at])));
    let kept = again(&served, json!({"stop_token_ids": [all[at]], "include_stop_str_in_output": true})).await;
    let text = choice["text"].as_str().unwrap();
    let kept = kept["text"].as_str().unwrap();
    assert_eq!(text.chars().count() + 1, kept.chars().count());
    assert!(kept.starts_with(text));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_sequence_is_not_a_stop_reason_and_can_be_ignored() {
    let served = serve().await;
    // Of a hundred samples of a random model some end.
    let fields = json!({"temperature": 1, "seed": 0, "n": 100, "max_tokens": 100, "return_token_ids": true});
    let answer = served.client.complete(fields.clone()).await.good();
    let mut ended = 0;
    for choice in answer["choices"].as_array().unwrap() {
        let ids = tokens(choice);
        let is_end = ids.last() == Some(&EOS);
        ended += usize::from(is_end);
        assert!(!ids[..ids.len() - 1].contains(&EOS));
        assert_eq!(choice["finish_reason"], if is_end { "stop" } else { "length" });
        assert_eq!(choice["stop_reason"], Value::Null);
        assert!(!choice["text"].as_str().unwrap().contains("<eos>"));
    }
    assert!(ended > 10, "{ended}");
    let ignored = served.client.complete(with(fields.clone(), json!({"ignore_eos": true}))).await.good();
    let ignored = ignored["choices"].as_array().unwrap();
    assert!(ignored.iter().all(|choice| tokens(choice).len() == 100));
    assert!(ignored.iter().any(|choice| tokens(choice).contains(&EOS)));
    // Requested as a stop token, the tokenizer's end token still has no stop reason.
    let both = served.client.complete(with(fields, json!({"stop_token_ids": [EOS]}))).await.good();
    assert_eq!(both["choices"], answer["choices"]);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_ends_of_the_models_own_list_are_stop_reasons() {
    let folder = model(1);
    let ends = [EOS, 20, 21, 22, 23, 24, 25, 26, 27, 28];
    std::fs::write(folder.path().join("generation_config.json"), json!({"eos_token_id": ends}).to_string()).unwrap();
    let engine = Engine::start(settings(folder.path())).await.unwrap();
    let client = Client(engine.address());
    let fields = json!({"temperature": 1, "seed": 0, "n": 50, "max_tokens": 60, "return_token_ids": true});
    let answer = client.complete(fields.clone()).await.good();
    let mut reasons = 0;
    for choice in answer["choices"].as_array().unwrap() {
        match *tokens(choice).last().unwrap() {
            EOS => assert_eq!(choice["stop_reason"], Value::Null),
            last if ends.contains(&last) => {
                reasons += 1;
                assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!("stop"), &json!(last)));
            }
            _ => assert_eq!(choice["finish_reason"], "length"),
        }
    }
    assert!(reasons > 10, "{reasons}");
    let ignored = client.complete(with(fields, json!({"ignore_eos": true}))).await.good();
    assert!(ignored["choices"].as_array().unwrap().iter().all(|choice| tokens(choice).len() == 60));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_turn_in_the_chat_template_is_a_stop_reason() {
    let folder = model(1);
    let template = "{% for m in messages %}{{ m.content }}{{ pad_token }}{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let engine = Engine::start(settings(folder.path())).await.unwrap();
    let fields = json!({"temperature": 1, "seed": 0, "n": 100, "max_tokens": 100, "return_token_ids": true});
    let answer = Client(engine.address()).complete(fields).await.good();
    let mut ended = 0;
    for choice in answer["choices"].as_array().unwrap() {
        let ids = tokens(choice);
        let is_end = ids.last() == Some(&PAD);
        ended += usize::from(is_end);
        assert!(!ids[..ids.len() - 1].contains(&PAD));
        assert_eq!(choice["stop_reason"], if is_end { json!(PAD) } else { Value::Null });
    }
    assert!(ended > 0);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_text_ends_the_sample_at_the_token_that_completes_it() {
    let served = serve().await;
    let (all, text) = plain(&served).await;
    let characters: Vec<char> = text.chars().collect();
    // Two characters whose first joint occurrence is in the middle.
    let at = (5..characters.len() - 1).find(|&at| {
        let pair: String = characters[at..at + 2].iter().collect();
        text.find(&pair) == text.char_indices().nth(at).map(|(byte, _)| byte)
    });
    let at = at.unwrap();
    let pair: String = characters[at..at + 2].iter().collect();
    let before: String = characters[..at].iter().collect();
    let stopped = again(&served, json!({"stop": [pair, "\u{7f}"]})).await;
    assert_eq!((&stopped["finish_reason"], &stopped["stop_reason"]), (&json!("stop"), &json!(pair)));
    assert_eq!(stopped["text"], json!(before));
    let count = tokens(&stopped).len();
    assert_eq!(tokens(&stopped), all[..count]);
    let kept = again(&served, json!({"stop": pair, "include_stop_str_in_output": true})).await;
    assert_eq!(kept["text"], json!(format!("{before}{pair}")));
    assert_eq!(tokens(&kept), all[..count]);
    // A stream holds back text that may begin the stop text.
    let frames = served
        .client
        .frames(json!({"temperature": 1, "seed": 11, "max_tokens": 60, "ignore_eos": true, "stop": pair}))
        .await;
    let streamed: String = frames.iter().map(|frame| frame["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(streamed, before);
    assert_eq!(frames.last().unwrap()["choices"][0]["stop_reason"], json!(pair));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn max_tokens_and_the_end_of_the_context_are_a_length() {
    let served = serve().await;
    for (prompt, max_tokens, wanted) in [(10, 1, 1), (10, 7, 7), (508, 20, 4), (511, 512, 1), (500, 12, 12)] {
        let fields =
            json!({"prompt": vec![5; prompt], "max_tokens": max_tokens, "ignore_eos": true, "return_token_ids": true});
        let answer = served.client.complete(fields).await.good();
        let choice = &answer["choices"][0];
        assert_eq!((tokens(choice).len(), &choice["finish_reason"]), (wanted, &json!("length")));
        assert_eq!(answer["usage"]["total_tokens"], prompt + wanted);
    }
    // Sixteen by default.
    let answer = served.client.complete(json!({"max_tokens": null, "ignore_eos": true})).await.good();
    assert_eq!(answer["usage"]["completion_tokens"], 16);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_context_is_enforced() {
    let folder = model(1);
    let engine =
        Engine::start(EngineSettings { max_model_len: Some(32), kv_cache_tokens: 32, ..settings(folder.path()) });
    let engine = engine.await.unwrap();
    let client = Client(engine.address());
    let fields = json!({"prompt": vec![5; 20], "max_tokens": 30, "ignore_eos": true});
    assert_eq!(client.complete(fields).await.good()["usage"]["completion_tokens"], 12);
    assert_eq!(client.complete(json!({"prompt": vec![5; 33]})).await.status, 400);
    assert_eq!(client.get("/v1/models").await.good()["data"][0]["max_model_len"], 32);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_min_tokens_no_end_is_drawn() {
    let served = serve().await;
    let stop: Vec<u32> = (4..98).collect();
    let fields = json!({"temperature": 1, "seed": 3, "n": 20, "max_tokens": 12, "min_tokens": 9, "stop_token_ids": stop,
                        "return_token_ids": true, "logprobs": 20});
    let answer = served.client.complete(fields).await.good();
    for choice in answer["choices"].as_array().unwrap() {
        let ids = tokens(choice);
        assert!(ids.len() > 9, "{ids:?}");
        assert!(ids[..9].iter().all(|id| *id != EOS && !stop.contains(id)), "{ids:?}");
        // Tokens that cannot be drawn are not in the reported distribution.
        let top = choice["logprobs"]["top_logprobs"][0].as_object().unwrap();
        let shown = top.iter().filter(|(_, x)| x.as_f64().unwrap() > -9999.0);
        assert!(shown.clone().all(|(token, _)| token.is_empty() || ids_of(token).iter().all(|id| !stop.contains(id))));
    }
    served.engine.stop().await;
}

fn ids_of(token: &str) -> Vec<u32> {
    if token.starts_with('<') && token.len() > 1 { vec![EOS] } else { ids(token) }
}
