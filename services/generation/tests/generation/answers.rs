//! Responses of engines are validated. An invalid one never becomes data: the sample is retried with the same seed and
//! id, and its content is the same in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{FakeEngine, Reply, Service, bounded, content, item, settings};
use evenkeel_generation::{GenerationSettings, StreamSetting};
use evenkeel_proto::v1::{FailureCode, FinishReason, Rollout};

type Garble = fn(String) -> String;

const WHOLE: [(&str, Garble); 13] = [
    ("cut", |text| text[..text.len() / 2].to_owned()),
    ("no json", |_| "<html>busy</html>".to_owned()),
    ("empty", |_| String::new()),
    ("error with a good status", |_| r#"{"error":{"message":"engine died","code":500}}"#.to_owned()),
    ("NaN", |text| text.replacen("\"token_logprobs\":[-", "\"token_logprobs\":[NaN,-", 1)),
    ("minus infinity", |text| text.replacen("\"token_logprobs\":[-", "\"token_logprobs\":[-9999.0,-", 1)),
    ("one log-probability too few", |text| drop_first(&text, "token_logprobs")),
    ("one id too few", |text| drop_first(&text, "token_ids")),
    ("one of each too few", |text| drop_first(&drop_first(&text, "token_logprobs"), "token_ids")),
    ("no ids", |text| text.replace("\"token_ids\"", "\"other_ids\"")),
    ("no reason to end", |text| text.replace("\"length\"", "null")),
    ("another prompt", |text| text.replace("\"prompt_token_ids\":[3,", "\"prompt_token_ids\":[9,")),
    ("an abort of nobody", |text| text.replace("\"length\"", "\"abort\"")),
];

const STREAMED: [(&str, Garble); 6] = [
    ("no end", |text| if text.contains("[DONE]") { String::new() } else { text }),
    ("no reason to end", |text| text.replace("\"finish_reason\":\"length\"", "\"finish_reason\":null")),
    ("an error in the middle", |text| {
        text.replace("\"finish_reason\":\"length\"", "\"finish_reason\":null")
            .replace("[DONE]", r#"{"error":{"message":"out of memory"}}"#)
    }),
    ("above 0", |text| text.replace("\"token_logprobs\":[-", "\"token_logprobs\":[")),
    ("null", |text| text.replace("\"token_logprobs\":[-", "\"token_logprobs\":[null,-")),
    ("garbage", |text| text.replace("\"choices\"", "\"choices")),
];

fn drop_first(text: &str, list: &str) -> String {
    // `prompt_token_ids` ends as `token_ids` does.
    let at = text.find(&format!("\"{list}\":[")).unwrap() + list.len() + 4;
    let comma = text[at..].find(',').unwrap();
    format!("{}{}", &text[..at], &text[at + comma + 1..])
}

/// A script that gives `reply` to the first `times` requests.
fn first(times: usize, reply: Reply) -> impl Fn(&serde_json::Value) -> Reply + Send + Sync {
    let count = Arc::new(AtomicUsize::new(0));
    move |_| if count.fetch_add(1, Ordering::SeqCst) < times { reply.clone() } else { Reply::Answer }
}

async fn retried(cases: &[(&str, Garble)], stream: StreamSetting) {
    let engine = FakeEngine::start();
    let service = Service::with(GenerationSettings { stream, ..settings(&[&engine]) }).await;
    let good = service.draw(item("good", 5)).await;
    for (name, garble) in cases {
        engine.script(first(1, Reply::Garble(*garble)));
        let rollout = service.draw(item(*name, 5)).await;
        assert_eq!(rollout.attempts, 2, "{name}: {rollout:?}");
        assert_eq!(rollout.finish_reason(), FinishReason::Length, "{name}");
        assert_eq!(content(&rollout), content(&good), "{name}");
    }
}

#[tokio::test]
async fn invalid_responses_are_retried() {
    bounded(retried(&WHOLE, StreamSetting::WhenPartial)).await;
}

#[tokio::test]
async fn invalid_streams_are_retried() {
    bounded(retried(&STREAMED, StreamSetting::Always)).await;
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_response_costs_an_attempt() {
    bounded(async {
        let engine = FakeEngine::start();
        for stream in [StreamSetting::WhenPartial, StreamSetting::Always] {
            let service = Service::with(GenerationSettings { stream, ..settings(&[&engine]) }).await;
            for after in [0, 3, 100] {
                engine.script(first(1, Reply::Break(after)));
                let rollout = service.draw(item("a", 5)).await;
                let expected = if stream == StreamSetting::Always && after == 100 { 1 } else { 2 };
                assert_eq!((rollout.attempts, rollout.finish_reason()), (expected, FinishReason::Length));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn another_engine_takes_over_from_one_that_fails() {
    bounded(async {
        let bad = FakeEngine::start();
        let good = FakeEngine::start();
        bad.script(|_| Reply::Status(500, r#"{"error":{"message":"no"}}"#.into()));
        let mut settings = settings(&[&bad, &good]);
        // However long the samples take, no probe comes between them.
        (settings.engine.probe_initial, settings.engine.probe_max) = (Duration::from_secs(60), Duration::from_secs(60));
        let threshold = settings.engine.breaker_failures as usize;
        let service = Service::with(settings).await;
        let check = |id: &str, rollout: &Rollout| {
            assert_eq!(rollout.finish_reason(), FinishReason::Length, "{id}: {:?}", rollout.failure);
            assert_eq!(rollout.engine, good.name());
        };
        // One after the other, so that every failure is known before the next sample is assigned.
        for seed in 0..50 {
            check("one", &service.draw(item("one", seed)).await);
        }
        assert_eq!(bad.asked().len(), threshold, "until its breaker trips");
        for (id, rollout) in &service.draw_all(crate::support::items(200)).await {
            check(id, rollout);
        }
        assert_eq!(bad.asked().len(), threshold, "and none before a probe succeeds");
    })
    .await;
}

#[tokio::test]
async fn a_burst_of_failures_loses_nothing() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(first(12, Reply::Status(503, "{}".into())));
        let settings = GenerationSettings { max_attempts: 20, ..settings(&[&engine]) };
        let rollouts = Service::with(settings).await.draw_all(crate::support::items(64)).await;
        assert!(rollouts.values().all(|rollout| rollout.finish_reason() == FinishReason::Length));
    })
    .await;
}

#[tokio::test]
async fn attempts_are_bounded_and_the_last_error_is_reported() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Garble(|text| text.replace("\"length\"", "null")));
        let rollout = Service::start(&[&engine]).await.draw(item("a", 1)).await;
        let failure = rollout.failure.unwrap();
        assert_eq!((rollout.attempts, engine.asked().len()), (4, 4));
        assert!(rollout.segments.is_empty());
        assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::Unavailable, "ENGINES_FAILED"));
        assert!(
            failure.message.contains("4 attempts failed") && failure.message.contains("finish_reason is absent"),
            "{}",
            failure.message
        );
    })
    .await;
}

#[tokio::test]
async fn what_an_engine_refuses_is_the_items_own_fault() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| {
            Reply::Status(400, r#"{"error":{"message":"Token id 60 is out of vocabulary","code":400}}"#.into())
        });
        let service = Service::start(&[&engine]).await;
        let failure = service.draw(item("a", 1)).await.failure.unwrap();
        assert_eq!(failure.code(), FailureCode::InvalidArgument);
        assert!(failure.message.contains("Token id 60 is out of vocabulary"));
        assert_eq!(engine.asked().len(), 1);
        assert_eq!(service.status().await.engines[0].consecutive_failures, 0);
    })
    .await;
}
