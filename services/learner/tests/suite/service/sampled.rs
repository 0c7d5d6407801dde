//! Statistics of the distributions that responses were sampled from.

use std::path::Path;

use evenkeel_model::{Config, NetworkOptions, network};
use evenkeel_proto::v1::{FailureCode, SamplingDistribution, ScoreItem, ScoreWeights, TokenStatistics};

use super::{item, start};
use crate::support::{learner, settings};

fn sampling(top_p: f32, top_k: u32, min_p: f32) -> SamplingDistribution {
    let top_p = Some(top_p);
    let top_k = Some(top_k);
    let min_p = Some(min_p);
    SamplingDistribution { top_p, top_k, min_p, end_token_ids: vec![1, 17] }
}

/// Statistics of a model's logits, position by position: all by their definitions, in f64, over every token of the
/// vocabulary.
fn dense(logits: &[f32], targets: &[u32], temperature: f32, cut: &SamplingDistribution) -> Vec<[f64; 13]> {
    let width = logits.len() / targets.len();
    let of_row = |(row, &target): (&[f32], &u32)| {
        let target = target as usize;
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        let weight = |id: usize| (f64::from(row[id] / temperature) - f64::from(row[order[0]] / temperature)).exp();
        let mut support = order.clone();
        support.retain(|&id| weight(id) >= f64::from(cut.min_p()));
        if cut.top_k() > 0 {
            support.truncate(cut.top_k() as usize);
        }
        let left: f64 = support.iter().map(|&id| weight(id)).sum();
        let mut before = 0.0;
        support.retain(|&id| {
            let is_kept = before < f64::from(cut.top_p()) * left;
            before += weight(id);
            is_kept
        });
        let sum: f64 = support.iter().map(|&id| weight(id)).sum();
        let p = |id: usize| if support.contains(&id) { weight(id) / sum } else { 0.0 };
        let mass = |of: &dyn Fn(usize) -> bool| support.iter().filter(|&&id| of(id)).map(|&id| p(id)).sum::<f64>();
        let mean = |of: &dyn Fn(f64) -> f64| support.iter().map(|&id| p(id) * of(p(id).ln())).sum::<f64>();
        let entropy = -mean(&|log| log);
        let bounded = |log: f64| (log + entropy).clamp(-4.0, 4.0);
        let rank = |id: usize| support.iter().position(|&other| other == id).unwrap_or(support.len()) + 1;
        [
            p(target).ln(),
            entropy,
            mean(&|log| (log + entropy).powi(2)),
            bounded(p(target).ln()) - mean(&bounded),
            mass(&|id| row[id] < row[target]),
            mass(&|id| row[id] == row[target]),
            rank(target) as f64,
            mass(&|id| rank(id) > 5),
            mass(&|id| rank(id) > 50),
            p(order[0]).ln(),
            mass(&|id| p(id) < 0.01 * p(order[0])),
            mass(&|id| p(id) < 0.05 * p(order[0])),
            mass(&|id| id == 1 || id == 17),
        ]
    };
    logits.chunks_exact(width).zip(targets).map(of_row).collect()
}

fn listed(statistics: &TokenStatistics, at: usize) -> [f64; 13] {
    let list = |values: &Vec<f32>| f64::from(values[at]);
    [
        list(&statistics.log_probabilities),
        list(&statistics.entropies),
        list(&statistics.variances),
        list(&statistics.surprises),
        list(&statistics.less_likely),
        list(&statistics.equally_likely),
        f64::from(statistics.ranks[at]),
        list(&statistics.beyond_rank_5),
        list(&statistics.beyond_rank_50),
        list(&statistics.largest_log_probabilities),
        list(&statistics.below_hundredth),
        list(&statistics.below_floor),
        list(&statistics.end_probabilities),
    ]
}

