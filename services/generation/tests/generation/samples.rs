//! Samples as their caller sees them: each is answered once, on its own, with everything that training needs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::completions::token;
use crate::support::{FakeEngine, Reply, Service, bounded, content, item, items, settings, until, with_tokens};
use evenkeel_generation::GenerationSettings;
use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{CancelItem, FailureCode, FinishReason, GenerateItem, LogProbabilityMode, Segment};
use serde_json::json;

#[tokio::test]
async fn a_rollout_describes_itself_completely() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        let asked = GenerateItem { group_id: "g".into(), ..item("a", 7) };
        let rollout = service.draw(asked.clone()).await;
        assert_eq!((rollout.sample_id.as_str(), rollout.group_id.as_str()), ("a", "g"));
        assert_eq!(rollout.prompt_token_ids, [3, 4, 5]);
        assert_eq!((rollout.finish_reason(), rollout.stop_token_id), (FinishReason::Length, None));
        assert_eq!(rollout.sampling, asked.sampling);
        assert_eq!(rollout.log_probability_mode(), LogProbabilityMode::Processed);
        assert_eq!((rollout.engine, rollout.engine_version.as_str()), (engine.name(), "vllm 0.32.0"));
        assert_eq!((rollout.attempts, &rollout.failure), (1, &None));
        assert!(rollout.timings.unwrap().total_us > 0);
        let [segment] = rollout.segments.as_slice() else { panic!("{:?}", rollout.segments) };
        assert_eq!(segment.policy_version, Some(0));
        let request = &engine.asked()[0];
        let expected: (Vec<u32>, Vec<f32>) =
            (0..8).map(|i| token(request, "default", i)).map(|(id, value)| (id as u32, value)).unzip();
        assert_eq!((segment.token_ids.clone(), segment.log_probabilities.clone()), expected);
    })
    .await;
}

#[tokio::test]
async fn a_segment_names_its_engine_with_its_arithmetic_and_the_seed_that_it_was_given() {
    bounded(async {
        for (says, named) in [(json!({}), ""), (json!({"arithmetic": "bits-1"}), "bits-1")] {
            let engine = FakeEngine::start();
            *engine.shared.server_info.lock().unwrap() = json!({"vllm_config": {"model_config": says}});
            let service = Service::start(&[&engine]).await;
            let rollout = service.draw(item("a", 7)).await;
            let segment = &rollout.segments[0];
            let seed = (!named.is_empty()).then_some(7);
            assert_eq!(
                (segment.engine.as_str(), segment.arithmetic.as_str(), segment.seed),
                (engine.name().as_str(), named, seed)
            );
            assert_eq!(service.status().await.engines[0].arithmetic, named);
        }
    })
    .await;
}

#[tokio::test]
async fn a_turn_goes_back_to_the_engine_that_it_names_and_to_any_other_where_there_is_none() {
    bounded(async {
        let engines = [FakeEngine::start(), FakeEngine::start(), FakeEngine::start()];
        let service = Service::start(&[&engines[0], &engines[1], &engines[2]]).await;
        for engine in &engines {
            let turns = (0..5).map(|turn| GenerateItem {
                preferred_engine: engine.name().to_owned(),
                ..item(format!("{} {turn}", engine.name()), turn)
            });
            let rollouts = service.draw_all(turns.collect()).await;
            assert!(rollouts.values().all(|rollout| rollout.engine == engine.name()), "all of them stay with it");
        }
        let gone = GenerateItem { preferred_engine: "127.0.0.1:1".to_owned(), ..item("a", 1) };
        let rollout = service.draw(gone).await;
        assert_eq!(
            (rollout.finish_reason(), rollout.attempts),
            (FinishReason::Length, 1),
            "a hint, and no requirement"
        );
    })
    .await;
}

