//! Runs of adapters with an engine that takes them by name, as vLLM does: every version arrives beside the one before
//! it, and an engine that answers with anything else is found.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::adapter_server::{AdapterFault, AdapterServer, LIVE};
use crate::lora::{learned, lora, names};
use crate::runs::walk;
use crate::support::{Process, count_lines, lines, prompts, refused, resume, succeed, wait_for};

fn with_engine(mut command: Command, engine: &AdapterServer) -> Command {
    command.args(["--set", &format!("generation.endpoints=[\"{}\"]", engine.url())]);
    command
}

#[test]
fn a_run_with_adapters_by_name_is_that_of_the_embedded_engine_and_leaves_one_behind() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    // With a lag samples are drawn from several versions at a time: from as many as the engine computes, and from one
    // more.
    for lag in [0, 1, 2] {
        let run = |name: &str, engine: Option<&AdapterServer>| {
            let out = dir.path().join(format!("{name}-{lag}"));
            let mut command = lora(&out, &model);
            command.args(["--set", &format!("pipeline.max_lag={lag}"), "--set", "learner.old_logp=rollout"]);
            command.args(["--set", "checkpoint.keep_weights=0"]);
            let output = succeed(match engine {
                Some(engine) => with_engine(command, engine),
                None => command,
            });
            (out, String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
        };
        let engine = AdapterServer::start(&model);
        let (embedded, _) = run("embedded", None);
        let (by_name, said) = run("by-name", Some(&engine));
        let waits = said.contains("an engine computes 2 adapters at a time, and samples are drawn from 3 versions");
        assert_eq!(waits, lag == 2, "{said}");
        assert_eq!(prompts(&by_name), prompts(&embedded));
        let norms = |run: &Path| -> Vec<Value> {
            let steps = lines(run).into_iter();
            steps.filter_map(|line| line.get("actor/grad_norm").cloned()).collect()
        };
        assert_eq!((norms(&by_name), norms(&by_name).len()), (norms(&embedded), 6));
        let text = std::fs::read_to_string(by_name.join("metrics.jsonl")).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&last["proof/excluded"], &last["proof/excluded/base"]), (&last["proof/suspicions"], &1.into()));

        // Every version under its own name, in order, and never more than the engine computes.
        let log = engine.log();
        let loads: Vec<&str> = log.iter().filter_map(|entry| entry.strip_prefix("load ")).collect();
        let versions: Vec<u64> =
            loads.iter().map(|name| name.split_once("-sha256:").unwrap().0.parse().unwrap()).collect();
        assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{log:?}");
        assert_eq!((versions.first(), versions.last()), (Some(&0), Some(&6)), "{log:?}");
        let mut live = 0;
        for entry in &log {
            live = if entry.starts_with("load") { live + 1 } else { live - 1 };
            assert!(live <= LIVE, "{log:?}");
        }
        assert_eq!(engine.adapters(), [loads.last().unwrap().to_owned()]);
    }
}

#[test]
fn an_adapter_that_never_arrives_whole_is_found_before_the_next_update() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    let engine = AdapterServer::start(&model);
    let out = dir.path().join("run");
    let mut command = lora(&out, &model);
    // More than are done before it goes wrong.
    command.args(["--steps", "2000"]);
    let process = Process::start(with_engine(command, &engine));
    wait_for("steps", || count_lines(&out.join("metrics.jsonl")) >= 3);
    process.kill();
    let stale = dir.path().join("stale");
    let oldest = names(&out.join("weights"))
        .into_iter()
        .min_by_key(|name| name.split('-').next().unwrap().parse::<u64>().unwrap());
    std::fs::create_dir(&stale).unwrap();
    let oldest = out.join("weights").join(oldest.unwrap());
    for name in names(&oldest) {
        std::fs::copy(oldest.join(&name), stale.join(&name)).unwrap();
    }
    // The version that a resumed process begins with: there was no warm start.
    let steps =
        walk(&out.join("checkpoints")).into_iter().filter_map(|name| name.strip_prefix("step-")?.parse::<u64>().ok());
    let first = steps.max().unwrap();
    for (fault, words, in_first_proof) in [
        (AdapterFault::Base, "it answers as the base model", true),
        (AdapterFault::WrongRank(0.5), "it answers as the base model, without ", true),
        (AdapterFault::WrongRank(1.5), "too much of the adapter", true),
        // So much that it may also be called another model.
        (AdapterFault::WrongRank(2.0), "does not have version", true),
        (AdapterFault::Stale(stale), "does not have version", false),
    ] {
        engine.go_wrong(Some(fault));
        let error = refused(resume(&out));
        // The first samples are drawn beside the first proof, and their audit may be the first to end.
        let is_audited = in_first_proof && error.contains("fail the audit of their log-probabilities");
        let is_proven =
            error.contains(words) && (!in_first_proof || error.contains(&format!("does not have version {first} of")));
        assert!(is_audited || is_proven, "{words}, {first}: {error}");
        engine.go_wrong(None);
    }
}

#[test]
fn what_an_engine_by_name_does_not_take_is_named_before_the_first_sample() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    let engine = AdapterServer::start(&model);
    let out = dir.path().join("rank");
    let mut command = with_engine(lora(&out, &model), &engine);
    command.args(["--set", "learner.lora.rank=32"]);
    let error = refused(command);
    assert!(error.contains("the adapter's rank is 32") && error.contains("--max-lora-rank"), "{error}");
    let out = dir.path().join("asleep");
    let mut command = with_engine(lora(&out, &model), &engine);
    command.args(["--set", "sampling.engines_while_training=discard"]);
    let error = refused(command);
    assert!(error.contains("sampling.engines_while_training") && error.contains("learner.lora"), "{error}");
    assert!(engine.log().is_empty());
}
