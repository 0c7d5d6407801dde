//! Streams that are cut, silent or damaged, and learners that are away.

use std::time::Duration;

use evenkeel_host::sha256;
use evenkeel_rpc::error::{Reason, has_reason};
use evenkeel_weights_agent::WeightsAgentSettings;
use tonic::Code;

use crate::source::{CHUNK, FakeLearner, TransferFault};
use crate::{Agent, TENSORS, assert_same, bounded, settings};

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_where_it_ended() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        source.fail([
            TransferFault::Cut(40_000),
            TransferFault::End(70_000),
            TransferFault::Cut(0),
            TransferFault::Silence(30_000),
            TransferFault::Cut(1),
        ]);
        let pulled = agent.pull(&published).await.unwrap();
        assert_same(&pulled.path, &published);
        assert_eq!((pulled.fetched_bytes, source.sent()), (published.size(), published.size()), "nothing came twice");
        assert!(source.calls() > published.files.len(), "{} calls", source.calls());
    })
    .await;
}

#[tokio::test]
async fn a_pull_that_was_given_up_is_continued_by_the_next_also_in_another_process() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        source.pause(Duration::from_millis(40));
        agent.pull_for(&published, Duration::from_millis(200)).await.unwrap_err();
        assert!(agent.folders().await.is_empty(), "a copy that is not whole has no name");
        let _ = agent.server.kill().await;
        source.pause(Duration::ZERO);
        let pulled = Agent::start(&source, folder.path()).await.pull(&published).await.unwrap();
        assert_same(&pulled.path, &published);
        assert!(pulled.fetched_bytes < published.size() - CHUNK as u64, "{}", pulled.fetched_bytes);
    })
    .await;
}

#[tokio::test]
async fn a_tensor_that_arrives_damaged_is_fetched_again_alone() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let one_by_one = WeightsAgentSettings { max_files: 1, ..settings(&source, folder.path()) };
        let agent = Agent::with(one_by_one).await;
        let published = source.publish(1, &TENSORS);
        // Of whichever file with tensors is first: they are longer than this.
        source.fail([TransferFault::Damage(120_000); 3]);
        let pulled = agent.pull(&published).await.unwrap();
        assert_same(&pulled.path, &published);
        let again = pulled.fetched_bytes - published.size();
        assert!(again > 0 && again <= 200_000 + 70_000, "{again} bytes came again");
    })
    .await;
}

#[tokio::test]
async fn bytes_that_stay_damaged_are_refused_by_their_tensor_and_never_get_a_name() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        source
            .say(1, |published| *published.files.get_mut("model-00002.safetensors").unwrap().last_mut().unwrap() ^= 1);
        let status = agent.pull(&published).await.unwrap_err();
        assert_eq!(status.code(), Code::DataLoss);
        let words = "model-00002.safetensors of version 1: part `d` is damaged each time it is fetched";
        assert!(status.message().contains(words), "{status}");
        assert!(agent.folders().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_description_of_other_weights_is_refused() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        source.say(1, |published| published.description.files[2].digest = sha256("other"));
        let status = agent.pull(&published).await.unwrap_err();
        assert_eq!((status.code(), source.calls()), (Code::DataLoss, 0));
        assert!(status.message().contains("allowed: ") && status.message().contains(", as requested"), "{status}");
        source.say(1, |published| published.description.files[0].name = "../../etc/passwd".into());
        let status = agent.pull(&published).await.unwrap_err();
        assert!(status.message().contains("files[0].name is "), "{status}");
    })
    .await;
}

#[tokio::test]
async fn a_learner_that_is_away_is_waited_for_and_named() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let published = source.publish(1, &TENSORS);
        let quick = WeightsAgentSettings {
            learner: "http://127.0.0.1:1".into(),
            pull_timeout: Duration::from_millis(300),
            ..settings(&source, folder.path())
        };
        let status = Agent::with(quick).await.pull(&published).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(has_reason(&status, Reason::NotPulled), "{status}");
        assert!(status.message().contains("not fetched from http://127.0.0.1:1"), "{status}");
    })
    .await;
}

#[tokio::test]
async fn a_digest_that_is_none_is_refused() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let mut published = source.publish(1, &TENSORS);
        published.digest = "sha256:../..".into();
        let status = agent.pull(&published).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("digest is "), "{status}");
    })
    .await;
}
