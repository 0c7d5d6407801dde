//! Log-probabilities of engines that compute as the learner does.

use evenkeel_learner::{OldLogp, PublishOptions, TrainingSettings};
use evenkeel_model::kernels::cpu::ARITHMETIC;
use evenkeel_proto::v1::{
    LearnerGetStatusRequest, ScoreItem, SegmentSource, TrainGroup, TrainHeader, TrainKind, train_request,
};

use super::{TestService, message, report, start_from_with};
use crate::support::{learner, settings};

/// A service whose steps have two updates, of a group each.
async fn start(old_logp: OldLogp) -> TestService {
    let training = TrainingSettings { mini_batch_groups: 1, old_logp, ..settings() };
    let folder = tempfile::tempdir().unwrap();
    let model = learner(settings()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    start_from_with(folder, &model, training, |_| {}).await
}

/// Two groups as an engine with this learner's weights reports them.
async fn groups(service: &mut TestService) -> [TrainGroup; 2] {
    let mut groups = Vec::new();
    for index in 0..2 {
        let train_request::Kind::Group(mut group) = message(index, index as u32) else { unreachable!() };
        let ids = |sample: &evenkeel_proto::v1::TrainSample| {
            sample.segments.iter().flat_map(|segment| segment.token_ids.clone()).collect::<Vec<u32>>()
        };
        let item = |response_token_ids| ScoreItem {
            prompt_token_ids: group.prompt_token_ids.clone(),
            response_token_ids,
            temperature: Some(settings().temperature),
            ..ScoreItem::default()
        };
        let scores = service.score(group.samples.iter().map(|sample| item(ids(sample))).collect()).await;
        for (sample, scores) in group.samples.iter_mut().zip(scores) {
            let mut at = 0;
            for segment in &mut sample.segments {
                let count = segment.token_ids.len();
                if segment.source() == SegmentSource::Sampled {
                    segment.log_probabilities = scores.log_probabilities[at..at + count].to_vec();
                    segment.arithmetic = ARITHMETIC.to_owned();
                }
                at += count;
            }
        }
        groups.push(group);
    }
    groups.try_into().unwrap()
}

fn header(service: &TestService) -> TrainHeader {
    TrainHeader { equal_arithmetic: ARITHMETIC.to_owned(), ..service.header(TrainKind::Grpo, 1, 0, 2) }
}

/// Changes the last bit of a sampled token's log-probability.
fn change(group: &mut TrainGroup) {
    let sampled = group.samples.iter_mut().flat_map(|sample| &mut sample.segments);
    let segment = sampled.filter(|segment| !segment.log_probabilities.is_empty()).nth(1).unwrap();
    segment.log_probabilities[0] = f32::from_bits(segment.log_probabilities[0].to_bits() + 1);
}

#[tokio::test]
async fn equal_log_probabilities_are_counted() {
    for (old_logp, updates) in [(OldLogp::Proximal, 2), (OldLogp::Rollout, 1)] {
        let mut service = start(old_logp).await;
        let groups = groups(&mut service).await;
        // With the engine's own as the old ones the second group is first scored under changed weights.
        let sampled = groups[..updates].iter().flat_map(|group| &group.samples).flat_map(|sample| &sample.segments);
        let tokens: usize = sampled.map(|segment| segment.log_probabilities.len()).sum();
        let events = service.train(header(&service), groups.map(train_request::Kind::Group).to_vec()).await.unwrap();
        assert_eq!(report(&events).equal_tokens, tokens as u64);
    }
}

#[tokio::test]
async fn one_bit_in_any_group_ends_the_step_before_its_first_update() {
    for changed in 0..2 {
        let mut service = start(OldLogp::Proximal).await;
        let mut groups = groups(&mut service).await;
        change(&mut groups[changed]);
        let parts = groups.map(train_request::Kind::Group).to_vec();
        let refused = service.train(header(&service), parts).await.unwrap_err();
        let words = format!("groups[{changed}].responses[");
        assert!(refused.message().contains(&words), "{refused}");
        assert!(refused.message().contains("1 of "), "{refused}");
        assert_eq!(service.version().await, 0);
    }
}

#[tokio::test]
async fn samples_of_other_engines_are_not_compared() {
    let mut service = start(OldLogp::Proximal).await;
    let mut groups = groups(&mut service).await;
    for group in &mut groups {
        change(group);
        group.samples.iter_mut().flat_map(|sample| &mut sample.segments).for_each(|segment| {
            segment.arithmetic = "other".to_owned();
        });
    }
    let events = service.train(header(&service), groups.map(train_request::Kind::Group).to_vec()).await.unwrap();
    assert_eq!(report(&events).equal_tokens, 0);
}

#[tokio::test]
async fn the_arithmetic_of_a_step_is_the_one_that_the_learner_reports() {
    let mut service = start(OldLogp::Proximal).await;
    let status = service.client.get_status(LearnerGetStatusRequest::default()).await.unwrap().into_inner();
    assert_eq!(status.arithmetic, ARITHMETIC);
    let other = TrainHeader { equal_arithmetic: "other".to_owned(), ..header(&service) };
    let refused = service.train(other, vec![message(0, 0), message(1, 1)]).await.unwrap_err();
    assert!(refused.message().contains("equal_arithmetic is other, allowed: empty or"), "{refused}");
}

#[tokio::test]
async fn tokens_that_may_have_been_drawn_without_the_end_tokens_are_not_compared_and_later_ones_are() {
    for (min_tokens, is_found) in [(1, true), (2, false)] {
        let mut service = start(OldLogp::Proximal).await;
        let mut groups = groups(&mut service).await;
        // The second token of a sample.
        change(&mut groups[0]);
        let asked = TrainHeader { min_tokens, ..header(&service) };
        let trained = service.train(asked, groups.map(train_request::Kind::Group).to_vec()).await;
        assert_eq!(trained.is_err(), is_found, "{min_tokens}");
        if let Ok(events) = trained {
            let report = report(&events);
            assert!(report.equal_tokens > 0 && report.uncompared_tokens == 0, "{report:?}");
        }
    }
}

#[tokio::test]
async fn ahead_of_training_one_bit_is_found_in_what_the_weights_of_the_step_have_sampled() {
    for changed in 0..2 {
        let mut service = start(OldLogp::Proximal).await;
        service.step(1, 0).await.unwrap();
        // As the weights after that step sample them; but the first group is said to be of those before it.
        let mut groups = groups(&mut service).await;
        for (group, version) in groups.iter_mut().zip([0, 1]) {
            let segments = group.samples.iter_mut().flat_map(|sample| &mut sample.segments);
            segments.filter(|segment| segment.policy_version.is_some()).for_each(|segment| {
                segment.policy_version = Some(version);
            });
        }
        change(&mut groups[changed]);
        let asked = TrainHeader { max_lag: Some(1), step: 2, base_version: 1, ..header(&service) };
        let trained = service.train(asked, groups.map(train_request::Kind::Group).to_vec()).await;
        match trained {
            Ok(events) => {
                let report = report(&events);
                assert!(changed == 0 && report.equal_tokens > 0 && report.uncompared_tokens > 0, "{report:?}");
            }
            Err(refused) => {
                assert!(changed == 1 && refused.message().contains("groups[1].responses["), "{refused}");
                assert_eq!(service.version().await, 1);
            }
        }
    }
}
