//! Scoring with published weights.

use candle_core::{Device, Tensor};
use evenkeel_learner::{Learner, PublishOptions, PublishType};
use evenkeel_model::folder::load_parameters;
use evenkeel_model::{Parameters, tensor_groups};
use evenkeel_proto::v1::{
    FailureCode, LearnerGetStatusRequest, PublishRequest, ReplacedTensors, ScoreItem, ScoreResponse, ScoreWeights,
};

use super::{TestService, item, start, start_with};
use crate::support::{config, settings};

fn with(weights: ScoreWeights) -> ScoreItem {
    ScoreItem { weights: Some(weights), ..item() }
}

fn of(version: u64) -> ScoreItem {
    with(ScoreWeights { version, ..ScoreWeights::default() })
}

fn replaced(version: u64, group: &str, other: u64) -> ScoreItem {
    with(ScoreWeights {
        version,
        replaced: Some(ReplacedTensors { group: group.into(), version: other }),
        ..ScoreWeights::default()
    })
}

fn bits(logp: &[f32]) -> Vec<u32> {
    logp.iter().map(|value| value.to_bits()).collect()
}

fn scored(answer: &ScoreResponse) -> Vec<u32> {
    assert_eq!(answer.failure, None);
    bits(&answer.log_probabilities)
}

/// What a learner of these weights gives to [`item`].
fn expected(learner: &Learner) -> Vec<u32> {
    let item = item();
    bits(&learner.score(&[(&item.prompt_token_ids, &item.response_token_ids)], 1.0).unwrap()[0].logp)
}

impl TestService {
    fn published(&self, version: u64) -> std::path::PathBuf {
        self.folder.path().join(format!("weights/step-{version}"))
    }

    fn opened(&self, version: u64) -> Vec<u32> {
        expected(&Learner::open(&self.published(version), settings()).unwrap())
    }

    fn parameters(&self, version: u64) -> Parameters {
        load_parameters(&self.published(version), &config(), &Device::Cpu).unwrap()
    }

    /// Publishes versions 0 to `last`, with a step before each but the first.
    async fn train_to(&mut self, last: u64) {
        self.publish(PublishRequest::default()).await;
        for step in 0..last {
            self.step(step + 1, step).await.unwrap();
            self.publish(PublishRequest::default()).await;
        }
    }
}

/// The numbers of parameters from `values`, through the folder that publishing writes.
fn written(values: Vec<Tensor>) -> Vec<u32> {
    let parameters = Parameters::new(&config(), values, &Device::Cpu).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let learner = Learner::new(config(), parameters, settings()).unwrap();
    let published = learner.publish(folder.path(), PublishOptions::default()).unwrap();
    expected(&Learner::open(&published.path, settings()).unwrap())
}

#[tokio::test]
async fn any_published_version_scores_as_a_learner_that_is_opened_from_its_folder() {
    let mut service = start().await;
    service.train_to(2).await;
    let all: Vec<Vec<u32>> = (0..3).map(|version| service.opened(version)).collect();
    assert!(all[0] != all[1] && all[1] != all[2]);
    let order = [2, 0, 1, 2, 0, 0];
    let answers = service.score(order.map(of).to_vec()).await;
    for (answer, version) in answers.iter().zip(order) {
        assert_eq!((scored(answer), answer.version), (all[version as usize].clone(), version));
    }
    // One that the learner has left: its tensors are no longer those in memory.
    service.step(3, 2).await.unwrap();
    let answers = service.score(vec![of(2), of(3), item()]).await;
    assert_eq!(scored(&answers[0]), all[2]);
    assert_eq!(answers[1].failure.as_ref().unwrap().reason, "WEIGHTS_GONE", "it is not published yet");
    assert!(scored(&answers[2]) != all[2]);
}

#[tokio::test]
async fn a_replaced_group_scores_as_a_folder_that_is_written_with_those_tensors() {
    let mut service = start().await;
    service.train_to(3).await;
    let status = service.client.get_status(LearnerGetStatusRequest::default()).await.unwrap().into_inner();
    assert_eq!(status.tensor_groups, ["embeddings", "norms", "attention", "mlp", "layer 0", "layer 1"]);
    // Of the current version, whose tensors are shared, and of an older one.
    for (version, other) in [(3, 0), (3, 1), (2, 0)] {
        let base = service.parameters(version);
        let from = service.parameters(other);
        let whole = service.opened(version);
        let names = &status.tensor_groups;
        // A pass under the version leaves layers to others.
        assert_eq!(scored(&service.score(vec![of(version)]).await[0]), whole);
        let answers = service.score(names.iter().map(|name| replaced(version, name, other)).collect()).await;
        for (group, answer) in tensor_groups(&Parameters::described(&config()).unwrap()).iter().zip(&answers) {
            let mut values = base.values().to_vec();
            group.parameters.iter().for_each(|&id| values[id] = from.values()[id].clone());
            assert_eq!(scored(answer), written(values), "{} of {version} from {other}", group.name);
            assert!(scored(answer) != whole, "{} makes no difference", group.name);
        }
        assert_eq!(scored(&service.score(vec![of(version)]).await[0]), whole);
    }
}

