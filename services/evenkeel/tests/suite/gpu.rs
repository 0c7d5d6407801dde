//! `evenkeel gpu probe`, on machines with and without a GPU.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use serde_json::Value;

use crate::support::{evenkeel, succeed};

/// What it answers where libraries are searched in `first` before everything else.
fn probe(first: &Path) -> Value {
    let mut command = evenkeel(&["gpu", "probe", "--json"]);
    command.env("EVENKEEL_CUDA_LIBRARIES", first);
    serde_json::from_slice(&succeed(command).stdout).unwrap()
}

#[test]
fn a_machine_without_a_usable_gpu_is_described_and_no_error() {
    let probe = probe(Path::new(""));
    let text = String::from_utf8(succeed(evenkeel(&["gpu", "probe"])).stdout).unwrap();
    let usable = probe["usable"].as_bool().unwrap();
    assert_eq!(text.contains("training on a GPU is possible"), usable, "{text}");
    assert_eq!(text.contains("no GPU can be used here"), !usable, "{text}");
}

#[test]
fn a_missing_library_is_reported_with_every_place_that_was_searched() {
    let folder = tempfile::tempdir().unwrap();
    let probe = probe(folder.path());
    let missing = probe["libraries"].as_array().unwrap().iter().filter(|library| library["path"].is_null());
    for library in missing {
        let searched = library["searched"].as_array().unwrap();
        assert_eq!(searched[0].as_str(), folder.path().to_str(), "{library}");
        assert!(searched.len() > 2 && library["source"].is_string(), "{library}");
    }
}

/// What training a model of the repository's takes, with these options.
fn plan(options: &[&str]) -> std::process::Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/qwen3");
    let mut arguments = vec!["gpu", "plan", "--model", folder.to_str().unwrap(), "--longest", "16"];
    arguments.extend(options);
    evenkeel(&arguments).output().unwrap()
}

#[test]
fn a_plan_lists_its_parts_and_what_the_device_has() {
    let output = plan(&["--memory", "8"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for part in ["weights, fp32", "moments, fp32", "activations and workspace", "in all", "of 8.0 on the device"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value = serde_json::from_slice(&plan(&["--memory", "8", "--json"]).stdout).unwrap();
    let plans = json["plans"].as_array().unwrap();
    for plan in plans {
        let sum: u64 = plan["parts"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
        assert_eq!(plan["bytes"], sum);
        assert_eq!(plan["fits"], true);
    }
    let text = |plan: &Value, key: &str| plan[key].as_str().unwrap().to_owned();
    let ways: Vec<_> = plans.iter().map(|plan| (text(plan, "moments"), text(plan, "recompute"))).collect();
    let wanted = ["device", "host"].map(|place| ["none", "selective", "full"].map(|what| (place.into(), what.into())));
    assert_eq!(ways, wanted.concat());
    for (device, host) in plans[..3].iter().zip(&plans[3..]) {
        let of = |plan: &Value, key: &str| plan[key].as_u64().unwrap();
        assert_eq!(of(device, "host_bytes"), 0);
        assert!(of(host, "host_bytes") > 0 && of(host, "resident_bytes") < of(device, "resident_bytes"), "{host}");
    }
}

#[test]
fn a_plan_for_one_way_has_that_alone() {
    let output = plan(&["--memory", "8", "--recompute", "selective", "--moments", "host", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["plans"].as_array().unwrap().len(), 1);
    assert_eq!(json["plans"][0]["recompute"], "selective");
    assert_eq!(json["plans"][0]["moments"], "host");
}

#[test]
fn a_plan_that_does_not_fit_fails_and_says_what_to_lower() {
    let output = plan(&["--memory", "0.5"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        error.contains("free memory of compute.device is 0.5 GiB") && error.contains("micro_batch_tokens"),
        "{error}"
    );
    let error = String::from_utf8(plan(&["--memory", "0"]).stderr).unwrap();
    assert!(error.contains("--memory is 0, allowed: a number of GiB above 0"), "{error}");
}

#[test]
fn a_broken_library_is_reported_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    // Where the machine has the library too, that one is taken.
    std::fs::write(folder.path().join("libcudnn.so.9"), "not a library").unwrap();
    let probe = probe(folder.path());
    let libraries = probe["libraries"].as_array().unwrap();
    let cudnn = libraries.iter().find(|library| library["library"] == "cudnn").unwrap();
    let is_reported = cudnn["broken"][0].as_str().is_some_and(|text| text.contains("libcudnn.so.9"));
    assert!(is_reported || cudnn["path"].is_string(), "{cudnn}");
}
