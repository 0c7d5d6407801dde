//! Training steps: bits, repeated calls, what is refused.

use std::path::Path;

use evenkeel_learner::TrainingSettings;
use evenkeel_proto::v1::{
    PublishRequest, SaveCheckpointRequest, SupervisedBatch, SupervisedExample, TrainHeader, TrainKind, train_event,
    train_request,
};
use tonic::Code;

use super::{message, report, start, start_training};
use crate::support::{bits, group, learner, settings};

#[tokio::test]
async fn steps_over_grpc_give_the_same_bits_as_steps_of_the_library() {
    let mut service = start().await;
    let found = service.step(1, 0).await.unwrap();
    service.step(2, 1).await.unwrap();
    let save = SaveCheckpointRequest {
        run_id: "run".into(),
        step: 2,
        version: Some(2),
        client_state: vec![7],
        ..SaveCheckpointRequest::default()
    };
    let saved = service.client.save_checkpoint(save).await.unwrap().into_inner().checkpoint.unwrap();

    let mut library = learner(settings());
    let wanted = library.train([group(0, 4), group(1, 4)]).unwrap();
    library.train([group(2, 4), group(3, 4)]).unwrap();
    let mut restored = learner(settings());
    restored.restore_checkpoint(Path::new(&saved.path)).unwrap();
    assert_eq!(bits(&restored), bits(&library));
    assert_eq!((found.loss, found.gradient_norm), (wanted.updates[0].loss, Some(wanted.updates[0].grad_norm)));
    assert_eq!((found.version, found.groups, found.samples, found.skipped), (1, 2, 8, false));
    for name in
        ["actor/pg_loss", "actor/pg_clipfrac", "actor/entropy", "aggregation/length_cv", "aggregation/pull_negative"]
    {
        assert!(found.metrics.contains_key(name), "{name} in {:?}", found.metrics);
    }
}

#[tokio::test]
async fn the_parts_of_the_loss_add_up_to_it_with_several_updates_a_step() {
    let mut training = settings();
    training.objective.kl_coefficient = 0.1;
    training.objective.entropy_coefficient = 0.01;
    training.optimizer.learning_rate = 1e-2;
    training.mini_batch_groups = 1;
    let mut service = start_training(training.clone()).await;
    service.step(1, 0).await.unwrap();
    // In the second step the policy has left its reference.
    let found = service.step(2, 1).await.unwrap();
    let part = |name: &str| found.metrics[name];
    let [policy, kl, entropy] = ["actor/pg_loss", "actor/kl_loss", "actor/entropy_loss"].map(part);
    assert!(kl > 0.0 && entropy < 0.0, "{kl}, {entropy}");
    assert!((policy + kl + entropy - found.loss).abs() < 1e-12, "{policy} + {kl} + {entropy} is not {}", found.loss);

    let mut library = learner(training);
    library.train([group(0, 4), group(1, 4)]).unwrap();
    let updates = library.train([group(2, 4), group(3, 4)]).unwrap().updates;
    assert_eq!(updates.len(), 2);
    let mean = updates.iter().map(|update| update.policy_loss).sum::<f64>() / 2.0;
    assert!((policy - mean).abs() < 1e-12, "the mean over updates: {policy} is not {mean}");
}

#[tokio::test]
async fn a_repeated_call_returns_the_report_of_the_step_and_does_not_step_again() {
    let mut service = start().await;
    let first = service.step(1, 0).await.unwrap();
    let header = service.header(TrainKind::Grpo, 1, 0, 2);
    let again = service.train(header, Vec::new()).await.unwrap();
    assert!(matches!(&again[0].kind, Some(train_event::Kind::Accepted(accepted)) if accepted.already_done));
    assert_eq!((report(&again), service.version().await), (first, 1));
}

#[tokio::test]
async fn another_base_version_run_or_settings_is_a_failed_precondition() {
    let mut service = start().await;
    service.step(1, 0).await.unwrap();
    let good = service.header(TrainKind::Grpo, 2, 1, 2);
    for (header, word) in [
        (TrainHeader { base_version: 0, ..good.clone() }, "base_version is 0"),
        (TrainHeader { base_version: 2, ..good.clone() }, "base_version is 2"),
        (TrainHeader { run_id: "other".into(), ..good.clone() }, "run_id is `other`"),
        (TrainHeader { settings_hash: "sha256:0".into(), ..good.clone() }, "settings_hash is sha256:0"),
    ] {
        let error = service.train(header, Vec::new()).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert!(error.message().contains(word), "{error}");
    }
    assert_eq!(service.version().await, 1);
}

