//! Versions of samples: which a step takes, and what its report says of them.

use evenkeel_learner::{OldLogp, TrainingSettings};
use evenkeel_proto::v1::{TrainHeader, TrainKind, train_request};
use tonic::Code;

use super::{TestService, message, report, start, start_training};
use crate::support::settings;

/// A group whose sampled tokens are all of a version.
fn of_version(seed: u64, index: u32, version: u64) -> train_request::Kind {
    of_versions(seed, index, |_| version)
}

/// A group whose sampled tokens are of versions by their place among those of their answer.
fn of_versions(seed: u64, index: u32, version: impl Fn(usize) -> u64) -> train_request::Kind {
    let mut message = message(seed, index);
    let train_request::Kind::Group(group) = &mut message else { unreachable!("message makes groups") };
    for sample in &mut group.samples {
        // Each has one token.
        let sampled = sample.segments.iter_mut().filter(|segment| segment.policy_version.is_some());
        sampled.enumerate().for_each(|(place, segment)| segment.policy_version = Some(version(place)));
    }
    message
}

/// A service after two steps.
async fn after_two_steps() -> TestService {
    let training = TrainingSettings { old_logp: OldLogp::Proximal, ..settings() };
    let mut service = start_training(training).await;
    service.step(1, 0).await.unwrap();
    service.step(2, 1).await.unwrap();
    service
}

#[tokio::test]
async fn versions_above_the_base_or_too_far_behind_are_refused_by_name() {
    let mut service = after_two_steps().await;
    for (version, max_lag, words) in [
        (3, None, "policy_version is 3, allowed: at most base_version, which is 2"),
        (3, Some(2), "policy_version is 3, allowed: at most base_version, which is 2"),
        (0, Some(1), "policy_version is 0, allowed: at least 1: base_version is 2, max_lag 1"),
        (1, Some(0), "policy_version is 1, allowed: at least 2: base_version is 2, max_lag 0"),
    ] {
        let header = TrainHeader { max_lag, ..service.header(TrainKind::Grpo, 3, 2, 1) };
        let error = service.train(header, vec![of_version(1, 0, version)]).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains(&format!("groups[0].samples[0].segments[0].{words}")), "{error}");
    }
    assert_eq!(service.version().await, 2);
}

#[tokio::test]
async fn a_report_has_each_lag_that_occurs_where_one_is_allowed() {
    let mut service = after_two_steps().await;
    let groups = || vec![of_version(4, 0, 0), of_version(5, 1, 2)];
    let header = TrainHeader { max_lag: Some(2), ..service.header(TrainKind::Grpo, 3, 2, 2) };
    let metrics = report(&service.train(header, groups()).await.unwrap()).metrics;
    let value = |name: &str| *metrics.get(name).unwrap_or_else(|| panic!("{name} in {metrics:?}"));
    assert!((value("lag/0/share") + value("lag/2/share") - 1.0).abs() < 1e-12);
    assert!((value("lag/mean") - 2.0 * value("lag/2/share")).abs() < 1e-12);
    for name in ["ratio/p1", "ratio/p50", "ratio/p99", "ess", "ratio_ess", "bounded_fraction", "kl_k1", "kl_k3"] {
        value(&format!("lag/0/{name}"));
        value(&format!("lag/2/{name}"));
    }
    assert!(!metrics.keys().any(|name| name.starts_with("lag/1/")), "{metrics:?}");
    // Nobody asks for statistics without a lag.
    let header = TrainHeader { max_lag: None, ..service.header(TrainKind::Grpo, 4, 3, 2) };
    let metrics = report(&service.train(header, groups()).await.unwrap()).metrics;
    assert!(!metrics.keys().any(|name| name.starts_with("lag/")), "{metrics:?}");
}

#[tokio::test]
async fn each_token_of_an_answer_counts_for_the_lag_of_its_own_version() {
    let mut service = after_two_steps().await;
    // As answers that are sampled in parts: the first three tokens by older weights than the others.
    let version = |place| if place < 3 { 0 } else { 1 };
    let groups = vec![of_versions(4, 0, version), of_versions(5, 1, version)];
    let mut older = 0;
    let mut newer = 0;
    for message in &groups {
        let train_request::Kind::Group(group) = message else { unreachable!("message makes groups") };
        for segment in group.samples.iter().flat_map(|sample| &sample.segments) {
            older += u32::from(segment.policy_version == Some(0));
            newer += u32::from(segment.policy_version == Some(1));
        }
    }
    assert!(older > 0 && newer > 0);
    let header = TrainHeader { max_lag: Some(2), ..service.header(TrainKind::Grpo, 3, 2, 2) };
    let metrics = report(&service.train(header, groups).await.unwrap()).metrics;
    let share = |lag: u32| metrics[&format!("lag/{lag}/share")];
    let expected = f64::from(older) / f64::from(older + newer);
    assert!((share(2) - expected).abs() < 1e-12 && (share(1) - (1.0 - expected)).abs() < 1e-12, "{metrics:?}");
}

#[tokio::test]
async fn a_lag_is_refused_by_a_learner_that_recomputes() {
    let mut service = start().await;
    let header = |max_lag| TrainHeader { max_lag, ..service.header(TrainKind::Grpo, 1, 0, 1) };
    let lagging = header(Some(1));
    let synchronous = header(Some(0));
    let error = service.train(lagging, Vec::new()).await.unwrap_err();
    assert!(error.message().contains("max_lag is 1, allowed: 0 or absent with the learner's old_logp"), "{error}");
    service.train(synchronous, vec![of_version(1, 0, 0)]).await.unwrap();
}
