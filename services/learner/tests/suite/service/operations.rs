//! Training in operations: order, repetition, and what belongs to whom.

use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{
    AbandonOperation, AccumulateOperation, ApplyOperation, BeginOperation, LoadOperation, OperateRequest,
    OperateResponse, PublishOperation, SaveOperation, ScoreItem, ScoreWeights, TargetSequence, TrainKind,
};
use evenkeel_rpc::error::{Reason, has_reason};
use tonic::{Code, Status};

use evenkeel_learner::RankEnd;

use super::ranks::{TwoRanks, start_two_ranks};
use super::{TestService, item, message, start, start_with};

impl TestService {
    pub(super) async fn operate(&mut self, sequence: u64, kind: Kind) -> Result<OperateResponse, Status> {
        self.operate_as("tinker", sequence, kind).await
    }

    async fn operate_as(&mut self, run: &str, sequence: u64, kind: Kind) -> Result<OperateResponse, Status> {
        let request = OperateRequest { run_id: run.into(), sequence, kind: Some(kind) };
        Ok(self.client.operate(request).await?.into_inner())
    }
}

pub(super) fn begin(version: u64) -> Kind {
    Kind::Begin(BeginOperation { version, adapter_seed: None })
}

pub(super) fn data(first: u32) -> TargetSequence {
    TargetSequence {
        token_ids: vec![first, 3, 9],
        target_ids: vec![3, 9, 4],
        factors: vec![0.0, 1.0, -0.5],
        ..TargetSequence::default()
    }
}

fn accumulate(first: u32) -> Kind {
    let data = vec![data(first)];
    Kind::Accumulate(AccumulateOperation { data, loss: "cross_entropy".into(), ..AccumulateOperation::default() })
}

pub(super) fn apply() -> Kind {
    Kind::Apply(ApplyOperation {
        learning_rate: 1e-2,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        ..ApplyOperation::default()
    })
}

fn save(name: &str) -> Kind {
    Kind::Save(SaveOperation { name: name.into(), client_state: b"mine".to_vec(), overwrite: false })
}

#[tokio::test]
async fn a_run_accumulates_applies_publishes_saves_and_goes_back() {
    let mut service = start().await;
    service.operate(1, begin(10)).await.unwrap();
    let accumulated = service.operate(2, accumulate(2)).await.unwrap().accumulated.unwrap();
    assert_eq!((accumulated.scores[0].log_probabilities.len(), accumulated.tokens), (3, 2));
    let applied = service.operate(3, apply()).await.unwrap();
    assert!(applied.version == 11 && applied.applied.unwrap().gradient_norm > 0.0);
    let published = service.operate(4, Kind::Publish(PublishOperation {})).await.unwrap().weights.unwrap();
    assert_eq!(published.version, 11);
    service.operate(5, save("000001")).await.unwrap();
    service.operate(6, accumulate(5)).await.unwrap();
    assert_eq!(service.operate(7, apply()).await.unwrap().version, 12);
    // Weights that were loaded get a version that no others had, so that those that were published stay what they were.
    let load = LoadOperation { name: "000001".into(), optimizer: true, version: 13, ..LoadOperation::default() };
    let loaded = service.operate(8, Kind::Load(load)).await.unwrap();
    assert_eq!((loaded.version, loaded.client_state.as_slice()), (13, b"mine".as_slice()));
    let item_of = |version| ScoreItem { weights: Some(ScoreWeights { version, ..ScoreWeights::default() }), ..item() };
    let scores = service.score(vec![item_of(11), item()]).await;
    assert_eq!(scores[0].log_probabilities, scores[1].log_probabilities, "{:?}", scores[0].failure);
}

#[tokio::test]
async fn a_lost_response_is_answered_again_and_counts_once() {
    let mut service = start().await;
    service.operate(1, begin(1)).await.unwrap();
    let first = service.operate(2, accumulate(2)).await.unwrap();
    let again = service.operate(2, accumulate(2)).await.unwrap();
    assert!(again.already_done && !first.already_done);
    assert_eq!(again.accumulated, first.accumulated);
    let norm = service.operate(3, apply()).await.unwrap().applied.unwrap().gradient_norm;
    assert_eq!(service.operate(3, apply()).await.unwrap().version, 2);
    let mut other = start().await;
    other.operate(1, begin(1)).await.unwrap();
    other.operate(2, accumulate(2)).await.unwrap();
    assert_eq!(other.operate(3, apply()).await.unwrap().applied.unwrap().gradient_norm, norm);
}

#[tokio::test]
async fn the_same_number_with_other_content_is_refused_and_another_number_waits_for_its_turn() {
    let mut service = start().await;
    service.operate(1, begin(1)).await.unwrap();
    service.operate(2, accumulate(2)).await.unwrap();
    let other = service.operate(2, accumulate(5)).await.unwrap_err();
    assert!(other.code() == Code::InvalidArgument && other.message().starts_with("sequence is 2"), "{other}");
    let early = service.operate(4, apply()).await.unwrap_err();
    assert!(has_reason(&early, Reason::OutOfOrder) && early.message().contains("the next operation"), "{early}");
    service.operate(3, apply()).await.unwrap();
}

