//! The model of a run for everybody else.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{evenkeel, refused, resume, succeed, train};

/// A run of two steps.
fn run(folder: &Path) -> PathBuf {
    let out = folder.join("run");
    let mut command = train(&out);
    let settings = ["warm_start.steps=2", "checkpoint.every=1", "evaluation.problems=4"];
    command.args(["--steps", "2"]).args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);
    out
}

fn export(run: &Path, to: &Path, arguments: &[&str]) -> Command {
    let mut command = evenkeel(&["export"]);
    command.arg(run).arg("--to").arg(to).args(arguments);
    command
}

fn read(path: PathBuf) -> Vec<u8> {
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn an_exported_model_has_the_weights_of_its_step_and_says_what_trained_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let [newest, first] = ["newest", "first"].map(|name| dir.path().join(name));
    succeed(export(&run, &newest, &[]));
    succeed(export(&run, &first, &["--step", "1"]));
    let published = |version: u64| read(run.join(format!("weights/step-{version}/model.safetensors")));
    // Two supervised steps came before.
    assert_eq!(read(newest.join("model.safetensors")), published(4));
    assert_eq!(read(first.join("model.safetensors")), published(3));

    let card = String::from_utf8(read(newest.join("README.md"))).unwrap();
    for words in ["library_name: transformers", "# run after step 2", "| seed | 3 |", "val-core/", "critic/score/mean"]
    {
        assert!(card.contains(words), "{words}: {card}");
    }
    assert!(card.contains("prompts_per_step = 4"), "the recipe is in it: {card}");
    let generation: serde_json::Value = serde_json::from_slice(&read(newest.join("generation_config.json"))).unwrap();
    assert_eq!((&generation["eos_token_id"], &generation["temperature"]), (&1.into(), &serde_json::Value::Null));
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        assert!(newest.join(name).exists(), "{name}");
    }

    // A model without one gets the sampling of its training.
    std::fs::remove_file(run.join("model/generation_config.json")).unwrap();
    let again = dir.path().join("again");
    succeed(export(&run, &again, &[]));
    let generation: serde_json::Value = serde_json::from_slice(&read(again.join("generation_config.json"))).unwrap();
    assert_eq!(generation["eos_token_id"], 1);
    assert_eq!(
        (&generation["do_sample"], &generation["temperature"], &generation["top_k"]),
        (&true.into(), &1.0.into(), &0.into())
    );
}

#[test]
fn large_models_are_written_in_several_files_and_a_run_begins_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let to = dir.path().join("model");
    succeed(export(&run, &to, &["--type", "bf16", "--max-file", "200KiB"]));
    assert!(to.join("model.safetensors.index.json").exists() && !to.join("model.safetensors").exists());
    let config: serde_json::Value = serde_json::from_slice(&read(to.join("config.json"))).unwrap();
    assert_eq!(config["dtype"], "bfloat16");
    // Learner and engine open it.
    let mut command = train(&dir.path().join("next"));
    let model = format!("model.path={}", to.display());
    command.args(["--steps", "1", "--set", "data.kind=arithmetic", "--set", "warm_start.steps=0", "--set", &model]);
    succeed(command);
}

#[test]
fn deleted_weights_and_folders_that_hold_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let to = dir.path().join("model");
    let said = refused(export(&run, &to, &["--step", "9"]));
    assert!(said.contains("--step is 9, allowed: a step whose weights run `run` still has: 1, 2"), "{said}");
    assert!(refused(export(dir.path(), &to, &[])).contains("holds no run"));
    let said = refused(export(&run, &run, &[]));
    assert!(said.contains("holds files, allowed: an empty or a new folder"), "{said}");

    let weights = run.join("checkpoints/run/step-000002/model.safetensors");
    let mut bytes = read(weights.clone());
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let said = refused(export(&run, &to, &[]));
    assert!(said.contains("model.safetensors: is damaged"), "{said}");
    assert!(!to.exists());
}

#[test]
fn a_run_publishes_and_keeps_what_its_recipe_says() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    let settings =
        ["warm_start.steps=2", "evaluation.problems=0", "model.publish_type=bf16", "model.checkpoint_type=bf16"];
    command.args(["--steps", "2"]).args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);
    for folder in ["weights/step-4", "checkpoints/run/step-000002"] {
        let config: serde_json::Value = serde_json::from_slice(&read(out.join(folder).join("config.json"))).unwrap();
        assert_eq!(config["dtype"], "bfloat16", "{folder}");
    }
    let parameters = read(out.join("checkpoints/run/step-000002/model.safetensors")).len();
    assert!(parameters < read(out.join("model/model.safetensors")).len() * 3 / 4);
    let mut command = resume(&out);
    command.args(["--steps", "3"]);
    succeed(command);
    succeed(export(&out, &dir.path().join("model"), &["--type", "f32"]));
}
