//! A small server that answers as the hub does, well and badly.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use evenkeel_hub::{Environment, Hub, HubError, ModelName, RetryPolicy};
use evenkeel_testkit::hub_server::{HubAnswer, Repository, Request, Server};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret";

fn repository() -> Repository {
    let weights: Vec<u8> = (0..300_000u32).flat_map(|i| (i % 251).to_le_bytes()).collect();
    let files = [
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", br#"{"version": "1.0"}"#.to_vec()),
        ("tokenizer_config.json", b"{}".to_vec()),
        ("model.safetensors", weights),
        ("pytorch_model.bin", vec![0; 1000]),
        ("README.md", b"words".to_vec()),
    ];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
    Repository { name: "org/tiny".into(), commit: COMMIT.into(), files: files.into() }
}

/// A hub, the place of its large files, and an empty cache.
struct World {
    hub: Server,
    cdn: Server,
    home: tempfile::TempDir,
}

impl World {
    fn new(cdn: impl Fn(&Repository, &str) -> HubAnswer + Send + Sync + 'static) -> Self {
        let cdn = Server::start(move |request| cdn(&repository(), &request.path));
        let url = cdn.url.clone();
        let hub = Server::start(move |request| repository().answer(&request.path, &url));
        Self { hub, cdn, home: tempfile::tempdir().unwrap() }
    }

    fn with_hub(hub: impl Fn(&str) -> HubAnswer + Send + Sync + 'static) -> Self {
        let cdn = Server::start(|_| HubAnswer::refused(404, "EntryNotFound"));
        Self { hub: Server::start(move |request| hub(&request.path)), cdn, home: tempfile::tempdir().unwrap() }
    }

    fn environment(&self, more: &[(&str, &str)]) -> Environment {
        let home = self.home.path().to_str().unwrap();
        let mut variables = BTreeMap::from([("HF_HOME", home), ("HF_ENDPOINT", &self.hub.url), ("HF_TOKEN", TOKEN)]);
        variables.extend(more.iter().copied());
        Environment::of(|name| variables.get(name).map(|value| (*value).into())).unwrap()
    }

    fn client(&self, more: &[(&str, &str)]) -> Hub {
        let retries = RetryPolicy {
            connect: Duration::from_secs(2),
            read: Duration::from_millis(400),
            window: Duration::from_millis(600),
            least: 1000,
            delay: Duration::from_millis(10),
            attempts: 3,
        };
        Hub::new(self.environment(more), retries)
    }

    fn fetch(&self, name: &str, more: &[(&str, &str)]) -> Result<evenkeel_hub::Snapshot, HubError> {
        self.client(more).fetch(&ModelName::parse("model.path", name).unwrap())
    }

    fn model(&self) -> std::path::PathBuf {
        self.home.path().join("hub/models--org--tiny")
    }

    /// Asserts that nothing incomplete has a name under which a model is read.
    fn assert_no_weights(&self) {
        let repository = repository();
        let blob = self.model().join("blobs").join(repository.digest("model.safetensors"));
        let file = self.model().join("snapshots").join(COMMIT).join("model.safetensors");
        assert!(!blob.exists() && !file.exists());
        let offline = self.fetch("hf:org/tiny", &[("HF_HUB_OFFLINE", "1")]).unwrap_err();
        assert!(matches!(offline, HubError::Offline { .. }), "{offline}");
    }
}

fn large(repository: &Repository, path: &str) -> HubAnswer {
    repository.large(path)
}