#[tokio::test]
async fn every_sampling_field_is_sent() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        let sampling = SamplingSettings {
            temperature: 0.5,
            top_p: 0.25,
            top_k: 7,
            min_p: 0.125,
            repetition_penalty: 1.5,
            min_tokens: 2,
            stop_token_ids: vec![63],
            ignore_eos: true,
            ..SamplingSettings::plain(8, 1 << 62)
        };
        let mut asked = item("a/b", 0);
        asked.sampling = Some(sampling.into());
        service.draw(asked).await;
        let sent = &engine.asked()[0];
        for (field, value) in [("temperature", 0.5), ("top_p", 0.25), ("min_p", 0.125), ("repetition_penalty", 1.5)] {
            assert_eq!(sent[field].as_f64(), Some(value), "{field}");
        }
        for (field, value) in
            [("top_k", 7), ("min_tokens", 2), ("max_tokens", 8), ("n", 1), ("logprobs", 0), ("seed", 1 << 62)]
        {
            assert_eq!(sent[field].as_u64(), Some(value), "{field}");
        }
        assert_eq!((&sent["ignore_eos"], &sent["return_token_ids"]), (&true.into(), &true.into()));
        assert_eq!(sent["stop_token_ids"][0], 63);
        assert_eq!(sent["cache_salt"], "default", "prefixes belong to the weights");
    })
    .await;
}

#[tokio::test]
async fn samples_come_back_as_they_end() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|body| Reply::Tick(Duration::from_millis(body["seed"].as_u64().unwrap())));
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        for (id, tick) in [("slow", 60), ("middle", 30), ("fast", 1)] {
            stream.send(item(id, tick)).await;
        }
        let order = [stream.next().await.sample_id, stream.next().await.sample_id, stream.next().await.sample_id];
        assert_eq!(order, ["fast", "middle", "slow"]);
        assert_eq!(stream.end().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn thousands_of_samples_are_each_answered_once_with_the_content_of_their_seed() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let three = FakeEngine::start();
        two.script(|body| Reply::Tick(Duration::from_micros(body["seed"].as_u64().unwrap() % 7 * 100)));
        let alone = Service::start(&[&one]).await;
        let many = Service::start(&[&two, &three]).await;
        let first = alone.draw_all(items(3000)).await;
        let second = many.draw_all(items(3000)).await;
        assert_eq!(first.len(), 3000);
        for (id, rollout) in &first {
            assert_eq!(content(rollout), content(&second[id]), "{id}: timing and engine decide nothing");
        }
        let used: BTreeSet<&str> = second.values().map(|rollout| rollout.engine.as_str()).collect();
        assert_eq!(used.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_sample_is_answered_and_its_engine_freed() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|body| if body["seed"] == 1 { Reply::Hang } else { Reply::Answer });
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(item("a", 1)).await;
        until(|| engine.live() == 1).await;
        stream.send(CancelItem::new("nobody")).await;
        stream.send(CancelItem::new("a")).await;
        let rollout = stream.next().await;
        assert_eq!((rollout.sample_id.as_str(), rollout.finish_reason()), ("a", FinishReason::Cancelled));
        assert_eq!(rollout.failure.unwrap().code(), FailureCode::Cancelled);
        assert!(rollout.segments.is_empty());
        until(|| engine.live() == 0).await;
        stream.send(item("b", 2)).await;
        assert_eq!(stream.next().await.finish_reason(), FinishReason::Length);
        assert_eq!(service.status().await.engines[0].in_flight_tokens, 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_frees_everything() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Hang);
        let service = Service::start(&[&engine]).await;
        let stream = service.stream().await;
        for seed in 0..20 {
            stream.send(item(format!("{seed}"), seed)).await;
        }
        until(|| engine.live() == 20).await;
        drop(stream);
        until(|| engine.live() == 0).await;
        loop {
            let status = service.status().await;
            if status.queue.unwrap().running_items == 0 && status.engines[0].in_flight_items == 0 {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_deadline_ends_a_sample_and_nothing_else() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|body| if body["seed"] == 1 { Reply::Hang } else { Reply::Answer });
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        let begun = Instant::now();
        stream.send(GenerateItem { deadline_ms: Some(100), ..item("late", 1) }).await;
        let rollout = stream.next().await;
        assert_eq!(rollout.finish_reason(), FinishReason::Deadline);
        assert_eq!(rollout.failure.unwrap().code(), FailureCode::DeadlineExceeded);
        assert!(begun.elapsed() >= Duration::from_millis(100));
        until(|| engine.live() == 0).await;
        stream.send(item("next", 2)).await;
        assert_eq!(stream.next().await.finish_reason(), FinishReason::Length);
    })
    .await;
}

