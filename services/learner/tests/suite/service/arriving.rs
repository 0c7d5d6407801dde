//! Weights whose readers are all in this process: published before they are on the disk.

use evenkeel_host::arriving;
use evenkeel_learner::verify_published;
use evenkeel_model::{BaseWeights, Config, Parameters};
use evenkeel_proto::v1::PublishRequest;

use super::{TestService, save, start_with};

async fn start() -> TestService {
    start_with(|settings| settings.weights_read_here = true).await
}

/// The values of the first tensor.
fn first(parameters: &Parameters) -> Vec<f32> {
    parameters.values()[0].flatten_all().unwrap().to_vec1().unwrap()
}

#[tokio::test]
async fn weights_that_a_decoder_shares_stay_those_of_their_version_while_the_learner_goes_on() {
    let mut service = start().await;
    let folder = service.folder.path().join("weights");
    let mut shared = Vec::new();
    for step in 0..3 {
        service.publish(PublishRequest { version: Some(step), keep: Some(0), ..PublishRequest::default() }).await;
        let weights = arriving::read_in_place(&folder.join(format!("step-{step}")), |place| {
            BaseWeights::shared(place, Config::load(place).unwrap().0).unwrap()
        });
        shared.push(weights);
        service.step(step + 1, step).await.unwrap();
    }
    service.client.save_checkpoint(save("run", 3)).await.unwrap();
    for (step, shared) in shared.iter().enumerate() {
        let folder = folder.join(format!("step-{step}"));
        let config = Config::load(&folder).unwrap().0;
        let stored = BaseWeights::load(&folder, config).unwrap();
        assert_eq!(first(&shared.parameters().unwrap()), first(&stored.parameters().unwrap()), "step {step}");
    }
    let [one, other] = [0, 1].map(|step| first(&shared[step].parameters().unwrap()));
    assert_ne!(one, other);
}

#[tokio::test]
async fn a_version_is_read_where_it_is_until_it_is_on_the_disk_and_before_a_checkpoint_it_is() {
    let mut service = start().await;
    for step in 0..4 {
        let publish =
            PublishRequest { run_id: "run".into(), version: Some(step), keep: Some(2), ..PublishRequest::default() };
        let weights = service.client.publish(publish).await.unwrap().into_inner().weights.unwrap();
        let folder = service.folder.path().join(format!("weights/step-{step}"));
        let found = arriving::read_in_place(&folder, |place| verify_published(place).unwrap().digest);
        assert_eq!(found, weights.digest);
        service.client.save_checkpoint(save("run", step)).await.unwrap();
        assert_eq!(verify_published(&folder).unwrap().digest, weights.digest);
        service.step(step + 1, step).await.unwrap();
    }
    let kept = std::fs::read_dir(service.folder.path().join("weights")).unwrap().count();
    assert_eq!(kept, 2);
}

#[tokio::test]
async fn without_weights_on_the_disk_there_is_no_checkpoint_and_they_are_written_again() {
    let mut service = start().await;
    let folder = service.folder.path().join("weights");
    std::fs::create_dir_all(&folder).unwrap();
    // Nothing can take the name of the version.
    std::fs::write(folder.join(".step-0.replaced"), "in the way").unwrap();
    service.publish(PublishRequest { version: Some(0), ..PublishRequest::default() }).await;
    for _ in 0..2 {
        let error = service.client.save_checkpoint(save("run", 0)).await.unwrap_err();
        assert!(error.message().contains(".step-0.replaced"), "{error}");
        assert!(!folder.join("step-0").exists() && !folder.join(".step-0.partial").exists());
    }
    std::fs::remove_file(folder.join(".step-0.replaced")).unwrap();
    service.client.save_checkpoint(save("run", 0)).await.unwrap();
    verify_published(&folder.join("step-0")).unwrap();
}