#[test]
fn a_model_comes_with_what_it_needs_and_nothing_else_into_the_usual_cache() {
    let world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    assert_eq!(snapshot.commit, COMMIT);
    assert_eq!(snapshot.folder, world.model().join("snapshots").join(COMMIT));
    let repository = repository();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        assert_eq!(std::fs::read(snapshot.folder.join(name)).unwrap(), repository.files[name], "{name}");
        let target = std::fs::read_link(snapshot.folder.join(name)).unwrap();
        assert_eq!(target, Path::new("../../blobs").join(repository.digest(name)));
    }
    assert_eq!(std::fs::read_dir(&snapshot.folder).unwrap().count(), 4);
    assert_eq!(std::fs::read_to_string(world.model().join("refs/main")).unwrap(), COMMIT);
    // The token goes to the hub and not where it sends its clients.
    let is_bearer = |request: &Request| request.header("authorization") == Some(&format!("Bearer {TOKEN}"));
    assert!(world.hub.requests().iter().all(is_bearer));
    let elsewhere = world.cdn.requests();
    assert!(elsewhere.len() == 1 && elsewhere[0].header("authorization").is_none());

    // Nothing comes a second time, by whichever name.
    let before = world.hub.requests().len();
    assert_eq!(world.fetch(&format!("hf:org/tiny@{COMMIT}"), &[]).unwrap(), snapshot);
    assert_eq!(world.hub.requests().len(), before + 1, "the list of files alone");
    assert_eq!(world.cdn.requests().len(), 1);
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_stopped() {
    let world = World::new(|repository, path| large(repository, path).cut_after(500_000));
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    let wanted = &repository().files["model.safetensors"];
    assert_eq!(&std::fs::read(snapshot.folder.join("model.safetensors")).unwrap(), wanted);
    let ranges: Vec<_> = world.cdn.requests().iter().map(|request| request.header("range").cloned()).collect();
    assert_eq!(ranges, [None, Some("bytes=500000-".into()), Some("bytes=1000000-".into())]);
}

#[test]
fn a_process_that_was_killed_in_the_middle_leaves_what_the_next_one_takes_up() {
    let world = World::new(large);
    let repository = repository();
    let part = world.model().join("blobs").join(repository.digest("model.safetensors")).with_extension("incomplete");
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, &repository.files["model.safetensors"][..700_000]).unwrap();
    world.fetch("hf:org/tiny", &[]).unwrap();
    assert_eq!(world.cdn.requests()[0].header("range").unwrap(), "bytes=700000-");
    assert!(!part.exists());
}

#[test]
fn a_server_without_ranges_begins_anew() {
    let world = World::new(|repository, path| large(repository, path).without_ranges());
    let repository = repository();
    let part = world.model().join("blobs").join(repository.digest("model.safetensors")).with_extension("incomplete");
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, b"other bytes").unwrap();
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    let found = std::fs::read(snapshot.folder.join("model.safetensors")).unwrap();
    assert_eq!(found, repository.files["model.safetensors"]);
}

#[test]
fn a_hub_that_lies_about_size_or_content_is_named_and_nothing_is_kept() {
    type Lie = fn(&Repository, &str) -> HubAnswer;
    let longer: Lie = |repository, path| large(repository, path).map(|bytes| bytes.push(0));
    let shorter: Lie = |repository, path| large(repository, path).map(|bytes| bytes.truncate(1000));
    let other: Lie = |repository, path| large(repository, path).map(|bytes| bytes[77] ^= 1);
    for (lie, words) in [
        (longer, "more than the 1200000 bytes that the hub lists"),
        (shorter, "bytes"),
        (other, "the downloaded file has the digest"),
    ] {
        let world = World::new(lie);
        let error = world.fetch("hf:org/tiny", &[]).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("model.safetensors"), "{error}");
        world.assert_no_weights();
    }
}

#[test]
fn a_hub_that_sends_nothing_or_byte_by_byte_is_given_up() {
    for answer in [
        (|repository: &Repository, path: &str| large(repository, path).silent()) as fn(&Repository, &str) -> HubAnswer,
        |repository, path| large(repository, path).slow(),
    ] {
        let world = World::new(answer);
        let begin = std::time::Instant::now();
        let error = world.fetch("hf:org/tiny", &[]).unwrap_err();
        assert!(matches!(error, HubError::Unreachable { .. }), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(20));
        world.assert_no_weights();
    }
}