#[tokio::test]
async fn the_deadline_of_an_engine_begins_when_it_has_the_sample() {
    bounded(async {
        let engine = FakeEngine::start();
        // The first sample keeps the engine for two seconds; the others follow at once when their turn comes.
        engine.script(|body| match body["seed"].as_u64() {
            Some(0) => Reply::Tick(Duration::from_millis(250)),
            _ => Reply::Answer,
        });
        let service = Service::with(GenerationSettings { max_in_flight: 1, ..settings(&[&engine]) }).await;
        let mut stream = service.stream().await;
        let begun = Instant::now();
        stream.send(item("0", 0)).await;
        until(|| engine.live() == 1).await;
        for seed in 1..10 {
            stream.send(GenerateItem { engine_deadline_ms: Some(1_000), ..item(format!("{seed}"), seed) }).await;
        }
        for _ in 0..10 {
            assert_eq!(stream.next().await.finish_reason(), FinishReason::Length);
        }
        assert!(begun.elapsed() > Duration::from_millis(1_000), "they waited longer than their deadline");
    })
    .await;
}

#[tokio::test]
async fn a_sample_that_takes_its_engine_too_long_ends_with_a_reason_of_its_own_and_frees_the_engine() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|body| if body["seed"] == 1 { Reply::Hang } else { Reply::Answer });
        let service = Service::with(GenerationSettings { max_in_flight: 1, ..settings(&[&engine]) }).await;
        let mut stream = service.stream().await;
        stream.send(GenerateItem { engine_deadline_ms: Some(100), ..item("late", 1) }).await;
        stream.send(item("next", 2)).await;
        let late = stream.next().await;
        assert_eq!((late.sample_id.as_str(), late.finish_reason()), ("late", FinishReason::Deadline));
        let failure = late.failure.unwrap();
        assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::DeadlineExceeded, "ENGINE_DEADLINE"));
        assert!(late.segments.is_empty());
        assert_eq!(stream.next().await.finish_reason(), FinishReason::Length, "the engine is free again");
    })
    .await;
}

