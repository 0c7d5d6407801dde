//! Published weights as agents fetch them: described once by what they consist of, and read in ranges.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_host::{FileDigest, sha256};
use evenkeel_learner::{LoraSettings, PublishOptions, TrainingSettings};
use evenkeel_model_folder::files_digest;
use evenkeel_proto::v1::weights_client::WeightsClient;
use evenkeel_proto::v1::{
    PublishRequest, WeightsDescribeRequest, WeightsDescribeResponse, WeightsReadRequest, WeightsRef,
};
use evenkeel_rpc::error::{Reason, has_reason};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{TestService, start, start_from};
use crate::support::{learner, settings};

async fn published(service: &mut TestService) -> WeightsRef {
    let request = PublishRequest { run_id: "run".into(), ..PublishRequest::default() };
    service.client.publish(request).await.unwrap().into_inner().weights.unwrap()
}

async fn files(service: &TestService) -> WeightsClient<Channel> {
    WeightsClient::new(Channel::from_shared(service.endpoint()).unwrap().connect().await.unwrap())
}

async fn describe(
    client: &mut WeightsClient<Channel>,
    weights: &WeightsRef,
) -> Result<WeightsDescribeResponse, Status> {
    let request = WeightsDescribeRequest { version: weights.version, digest: weights.digest.clone() };
    client.describe(request).await.map(tonic::Response::into_inner)
}

async fn read(
    client: &mut WeightsClient<Channel>,
    weights: &WeightsRef,
    file: &str,
    offset: u64,
    size_bytes: u64,
) -> Result<Vec<u8>, Status> {
    let version = weights.version;
    let digest = weights.digest.clone();
    let file = file.to_owned();
    let request = WeightsReadRequest { version, digest, file, offset, size_bytes };
    let mut stream = client.read(request).await?.into_inner();
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        assert!(message.content.len() <= 1 << 20);
        all.extend_from_slice(&message.content);
    }
    Ok(all)
}

/// Every file of a folder, by name.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

fn folder_of(service: &TestService) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(service.folder.path().join("weights")).unwrap();
    entries.next().unwrap().unwrap().path()
}

/// What is described and read is what is on the disk, tensor by tensor.
async fn assert_whole(service: &mut TestService) {
    let weights = published(service).await;
    let mut client = files(service).await;
    let description = describe(&mut client, &weights).await.unwrap();
    let stored = content(&folder_of(service));
    assert_eq!(description.files.iter().map(|file| &file.name).collect::<Vec<_>>(), stored.keys().collect::<Vec<_>>());
    let digests = stored.iter().map(|(name, bytes)| (name.as_str(), FileDigest::of_bytes(bytes)));
    assert_eq!(weights.files_digest, files_digest(digests), "who publishes is told the digest of all files");
    for file in &description.files {
        let bytes = &stored[&file.name];
        assert_eq!(file.digest, FileDigest::of_bytes(bytes).to_string());
        assert!(read(&mut client, &weights, &file.name, 0, file.size_bytes).await.unwrap() == *bytes, "{}", file.name);
        let mut offset = 0;
        for part in &file.parts {
            let end = offset + part.size_bytes as usize;
            assert_eq!(part.digest, sha256(&bytes[offset..end]), "{} of {}", part.tensor, file.name);
            offset = end;
        }
        assert_eq!(offset as u64, file.size_bytes);
    }
    let tensors = description.files.iter().flat_map(|file| &file.parts).filter(|part| !part.tensor.is_empty()).count();
    assert!(tensors > 4, "{tensors}");
    assert_eq!(describe(&mut client, &weights).await.unwrap(), description);
}

#[tokio::test]
async fn a_version_is_described_and_read_as_it_lies_on_the_disk() {
    assert_whole(&mut start().await).await;
}

#[tokio::test]
async fn so_is_an_adapter_whose_digest_covers_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let model = learner(settings()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    let lora = Some(LoraSettings { rank: 4, alpha: 8.0, ..LoraSettings::default() });
    assert_whole(&mut start_from(folder, &model, TrainingSettings { lora, ..settings() }).await).await;
}

#[tokio::test]
async fn a_version_that_is_gone_or_has_other_weights_is_refused_by_both_calls() {
    let mut service = start().await;
    let weights = published(&mut service).await;
    let mut client = files(&service).await;
    let size = content(&folder_of(&service))["config.json"].len() as u64;
    let others = [
        (WeightsRef { version: 7, ..weights.clone() }, "version 7 is not published, or not any more"),
        (WeightsRef { digest: sha256("other"), ..weights.clone() }, "version 0 was published again, with "),
    ];
    for (other, words) in others {
        let refusals = [
            describe(&mut client, &other).await.unwrap_err(),
            read(&mut client, &other, "config.json", 0, size).await.unwrap_err(),
        ];
        for status in refusals {
            assert!(has_reason(&status, Reason::WeightsGone) && status.message().contains(words), "{status}");
        }
    }
    let nothing = WeightsRef { digest: String::new(), ..weights };
    assert_eq!(describe(&mut client, &nothing).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn only_bytes_of_files_of_the_version_are_read() {
    let mut service = start().await;
    let weights = published(&mut service).await;
    let mut client = files(&service).await;
    std::fs::write(service.folder.path().join("secret"), "secret").unwrap();
    for name in ["../secret", "../../secret", "/etc/passwd", "", ".", "..", ".hidden"] {
        let status = read(&mut client, &weights, name, 0, 1).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{name}: {status}");
        assert!(status.message().contains("the name of a file of these weights"), "{status}");
    }
    assert_eq!(read(&mut client, &weights, "none", 0, 1).await.unwrap_err().code(), Code::NotFound);
    let config = content(&folder_of(&service))["config.json"].clone();
    let size = config.len() as u64;
    assert_eq!(read(&mut client, &weights, "config.json", 3, 4).await.unwrap(), config[3..7]);
    for (offset, bytes) in [(0, 0), (0, size + 1), (size, 1), (u64::MAX, 2)] {
        let status = read(&mut client, &weights, "config.json", offset, bytes).await.unwrap_err();
        assert!(status.message().starts_with("size_bytes is "), "{status}");
    }
}

#[tokio::test]
async fn files_that_changed_since_they_were_published_are_not_handed_out() {
    let mut service = start().await;
    let weights = published(&mut service).await;
    let mut client = files(&service).await;
    let path = folder_of(&service).join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let status = describe(&mut client, &weights).await.unwrap_err();
    assert_eq!(status.code(), Code::DataLoss);
    assert!(status.message().contains("their digest is "), "{status}");
}