#[test]
fn what_the_hub_refuses_is_said_with_what_is_allowed() {
    for (status, code, words) in [
        (401, "", "none that this token may read"),
        (403, "GatedRepo", "the model is gated, allowed: HF_TOKEN"),
        (404, "RepoNotFound", "no such model"),
        (404, "RevisionNotFound", "no such revision, allowed: a branch, a tag or a commit"),
    ] {
        let world = World::with_hub(move |_| HubAnswer::refused(status, code));
        let error = world.fetch("hf:org/tiny@v9", &[]).unwrap_err().to_string();
        assert!(error.contains(&status.to_string()) && error.contains(words), "{error}");
        assert!(!error.contains(TOKEN));
        assert_eq!(world.hub.requests().len(), 1, "no second attempt");
    }
    let world = World::with_hub(|_| HubAnswer::refused(401, ""));
    let error = world.fetch("hf:org/tiny", &[("HF_TOKEN", "")]).unwrap_err().to_string();
    assert!(error.contains("one that asks for a token, allowed: HF_TOKEN"), "{error}");
}

#[test]
fn a_hub_that_fails_for_a_moment_is_asked_again() {
    let fails = std::sync::atomic::AtomicUsize::new(0);
    let world = World::new(move |repository, path| match fails.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => HubAnswer::refused(503, ""),
        _ => large(repository, path),
    });
    world.fetch("hf:org/tiny", &[]).unwrap();
    assert_eq!(world.cdn.requests().len(), 2);
}

#[test]
fn without_a_hub_a_whole_model_is_taken_from_the_cache() {
    let mut world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    let offline = [("HF_HUB_OFFLINE", "1")];
    let before = world.hub.requests().len();
    assert_eq!(world.fetch("hf:org/tiny", &offline).unwrap(), snapshot);
    assert_eq!(world.hub.requests().len(), before, "nobody is asked");
    world.hub = Server::closed();
    assert_eq!(world.fetch("hf:org/tiny", &[]).unwrap(), snapshot);
    std::fs::remove_file(snapshot.folder.join("model.safetensors")).unwrap();
    let error = world.fetch("hf:org/tiny", &[]).unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }), "{error}");
    let error = world.fetch("hf:org/tiny", &offline).unwrap_err().to_string();
    let words = "does not have the whole model, and HF_HUB_OFFLINE is set: model.safetensors is absent, which its \
        repository has";
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_hub_that_fails_is_asked_once_if_the_model_is_at_hand() {
    let mut world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    world.hub = Server::start(|_| HubAnswer::refused(503, ""));
    assert_eq!(world.fetch("hf:org/tiny", &[]).unwrap(), snapshot);
    assert_eq!(world.hub.requests().len(), 1);

    let empty = World::with_hub(|_| HubAnswer::refused(503, ""));
    let name = ModelName::parse("model.path", "hf:org/tiny").unwrap();
    empty.client(&[]).with_substitute(true).fetch(&name).unwrap_err();
    assert_eq!(empty.hub.requests().len(), 1);
    empty.fetch("hf:org/tiny", &[]).unwrap_err();
    assert_eq!(empty.hub.requests().len(), 4);
}

#[test]
fn a_model_without_its_tokenizers_configuration_is_not_whole() {
    let mut world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    std::fs::remove_file(snapshot.folder.join("tokenizer_config.json")).unwrap();
    let offline = [("HF_HUB_OFFLINE", "1")];
    let lack = "tokenizer_config.json is absent, which its repository has";
    let error = world.fetch("hf:org/tiny", &offline).unwrap_err().to_string();
    assert!(error.contains(lack), "{error}");
    let hub = std::mem::replace(&mut world.hub, Server::closed());
    let error = world.fetch("hf:org/tiny", &[]).unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }) && error.to_string().contains(lack), "{error}");
    world.hub = hub;
    assert_eq!(world.fetch("hf:org/tiny", &[]).unwrap(), snapshot);
    assert!(snapshot.folder.join("tokenizer_config.json").is_file());
}