#[tokio::test]
async fn an_operation_that_failed_keeps_its_number_and_its_update_fails_with_it() {
    let mut service = start().await;
    service.operate(1, begin(1)).await.unwrap();
    let unknown = AccumulateOperation { data: vec![data(2)], loss: "dro".into(), ..AccumulateOperation::default() };
    let refused = service.operate(2, Kind::Accumulate(unknown.clone())).await.unwrap_err();
    assert!(refused.message().contains("loss is \"dro\""), "{refused}");
    assert_eq!(service.operate(2, Kind::Accumulate(unknown)).await.unwrap_err().message(), refused.message());
    let refused = service.operate(3, apply()).await.unwrap_err();
    assert!(has_reason(&refused, Reason::NotAccumulated), "{refused}");
    service.operate(4, accumulate(2)).await.unwrap();
    let abandon = AbandonOperation { reason: "no room for the rest".into() };
    service.operate(5, Kind::Abandon(abandon)).await.unwrap();
    assert!(service.operate(6, apply()).await.unwrap_err().message().contains("no room for the rest"));
    service.operate(7, accumulate(2)).await.unwrap();
    assert_eq!(service.operate(8, apply()).await.unwrap().version, 2, "no failed update was applied");
}

#[tokio::test]
async fn the_learner_belongs_to_one_run_until_its_lease_ends() {
    let mut service = start().await;
    service.operate(1, begin(1)).await.unwrap();
    let other = service.operate_as("other", 1, begin(2)).await.unwrap_err();
    assert!(has_reason(&other, Reason::Leased), "{other}");
    let mut service = start_with(|settings| settings.lease = std::time::Duration::ZERO).await;
    service.operate(1, begin(1)).await.unwrap();
    let first = service.operate_as("other", 1, apply()).await.unwrap_err();
    assert!(first.message().starts_with("kind is another"), "{first}");
    service.operate_as("other", 1, begin(2)).await.unwrap();
    let late = service.operate(2, accumulate(2)).await.unwrap_err();
    assert!(late.message().contains("out of order") || has_reason(&late, Reason::OutOfOrder), "{late}");
}

#[tokio::test]
async fn a_training_step_between_them_loses_what_was_accumulated() {
    let mut service = start().await;
    service.operate(1, begin(0)).await.unwrap();
    service.operate(2, accumulate(2)).await.unwrap();
    let header = super::TrainHeader { run_id: "tinker".into(), ..service.header(TrainKind::Grpo, 1, 0, 2) };
    service.train(header, vec![message(0, 0), message(1, 1)]).await.unwrap();
    let refused = service.operate(3, apply()).await.unwrap_err();
    assert!(has_reason(&refused, Reason::NotAccumulated), "{refused}");
}

#[tokio::test]
async fn names_are_not_written_over_unasked_and_none_leaves_its_folder() {
    let mut service = start().await;
    service.operate(1, begin(1)).await.unwrap();
    service.operate(2, save("a")).await.unwrap();
    assert_eq!(service.operate(3, save("a")).await.unwrap_err().code(), Code::AlreadyExists);
    for (number, name) in [(4, "../b"), (5, ""), (6, "..")] {
        assert_eq!(service.operate(number, save(name)).await.unwrap_err().code(), Code::InvalidArgument, "{name}");
    }
    let overwrite = SaveOperation { name: "a".into(), overwrite: true, ..SaveOperation::default() };
    service.operate(7, Kind::Save(overwrite)).await.unwrap();
    let load = LoadOperation { name: "b".into(), version: 9, ..LoadOperation::default() };
    assert_eq!(service.operate(8, Kind::Load(load)).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ranks_say_and_publish_what_one_process_does() {
    let many = || {
        let data = (0..11).map(data).collect();
        Kind::Accumulate(AccumulateOperation { data, loss: "cross_entropy".into(), ..AccumulateOperation::default() })
    };
    let only_scored = || {
        let scored = AccumulateOperation {
            data: vec![data(4)],
            forward_only: true,
            loss: "cross_entropy".into(),
            ..AccumulateOperation::default()
        };
        Kind::Accumulate(scored)
    };
    let load = |version, optimizer| {
        Kind::Load(LoadOperation { name: "a".into(), optimizer, version, ..LoadOperation::default() })
    };
    let publish = || Kind::Publish(PublishOperation {});
    let abandon = || Kind::Abandon(AbandonOperation { reason: "no room for the rest".into() });
    let everything = || {
        [
            begin(10),
            many(),
            accumulate(2),
            only_scored(),
            apply(),
            publish(),
            save("a"),
            many(),
            apply(),
            load(20, false),
            many(),
            apply(),
        ]
        .into_iter()
        .chain([
            abandon(),
            apply(),
            load(30, true),
            accumulate(5),
            apply(),
            publish(),
            begin(40),
            many(),
            apply(),
            publish(),
        ])
    };
    let said = async |service: &mut TestService| {
        let mut said = Vec::new();
        for (number, kind) in everything().enumerate() {
            said.push(match service.operate(number as u64 + 1, kind).await {
                Ok(OperateResponse { accumulated, applied, weights, version, .. }) => {
                    format!("{version} {accumulated:?} {applied:?} {:?}", weights.map(|weights| weights.digest))
                }
                Err(error) => error.message().to_owned(),
            });
        }
        said
    };
    let alone = said(&mut start().await).await;
    assert!(alone[13].contains("no room for the rest") && alone.iter().all(|said| !said.contains("rank")), "{alone:?}");
    let TwoRanks { mut service, following, .. } = start_two_ranks(|port| port).await;
    assert_eq!(said(&mut service).await, alone);
    drop(service);
    assert!(matches!(following.await.unwrap(), RankEnd::Finished));
}
