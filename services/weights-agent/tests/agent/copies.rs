//! One copy for a node: whole, verified, made once, and made of what is there already.

use std::time::{Duration, Instant};

use evenkeel_config::ByteSize;
use evenkeel_rpc::error::{Reason, has_reason};
use tonic::Code;

use crate::source::FakeLearner;
use crate::{Agent, TENSORS, assert_same, bounded, settings};

#[tokio::test]
async fn a_version_is_fetched_once_and_then_there() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let published = source.publish(3, &TENSORS);
        let pulled = agent.pull(&published).await.unwrap();
        assert!(pulled.path.starts_with(folder.path().to_str().unwrap()));
        assert_same(&pulled.path, &published);
        assert_eq!((pulled.fetched_bytes, pulled.reused_bytes), (published.size(), 0));
        let again = agent.pull(&published).await.unwrap();
        assert_eq!((again.path, again.fetched_bytes), (pulled.path, 0));
        assert_eq!(source.sent(), published.size());
    })
    .await;
}

#[tokio::test]
async fn engines_and_agents_of_one_node_share_one_copy() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let one = Agent::start(&source, folder.path()).await;
        let two = Agent::start(&source, folder.path()).await;
        let published = source.publish(1, &TENSORS);
        source.pause(Duration::from_millis(5));
        let (a, b, c, d) =
            tokio::join!(one.pull(&published), two.pull(&published), one.pull(&published), two.pull(&published));
        let pulled = [a, b, c, d].map(Result::unwrap);
        assert!(pulled.iter().all(|one| one.path == pulled[0].path));
        assert_same(&pulled[0].path, &published);
        assert_eq!(source.sent(), published.size(), "fetched once");
        assert_eq!(pulled.iter().filter(|one| one.fetched_bytes > 0).count(), 1);
    })
    .await;
}

#[tokio::test]
async fn only_tensors_that_changed_are_fetched() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        agent.pull(&source.publish(1, &TENSORS)).await.unwrap();
        let mut changed = TENSORS;
        changed[2].1 = 33;
        let next = source.publish(2, &changed);
        let before = source.sent();
        let pulled = agent.pull(&next).await.unwrap();
        assert_same(&pulled.path, &next);
        // The tensor, and the marker, which names the version.
        let marker = next.files["evenkeel-version.json"].len() as u64;
        assert_eq!(pulled.fetched_bytes, 200_000 + marker);
        assert_eq!(source.sent() - before, pulled.fetched_bytes);
        assert_eq!(pulled.fetched_bytes + pulled.reused_bytes, next.size());
        // So they are by a process that has fetched nothing before.
        drop(agent);
        let next = source.publish(3, &TENSORS);
        let before = source.sent();
        let pulled = Agent::start(&source, folder.path()).await.pull(&next).await.unwrap();
        assert_same(&pulled.path, &next);
        assert_eq!(source.sent() - before, 200_000 + marker);
    })
    .await;
}

#[tokio::test]
async fn what_is_reused_is_verified_as_well() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let first = agent.pull(&source.publish(1, &TENSORS)).await.unwrap();
        // A disk that does not keep what it was given.
        let file = std::path::Path::new(&first.path).join("model-00001.safetensors");
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let mut changed = TENSORS;
        changed[3].1 = 44;
        let next = source.publish(2, &changed);
        let pulled = agent.pull(&next).await.unwrap();
        assert_same(&pulled.path, &next);
        // The damaged tensor `b` is fetched besides the one that changed.
        assert!(pulled.fetched_bytes >= 70_000 + 50_000, "{}", pulled.fetched_bytes);
    })
    .await;
}

#[tokio::test]
async fn a_copy_that_is_not_what_its_marker_says_is_fetched_again_by_the_next_process() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let published = source.publish(1, &TENSORS);
        let agent = Agent::start(&source, folder.path()).await;
        let first = agent.pull(&published).await.unwrap();
        drop(agent);
        let file = std::path::Path::new(&first.path).join("model-00002.safetensors");
        let length = std::fs::metadata(&file).unwrap().len();
        std::fs::File::options().write(true).open(&file).unwrap().set_len(length - 100).unwrap();
        let again = Agent::start(&source, folder.path()).await.pull(&published).await.unwrap();
        assert_same(&again.path, &published);
        assert!(again.fetched_bytes > 0);
    })
    .await;
}

#[tokio::test]
async fn a_version_that_is_gone_or_was_published_again_is_refused_and_what_is_here_stays() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let old = source.publish(4, &TENSORS);
        let current = source.publish(5, &TENSORS);
        let kept = agent.pull(&current).await.unwrap();
        source.remove(4);
        let status = agent.pull(&old).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(has_reason(&status, Reason::WeightsGone) && status.message().contains("version 4"), "{status}");
        // After a return to a checkpoint the same version has other weights.
        let mut changed = TENSORS;
        changed[0].1 = 9;
        source.remove(5);
        let repeated = source.publish(5, &changed);
        assert_same(&agent.pull(&current).await.unwrap().path, &current);
        let pulled = agent.pull(&repeated).await.unwrap();
        assert_same(&pulled.path, &repeated);
        assert_ne!(pulled.path, kept.path);
        assert_same(&kept.path, &current);
    })
    .await;
}

#[tokio::test]
async fn the_newest_copies_stay_and_folders_of_others_are_left_alone() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        let foreign = folder.path().join("mine");
        std::fs::create_dir(&foreign).unwrap();
        for version in 1..5 {
            let mut changed = TENSORS;
            changed[0].1 = version as u8;
            agent.pull(&source.publish(version, &changed)).await.unwrap();
            // The order is that of their times.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let folders = agent.folders().await;
        let versions: Vec<_> = folders.iter().map(|name| name.split('-').next().unwrap()).collect();
        assert_eq!(versions, ["3", "4"]);
        assert!(foreign.exists());
    })
    .await;
}

#[tokio::test]
async fn a_disk_without_room_is_refused_with_both_sizes_and_nothing_is_left_of_it() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let agent = Agent::start(&source, folder.path()).await;
        source.publish(1, &TENSORS);
        let mut large = source.publish(2, &TENSORS);
        source.say(2, |published| {
            let file = published.description.files.iter_mut().find(|file| file.name == "config.json").unwrap();
            (file.size_bytes, file.parts[0].size_bytes) = (1 << 50, 1 << 50);
        });
        large.files.clear();
        let status = agent.pull(&large).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(has_reason(&status, Reason::DiskFull), "{status}");
        assert!(status.message().contains("needed: 1024.0 TiB, free on the disk: "), "{status}");
        assert_eq!((agent.folders().await.len(), source.calls()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn bandwidth_stays_below_its_bound() {
    bounded(async {
        let source = FakeLearner::start().await;
        let folder = tempfile::tempdir().unwrap();
        let max_rate = Some(ByteSize::kib(512));
        let agent =
            Agent::with(evenkeel_weights_agent::WeightsAgentSettings { max_rate, ..settings(&source, folder.path()) });
        let agent = agent.await;
        let published = source.publish(1, &TENSORS);
        let began = Instant::now();
        agent.pull(&published).await.unwrap();
        let least = published.size() as f64 / (512.0 * 1024.0);
        assert!(began.elapsed().as_secs_f64() >= 0.95 * least, "{:?}, at least {least} s", began.elapsed());
    })
    .await;
}