#[test]
fn a_model_of_another_program_is_whole_where_what_it_lacks_is_known_to_be_nowhere() {
    let world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    // As huggingface_hub leaves the cache.
    std::fs::remove_dir_all(world.model().join(".evenkeel")).unwrap();
    let offline = [("HF_HUB_OFFLINE", "1")];
    let error = world.fetch("hf:org/tiny", &offline).unwrap_err().to_string();
    assert!(error.contains("generation_config.json is absent, and nothing in the cache says"), "{error}");
    let asked_in_vain = world.model().join(".no_exist").join(COMMIT);
    std::fs::create_dir_all(&asked_in_vain).unwrap();
    std::fs::write(asked_in_vain.join("generation_config.json"), "").unwrap();
    let error = world.fetch("hf:org/tiny", &offline).unwrap_err().to_string();
    assert!(error.contains("chat_template.jinja is absent, and nothing in the cache says"), "{error}");
    std::fs::write(asked_in_vain.join("chat_template.jinja"), "").unwrap();
    assert_eq!(world.fetch("hf:org/tiny", &offline).unwrap(), snapshot);
    std::fs::remove_file(snapshot.folder.join("tokenizer_config.json")).unwrap();
    let error = world.fetch("hf:org/tiny", &offline).unwrap_err().to_string();
    assert!(error.contains("tokenizer_config.json is absent"), "{error}");
}

#[test]
fn a_model_that_another_program_downloaded_with_its_whole_repository_is_whole() {
    let world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    std::fs::remove_dir_all(world.model().join(".evenkeel")).unwrap();
    let offline = [("HF_HUB_OFFLINE", "1")];
    world.fetch("hf:org/tiny", &offline).unwrap_err();
    std::fs::write(snapshot.folder.join(".gitattributes"), "*.safetensors filter=lfs").unwrap();
    assert_eq!(world.fetch("hf:org/tiny", &offline).unwrap(), snapshot);
}

#[test]
fn a_damaged_file_of_the_cache_comes_again_or_is_named() {
    let world = World::new(large);
    let snapshot = world.fetch("hf:org/tiny", &[]).unwrap();
    let offline = [("HF_HUB_OFFLINE", "1")];
    for name in ["model.safetensors", "tokenizer.json"] {
        let path = snapshot.folder.join(name);
        let whole = std::fs::read(&path).unwrap();
        let damage = || {
            let mut bytes = whole.clone();
            bytes[5] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        };
        damage();
        let error = world.fetch("hf:org/tiny", &offline).unwrap_err();
        let wanted = repository().digest(name);
        assert!(matches!(error, HubError::Damaged { .. }) && error.to_string().contains(&wanted), "{error}");
        // Also one that another program downloaded.
        std::fs::rename(world.model().join(".evenkeel"), world.home.path().join("aside")).unwrap();
        let asked_in_vain = world.model().join(".no_exist").join(COMMIT);
        std::fs::create_dir_all(&asked_in_vain).unwrap();
        for absent in ["generation_config.json", "chat_template.jinja"] {
            std::fs::write(asked_in_vain.join(absent), "").unwrap();
        }
        let error = world.fetch("hf:org/tiny", &offline).unwrap_err();
        assert!(matches!(error, HubError::Damaged { .. }), "{error}");
        let _ = std::fs::remove_dir_all(world.model().join(".evenkeel"));
        std::fs::rename(world.home.path().join("aside"), world.model().join(".evenkeel")).unwrap();

        world.fetch("hf:org/tiny", &[]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn a_commit_that_the_hub_exchanges_is_refused() {
    let world = World::new(large);
    let other = "f".repeat(40);
    let error = world.fetch(&format!("hf:org/tiny@{other}"), &[]).unwrap_err().to_string();
    assert!(error.contains(&format!("the hub answers with commit {COMMIT}")), "{error}");
}