#[tokio::test]
async fn every_statistic_is_that_of_a_dense_computation_from_the_models_logits() {
    let mut service = start().await;
    let mut asked = Vec::new();
    for cut in [sampling(1.0, 0, 0.0), sampling(0.7, 0, 0.0), sampling(1.0, 6, 0.0), sampling(0.9, 12, 0.2)] {
        for temperature in [1.0, 0.7] {
            asked.push(ScoreItem {
                temperature: Some(temperature),
                sampling: Some(cut.clone()),
                entropy: true,
                ..item()
            });
        }
    }
    let answers = service.score(asked.clone()).await;
    let parameters = learner(settings()).parameters().clone();
    let config: Config = crate::support::config();
    let model = network(config.clone(), parameters, candle_core::DType::F32, NetworkOptions::default()).unwrap();
    let item = item();
    let ids = [&item.prompt_token_ids[..], &item.response_token_ids].concat();
    let logits = model.logits(&ids).unwrap();
    // The row of a token predicts the next one.
    let rows = (item.prompt_token_ids.len() - 1) * config.vocab_size..(ids.len() - 1) * config.vocab_size;
    let mut excluded = 0;
    for (asked, answer) in asked.iter().zip(&answers) {
        let statistics = answer.statistics.as_ref().unwrap();
        assert!(statistics.has_length(5));
        let temperature = asked.temperature.unwrap();
        let cut = asked.sampling.as_ref().unwrap();
        for (at, wanted) in dense(&logits[rows.clone()], &item.response_token_ids, temperature, cut).iter().enumerate()
        {
            for (number, (found, wanted)) in listed(statistics, at).iter().zip(wanted).enumerate() {
                let is_close = found == wanted || (found - wanted).abs() < 2e-6 * wanted.abs().max(1.0);
                assert!(is_close, "statistic {number} at {at} with {cut:?}: {found} is not {wanted}");
            }
            excluded += usize::from(wanted[0] == f64::NEG_INFINITY);
        }
    }
    assert!(excluded > 0, "no token was outside the support");
}

#[tokio::test]
async fn with_statistics_the_plain_scores_stay_what_they_are() {
    let mut service = start().await;
    let plain = ScoreItem { entropy: true, temperature: Some(0.7), ..item() };
    let truncated = ScoreItem { sampling: Some(sampling(0.5, 3, 0.1)), ..plain.clone() };
    let answers = service.score(vec![plain, truncated]).await;
    assert!(answers[0].statistics.is_none());
    let close = |a: &[f32], b: &[f32]| a.len() == 5 && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(close(&answers[0].log_probabilities, &answers[1].log_probabilities));
    assert!(close(&answers[0].entropies, &answers[1].entropies));
}

#[tokio::test]
async fn statistics_do_not_depend_on_what_else_is_scored_or_on_threads() {
    let mut service = start().await;
    let asked = ScoreItem { sampling: Some(sampling(0.9, 0, 0.0)), ..item() };
    let alone = service.score(vec![asked.clone()]).await[0].statistics.clone().unwrap();
    let others = (0..40).map(|number| ScoreItem { prompt_token_ids: vec![2 + number % 20; 30], ..asked.clone() });
    let together = service.score(std::iter::once(asked.clone()).chain(others).collect()).await;
    assert_eq!(together[0].statistics.as_ref(), Some(&alone));
    let mut training = settings();
    training.compute.threads = 1;
    let single = super::start_training(training).await.score(vec![asked]).await;
    assert_eq!(single[0].statistics.as_ref(), Some(&alone));
}

#[tokio::test]
async fn distributions_that_cannot_be_are_refused() {
    let mut service = start().await;
    let item_with = |sampling| ScoreItem { sampling: Some(sampling), ..item() };
    let ends = |end_token_ids: Vec<u32>| SamplingDistribution { end_token_ids, ..SamplingDistribution::default() };
    let cases = [
        (item_with(sampling(0.0, 0, 0.0)), "sampling.top_p"),
        (item_with(sampling(f32::NAN, 0, 0.0)), "sampling.top_p"),
        (item_with(sampling(1.0, 0, 1.5)), "sampling.min_p"),
        (item_with(ends(vec![400])), "sampling.end_token_ids[0]"),
        (item_with(ends(vec![1; 65])), "sampling.end_token_ids"),
    ];
    let answers = service.score(cases.iter().map(|(item, _)| item.clone()).collect()).await;
    for (answer, (_, field)) in answers.iter().zip(cases) {
        let failure = answer.failure.as_ref().unwrap();
        assert_eq!((failure.code(), failure.violations[0].field.as_str()), (FailureCode::InvalidArgument, field));
    }
}

#[tokio::test]
async fn statistics_of_broken_weights_fail_and_do_not_pass_for_numbers() {
    let mut service = start().await;
    service.publish(evenkeel_proto::v1::PublishRequest::default()).await;
    service.step(1, 0).await.unwrap();
    let weights = Some(ScoreWeights { version: 0, ..ScoreWeights::default() });
    let asked = ScoreItem { weights, sampling: Some(SamplingDistribution::default()), ..item() };
    assert!(service.score(vec![asked.clone()]).await[0].failure.is_none());
    // Read anew, since a publication drops what was read.
    service.publish(evenkeel_proto::v1::PublishRequest::default()).await;
    damage(&service.folder.path().join("weights/step-0"));
    let failure = service.score(vec![asked]).await[0].failure.clone().unwrap();
    assert!(failure.message.contains("not finite"), "{}", failure.message);
}

/// Makes the last values of the weights NaN.
fn damage(folder: &Path) {
    let file = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 16..].copy_from_slice(&f32::NAN.to_le_bytes().repeat(4));
    std::fs::write(file, bytes).unwrap();
}
