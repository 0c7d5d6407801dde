//! Folders and links that somebody else has planted.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use evenkeel_weights_agent::bind;
use tonic::Code;

use crate::source::{FakeLearner, Published};
use crate::{Agent, TENSORS, assert_same, bounded, settings};

/// A folder with a file that no pull may touch.
fn keys() -> tempfile::TempDir {
    let keys = tempfile::tempdir().unwrap();
    fs::write(keys.path().join("id_ed25519"), "secret").unwrap();
    keys
}

fn assert_untouched(keys: &Path) {
    let names: Vec<_> = fs::read_dir(keys).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["id_ed25519"]);
    assert_eq!(fs::read(keys.join("id_ed25519")).unwrap(), b"secret");
}

/// The name of its copy.
fn name(published: &Published) -> String {
    format!("{}-{}", published.version, &published.digest["sha256:".len()..][..12])
}

#[tokio::test]
async fn a_folder_that_others_may_write_to_is_refused_at_the_start() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = bind(settings(&source, folder.path())).await.err().unwrap().to_string();
        assert!(error.contains(folder.path().to_str().unwrap()) && error.contains("others may write to it"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_link_in_place_of_the_folder_is_refused_at_the_start() {
    bounded(async {
        let source = FakeLearner::start().await;
        let keys = keys();
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("weights");
        symlink(keys.path(), &link).unwrap();
        let error = bind(settings(&source, &link)).await.err().unwrap().to_string();
        assert!(error.contains("it is a link"), "{error}");
        assert_untouched(keys.path());
    })
    .await;
}

#[tokio::test]
async fn a_pull_neither_deletes_nor_writes_where_a_planted_link_leads() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        let keys = keys();
        let partial = folder.path().join(format!(".{}.partial", name(&published)));
        for planted in [partial, folder.path().join(name(&published)), folder.path().join(".9-0.partial")] {
            symlink(keys.path(), planted).unwrap();
        }
        symlink(keys.path().join("id_ed25519"), folder.path().join(format!(".{}.writing", name(&published)))).unwrap();
        let pulled = agent.pull(&published).await.unwrap();
        assert_same(&pulled.path, &published);
        assert!(fs::symlink_metadata(&pulled.path).unwrap().is_dir());
        assert_untouched(keys.path());
    })
    .await;
}

#[tokio::test]
async fn what_is_planted_in_a_copy_that_is_being_made_is_removed() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        let keys = keys();
        let partial = folder.path().join(format!(".{}.partial", name(&published)));
        fs::create_dir_all(partial.join("folder")).unwrap();
        symlink(keys.path(), partial.join("more")).unwrap();
        symlink(keys.path().join("id_ed25519"), partial.join("config.json")).unwrap();
        let pulled = agent.pull(&published).await.unwrap();
        assert_same(&pulled.path, &published);
        assert_untouched(keys.path());
    })
    .await;
}

#[tokio::test]
async fn a_planted_link_to_a_copy_is_no_copy() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let published = source.publish(1, &TENSORS);
        let copy = Agent::start(&source, elsewhere.path()).await.pull(&published).await.unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        symlink(&copy.path, folder.path().join(name(&published))).unwrap();
        let pulled = agent.pull(&published).await.unwrap();
        assert!(pulled.fetched_bytes > 0 && fs::symlink_metadata(&pulled.path).unwrap().is_dir());
        assert_same(&copy.path, &published);
    })
    .await;
}

#[tokio::test]
async fn a_learner_that_sends_another_configuration_or_tokenizer_is_refused() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        for (name, text) in
            [("config.json", "{\"eos_token_id\":0}"), ("tokenizer.json", "{}"), ("chat_template.jinja", "x")]
        {
            let wanted = source.publish(1, &TENSORS);
            source.say(1, |published| published.plant(name, text));
            let refused = agent.pull(&wanted).await.unwrap_err();
            assert!(refused.code() == Code::DataLoss && refused.message().contains("files_digest"), "{refused}");
            assert!(agent.folders().await.is_empty(), "nothing was made of it");
            source.remove(1);
        }
        source.publish(1, &TENSORS);
        assert_same(&agent.pull(&published).await.unwrap().path, &published);
    })
    .await;
}

#[tokio::test]
async fn a_copy_with_another_configuration_is_fetched_again() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let published = source.publish(1, &TENSORS);
        let copy = Agent::start(&source, folder.path()).await.pull(&published).await.unwrap();
        fs::write(Path::new(&copy.path).join("config.json"), "{\"eos_token_id\":0}").unwrap();
        // Another process, which has verified nothing yet.
        let again = Agent::start(&source, folder.path()).await.pull(&published).await.unwrap();
        assert_same(&again.path, &published);
        // Without the digest of all files a caller gets what the learner describes: weights are compared alone.
        source.say(1, |published| published.plant("config.json", "{\"eos_token_id\":0}"));
        let elsewhere = tempfile::tempdir().unwrap();
        let mut unaware = published.clone();
        unaware.files_digest.clear();
        Agent::start(&source, elsewhere.path()).await.pull(&unaware).await.unwrap();
    })
    .await;
}
