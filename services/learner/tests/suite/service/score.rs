//! Scoring.

use evenkeel_config::ByteSize;
use evenkeel_proto::v1::{ScoreItem, ScoreRequest, score_request};

use super::{start, start_with};
use crate::support::{learner, settings};

#[tokio::test]
async fn scores_match_those_of_the_library_and_an_invalid_item_fails_alone() {
    let mut service = start().await;
    let item = |id: &str, prompt: &[u32], response: &[u32]| ScoreItem {
        id: id.into(),
        prompt_token_ids: prompt.to_vec(),
        response_token_ids: response.to_vec(),
        temperature: Some(0.8),
        entropy: true,
        ..ScoreItem::default()
    };
    let items = vec![item("a", &[2, 3], &[4, 5, 6]), item("bad", &[2], &[400]), item("b", &[7], &[8])];
    let requests = items.into_iter().map(|item| ScoreRequest { kind: Some(score_request::Kind::Item(item)) });
    let mut answers =
        service.client.score(tokio_stream::iter(requests.collect::<Vec<_>>())).await.unwrap().into_inner();
    let wanted = learner(settings()).score(&[(&[2, 3], &[4, 5, 6]), (&[7], &[8])], 0.8).unwrap();
    let mut seen = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        seen += 1;
        let wanted = match answer.id.as_str() {
            "a" => &wanted[0],
            "b" => &wanted[1],
            _ => {
                assert!(answer.failure.unwrap().message.contains("400"));
                continue;
            }
        };
        let close = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(&answer.log_probabilities, &wanted.logp) && close(&answer.entropies, &wanted.entropy));
    }
    assert_eq!(seen, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_to_score_beyond_the_memory_limit_are_refused() {
    let mut service = start_with(|settings| {
        settings.server.max_message = ByteSize::kib(4);
        settings.max_memory = ByteSize::kib(4);
    })
    .await;
    let item = |id: &str, tokens: usize| ScoreItem {
        id: id.into(),
        prompt_token_ids: vec![2; tokens],
        response_token_ids: vec![3],
        temperature: Some(1.0),
        ..ScoreItem::default()
    };
    let requests = tokio_stream::iter([ScoreRequest::from(item("large", 3_950)), item("small", 2).into()]);
    let mut scores = service.client.score(requests).await.unwrap().into_inner();
    let mut failures = Vec::new();
    while let Some(score) = scores.message().await.unwrap() {
        failures.extend(score.failure.map(|failure| (score.id, failure.reason)));
    }
    assert_eq!(failures, [("large".to_owned(), "BYTES_FULL".to_owned())], "with its structure it is more than fits");
}