#[tokio::test]
async fn weights_are_rounded_to_the_nearest_even_as_transformers_rounds_them() {
    let mut service = start().await;
    service.train_to(1).await;
    // bfloat16 is the upper half of a float32; on a tie the even one.
    let rounded = |value: f32| {
        let bits = value.to_bits();
        f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
    };
    let parameters = service.parameters(1);
    let values = parameters.values().iter().map(|tensor| {
        let host: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
        Tensor::from_vec(host.into_iter().map(rounded).collect::<Vec<f32>>(), tensor.shape(), &Device::Cpu).unwrap()
    });
    let wanted = written(values.collect());
    let rounded = with(ScoreWeights { version: 1, rounded_to: "BF16".into(), ..ScoreWeights::default() });
    let answers = service.score(vec![of(1), rounded, of(1)]).await;
    assert_eq!(scored(&answers[1]), wanted);
    assert!(wanted != scored(&answers[0]) && scored(&answers[0]) == scored(&answers[2]));

    // Published in bf16, and trained in fp32: the reference is what was published.
    let mut narrow = start_with(|settings| settings.publish_dtype = PublishType::Bf16).await;
    narrow.train_to(1).await;
    let answers = narrow.score(vec![of(1), item()]).await;
    assert_eq!(scored(&answers[0]), narrow.opened(1));
    assert!(scored(&answers[0]) != scored(&answers[1]));
}

#[tokio::test]
async fn a_version_whose_folder_is_gone_or_incomplete_is_told_from_every_other_failure() {
    let mut service = start().await;
    service.train_to(1).await;
    service.step(2, 1).await.unwrap();
    service.publish(PublishRequest { keep: Some(2), ..PublishRequest::default() }).await;
    let asked = vec![of(0), replaced(2, "mlp", 0), of(1), of(2)];
    let answers = service.score(asked).await;
    for answer in &answers[..2] {
        let failure = answer.failure.as_ref().unwrap();
        assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::FailedPrecondition, "WEIGHTS_GONE"));
        assert!(failure.message.contains("version 0 is not published"), "{}", failure.message);
    }
    assert!(answers[2].failure.is_none() && answers[3].failure.is_none());
    std::fs::remove_file(service.published(1).join("evenkeel-version.json")).unwrap();
    assert_eq!(service.score(vec![of(1)]).await[0].failure.as_ref().unwrap().reason, "WEIGHTS_GONE");
}

#[tokio::test]
async fn what_is_asked_for_is_checked_and_the_refusal_says_what_is_allowed() {
    let mut service = start().await;
    service.train_to(1).await;
    let rounded = |name: &str| with(ScoreWeights { version: 1, rounded_to: name.into(), ..ScoreWeights::default() });
    let cases = [
        (replaced(1, "biases", 0), "weights.replaced.group", "embeddings, norms, attention, mlp, layer 0, layer 1"),
        (rounded("F64"), "weights.rounded_to", "BF16, F16, F32 or empty"),
        (ScoreItem { version: Some(1), ..of(1) }, "version", "absent with weights"),
    ];
    let answers = service.score(cases.iter().map(|(item, ..)| item.clone()).collect()).await;
    for (answer, (_, field, allowed)) in answers.iter().zip(cases) {
        let failure = answer.failure.as_ref().unwrap();
        assert_eq!(failure.code(), FailureCode::InvalidArgument);
        assert_eq!(failure.violations[0].field, field);
        assert!(failure.message.contains(allowed), "{}", failure.message);
    }
    // A learner that was restarted does not know them: the run goes back to its checkpoint.
    for answer in service.score(vec![of(2), replaced(1, "mlp", 2)]).await {
        let failure = answer.failure.unwrap();
        assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::FailedPrecondition, "VERSION_MISMATCH"));
    }
}