#[tokio::test]
async fn partial_samples_are_kept_if_the_caller_asks() {
    bounded(async {
        let engine = FakeEngine::start();
        engine
            .script(|body| if body["stream"] == true { Reply::Tick(Duration::from_millis(10)) } else { Reply::Answer });
        let service = Service::start(&[&engine]).await;
        let whole = service.draw(with_tokens(item("whole", 9), 300)).await;
        let mut stream = service.stream().await;
        let partial = GenerateItem { keep_partial: true, ..with_tokens(item("a", 9), 300) };
        stream.send(partial.clone()).await;
        stream.send(GenerateItem { deadline_ms: Some(300), sample_id: "b".into(), ..partial }).await;
        until(|| engine.live() == 2).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        stream.send(CancelItem::new("a")).await;
        for (id, reason) in [("a", FinishReason::Cancelled), ("b", FinishReason::Deadline)] {
            let rollout = stream.next().await;
            assert_eq!((rollout.sample_id.as_str(), rollout.finish_reason()), (id, reason));
            let (ids, values) = content(&rollout);
            let (all_ids, all_values) = content(&whole);
            assert!(!ids.is_empty() && ids.len() < 300, "{} tokens", ids.len());
            assert_eq!(ids, all_ids[..ids.len()]);
            assert_eq!(values, all_values[..ids.len()]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_partial_rollout_is_continued() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        let prefix = vec![Segment::sampled(vec![10, 11], vec![-0.5, -0.25], 0), Segment::injected(vec![12])];
        let asked = GenerateItem {
            prefix_segments: prefix.clone(),
            parent_sample_id: Some("parent".into()),
            ..with_tokens(item("child", 1), 600)
        };
        let rollout = service.draw(asked).await;
        assert_eq!(engine.asked()[0]["prompt"], serde_json::json!([3, 4, 5, 10, 11, 12]));
        assert_eq!(rollout.parent_sample_id.as_deref(), Some("parent"));
        assert_eq!(rollout.segments[..2], prefix);
        // The context is 512.
        assert_eq!(rollout.segments[2].token_ids.len(), 506);
        assert_eq!((rollout.prompt_token_ids.len(), rollout.finish_reason()), (3, FinishReason::Length));
    })
    .await;
}

#[tokio::test]
async fn an_invalid_item_is_refused_by_name_and_costs_no_sample() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        let mut no_tokens = item("a", 1);
        no_tokens.sampling.as_mut().unwrap().max_tokens = Some(0);
        let mut cold = item("b", 1);
        cold.sampling.as_mut().unwrap().temperature = Some(-1.0);
        let long = GenerateItem { prompt_token_ids: vec![1; 512], ..item("c", 1) };
        let old = GenerateItem { policy_version: Some(4), ..item("d", 1) };
        let rollouts = service.draw_all(vec![no_tokens, cold, long, old]).await;
        let refused = |id: &str| rollouts[id].failure.clone().unwrap();
        assert_eq!(refused("a").message, "sampling.max_tokens is 0, allowed: at least 1");
        assert_eq!(refused("b").violations[0].field, "sampling.temperature");
        assert!(refused("c").message.contains("the context is 512"));
        assert_eq!(refused("c").code(), FailureCode::InvalidArgument);
        assert_eq!(refused("d").code(), FailureCode::FailedPrecondition);
        assert_eq!(refused("d").message, "policy_version is 4, allowed: 0, which the engines have");
        assert!(engine.asked().is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_overloaded_service_refuses_at_once() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Hang);
        let service =
            Service::with(GenerationSettings { max_items: 4, max_in_flight: 2, ..settings(&[&engine]) }).await;
        let mut stream = service.stream().await;
        for seed in 0..6 {
            stream.send(item(format!("{seed}"), seed)).await;
        }
        for _ in 0..2 {
            let failure = stream.next().await.failure.unwrap();
            assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::ResourceExhausted, "QUEUE_FULL"));
        }
        until(|| engine.live() == 2).await;
        let status = service.status().await;
        assert_eq!((status.queue.unwrap().capacity_items, status.engines[0].in_flight_items), (4, 2));
        assert_eq!(status.engines[0].in_flight_tokens, 16);
        stream.send(CancelItem::new("0")).await;
        assert_eq!(stream.next().await.sample_id, "0");
        // Its place goes to one that waited.
        until(|| engine.asked().len() == 3).await;
    })
    .await;
}

#[tokio::test]
async fn the_samples_of_a_group_share_an_engine() {
    bounded(async {
        let engines = [FakeEngine::start(), FakeEngine::start(), FakeEngine::start()];
        let service = Service::start(&[&engines[0], &engines[1], &engines[2]]).await;
        let mut used = BTreeSet::new();
        for group in items(320).chunks(16) {
            let rollouts = service.draw_all(group.to_vec()).await;
            let engines: BTreeSet<String> = rollouts.into_values().map(|rollout| rollout.engine).collect();
            assert_eq!(engines.len(), 1, "{} went to {engines:?}", group[0].group_id);
            used.extend(engines);
        }
        assert_eq!(used.len(), 3);
    })
    .await;
}