#[tokio::test]
async fn a_step_with_missing_extra_misordered_or_invalid_groups_changes_nothing() {
    let mut service = start().await;
    let header = service.header(TrainKind::Grpo, 1, 0, 2);
    let short = service.train(header.clone(), vec![message(1, 0)]).await.unwrap_err();
    assert!(short.message().contains("groups is a list of 1"), "{short}");
    let long = vec![message(1, 0), message(2, 1), message(3, 2)];
    assert!(service.train(header.clone(), long).await.unwrap_err().message().contains("groups is a list of 3"));
    let out_of_order = service.train(header.clone(), vec![message(1, 1)]).await.unwrap_err();
    assert!(out_of_order.message().contains("groups[0].index is 1"), "{out_of_order}");
    let mut bad = message(1, 0);
    if let train_request::Kind::Group(group) = &mut bad {
        group.prompt_token_ids[0] = 4000;
    }
    let refused = service.train(header, vec![bad]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("4000"), "{refused}");
    assert_eq!(service.version().await, 0);
    service.step(1, 0).await.unwrap();
}

#[tokio::test]
async fn a_number_of_groups_that_is_no_multiple_of_the_mini_batch_is_refused_before_the_first_group() {
    let mut service = start_training(TrainingSettings { mini_batch_groups: 2, ..settings() }).await;
    let error = service.train(service.header(TrainKind::Grpo, 1, 0, 3), Vec::new()).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let words = "expected_groups is 3, allowed: a multiple of mini_batch_groups = 2";
    assert!(error.message().contains(words), "{}", error.message());
    service.step(1, 0).await.unwrap();
}

#[tokio::test]
async fn the_same_call_runs_supervised_steps() {
    let mut service = start().await;
    let example =
        SupervisedExample { example_id: "e".into(), prompt_token_ids: vec![2, 3], response_token_ids: vec![4, 1] };
    let header = service.header(TrainKind::Supervised, 1, 0, 3);
    let batch = |count| train_request::Kind::Examples(SupervisedBatch { examples: vec![example.clone(); count] });
    let report = report(&service.train(header, vec![batch(2), batch(1)]).await.unwrap());
    assert_eq!((report.version, report.trainable_tokens, report.kind), (1, 6, TrainKind::Supervised as i32));
    assert!(report.loss > 0.0);
}

#[tokio::test]
async fn the_order_of_groups_follows_the_seed_of_the_run() {
    let digest = async |seed: u64| {
        let shuffled = TrainingSettings { shuffle: true, mini_batch_groups: 1, ..settings() };
        let mut service = start_training(shuffled).await;
        let header = TrainHeader { seed, ..service.header(TrainKind::Grpo, 1, 0, 4) };
        service.train(header, (0..4).map(|index| message(u64::from(index), index)).collect()).await.unwrap();
        let publish = PublishRequest { run_id: "run".into(), ..PublishRequest::default() };
        service.client.publish(publish).await.unwrap().into_inner().weights.unwrap().digest
    };
    let first = digest(1).await;
    assert_eq!(digest(1).await, first);
    let mut others = Vec::new();
    for seed in 2..6 {
        others.push(digest(seed).await);
    }
    assert!(others.iter().any(|other| *other != first), "four seeds in a row give the same order of four groups");
}

#[tokio::test]
async fn a_report_says_what_became_of_each_sample_where_the_header_asks_for_it() {
    let mut service = start().await;
    let header = service.header(TrainKind::Grpo, 1, 0, 2);
    let asked = TrainHeader { report_samples: true, ..header.clone() };
    let groups = || vec![message(0, 0), message(1, 1)];
    let first = report(&service.train(asked.clone(), groups()).await.unwrap());
    assert_eq!(first.sample_reports.len(), 8);
    assert!(first.sample_reports.iter().any(|sample| sample.trained && sample.log_probability.is_some()));
    assert_eq!(report(&service.train(asked, Vec::new()).await.unwrap()), first, "a repeated call has them again");
    let second = service.step(2, 1).await.unwrap();
    assert!(second.sample_reports.is_empty());
}
