//! Tokens of samples that are drawn again by their seeds.

use evenkeel_model::decode::DecodeStep;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::sampling::{DrawOptions, Sampler, Truncation};
use evenkeel_model::{Config, Decoder};
use evenkeel_proto::v1::{FailureCode, SamplingDistribution, ScoreItem, ScoreWeights, SeededTokens};
use evenkeel_seeds::{Stream, Uniforms};

use super::{item, start};

const TEMPERATURE: f32 = 0.8;
const PROMPT: [u32; 3] = [2, 3, 9];
/// Half of the tokens, so that drawing without them is another draw.
const ENDS: [u32; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

/// What an engine draws from published weights with a seed, the first `early` tokens without the ends.
fn drawn(folder: &std::path::Path, seed: u64, count: usize, early: usize) -> Vec<u32> {
    let (config, _) = Config::load(folder).unwrap();
    let decoder = Decoder::load(folder, config, Cpu::new().unwrap(), 1).unwrap();
    let mut cache = decoder.sequence().unwrap();
    let mut uniforms = Uniforms::new(seed, Stream::Tokens);
    let mut ids = PROMPT.to_vec();
    for number in 0..count {
        let step = DecodeStep { temperature: TEMPERATURE, ..DecodeStep::new(&mut cache, &ids[cache_length(number)..]) };
        let mut row = decoder.step(&mut [step]).unwrap();
        let excluded: &[u32] = if number < early { &ENDS } else { &[] };
        let options = DrawOptions { temperature: 1.0, truncation: Truncation::NONE, excluded, logprobs: None };
        let number = uniforms.at(number as u64);
        ids.push(Sampler::default().draw(&mut row, options, number, &mut Vec::new()).unwrap().id);
    }
    ids.split_off(PROMPT.len())
}

/// Tokens in the cache before a draw.
fn cache_length(number: usize) -> usize {
    if number == 0 { 0 } else { PROMPT.len() + number - 1 }
}

#[tokio::test]
async fn a_seed_gives_the_tokens_that_an_engine_has_drawn_and_shows_any_other() {
    let mut service = start().await;
    service.publish(Default::default()).await;
    let folder = service.folder.path().join("weights");
    let published = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let (first, second) = (drawn(&published, 11, 12, 0), 5);
    let mut response = first.clone();
    // Tokens without a seed, as those that an environment injects.
    response.extend([4, 4]);
    let seeded = vec![SeededTokens { first: 0, count: first.len() as u32, seed: 11 }];
    let asked = ScoreItem {
        prompt_token_ids: PROMPT.to_vec(),
        response_token_ids: response.clone(),
        temperature: Some(TEMPERATURE),
        weights: Some(ScoreWeights::default()),
        sampling: Some(SamplingDistribution::default()),
        seeded,
        ..ScoreItem::default()
    };
    let mut changed = asked.clone();
    changed.response_token_ids[second] = (response[second] + 1) % 20;
    let answers = service.score(vec![asked, changed]).await;
    let drawn = |number: usize| answers[number].statistics.clone().unwrap().drawn_token_ids;
    assert_eq!(drawn(0), response);
    assert_eq!(drawn(1)[..=second], response[..=second], "what was changed is not what the seed gives");
}

#[tokio::test]
async fn tokens_before_which_nothing_ends_are_drawn_again_without_the_end_tokens() {
    let mut service = start().await;
    service.publish(Default::default()).await;
    let folder = service.folder.path().join("weights");
    let published = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let early = 6;
    let response = drawn(&published, 11, 12, early);
    let asked = |min_tokens| ScoreItem {
        prompt_token_ids: PROMPT.to_vec(),
        response_token_ids: response.clone(),
        temperature: Some(TEMPERATURE),
        weights: Some(ScoreWeights::default()),
        sampling: Some(SamplingDistribution { end_token_ids: ENDS.to_vec(), ..Default::default() }),
        seeded: vec![SeededTokens { first: 0, count: response.len() as u32, seed: 11 }],
        min_tokens,
        ..ScoreItem::default()
    };
    let answers = service.score(vec![asked(early as u32), asked(0), asked(13)]).await;
    let statistics = |number: usize| answers[number].statistics.clone().unwrap();
    assert_eq!(statistics(0).drawn_token_ids, response);
    let ends = |number: usize| statistics(number).end_probabilities[..early].iter().sum::<f32>();
    assert!(ends(0) == 0.0 && ends(1) > 0.0);
    assert_ne!(statistics(1).drawn_token_ids, response, "with them its numbers give other tokens");
    let refused = answers[2].failure.clone().unwrap().message;
    assert!(refused.starts_with("min_tokens is 13, allowed: at most 12"), "{refused}");
}

#[tokio::test]
async fn seeds_beyond_the_response_and_without_a_distribution_are_refused() {
    let mut service = start().await;
    let seeded = |first, count| vec![SeededTokens { first, count, seed: 1 }];
    let sampling = Some(SamplingDistribution::default());
    let items = vec![
        ScoreItem { seeded: seeded(4, 2), sampling: sampling.clone(), ..item() },
        ScoreItem { seeded: seeded(0, 0), sampling, ..item() },
        ScoreItem { seeded: seeded(0, 1), ..item() },
    ];
    for answer in service.score(items).await {
        let failure = answer.failure.unwrap();
        assert_eq!(failure.code(), FailureCode::InvalidArgument);
        assert!(failure.message.starts_with("seeded[0] is "), "{}", failure.message);
    }
}
