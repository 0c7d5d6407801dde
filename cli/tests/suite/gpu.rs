//! `evenkeel gpu`: the probe on this machine and on machines that stub libraries pretend, and memory plans.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    // Until it has.
    let status = evenkeel_cuda::STATUS;
    assert_eq!(probe["status"].as_str(), status);
    assert!(status.is_none_or(|words| text.contains(words)), "{text}");
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
fn plan(options: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/qwen3");
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
        let bytes = |plan: &Value, key: &str| plan[key].as_u64().unwrap();
        assert_eq!(bytes(device, "host_bytes"), 0);
        assert!(
            bytes(host, "host_bytes") > 0 && bytes(host, "resident_bytes") < bytes(device, "resident_bytes"),
            "{host}"
        );
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
fn fewer_blocks_of_gradients_take_less_memory() {
    let gradients = |blocks: &str| {
        let one_way = ["--memory", "8", "--recompute", "none", "--moments", "device", "--json"];
        let output = plan(&[&one_way[..], &["--gradient-blocks", blocks]].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["plans"][0]["parts"][1]["bytes"].as_u64().unwrap()
    };
    assert_eq!(["1", "2", "8"].map(|blocks| gradients(blocks) / gradients("1")), [1, 2, 4]);
    let error = String::from_utf8(plan(&["--memory", "8", "--gradient-blocks", "3"]).stderr).unwrap();
    assert!(error.contains("compute.gradient_blocks is 3, allowed: a power of two up to 1024"), "{error}");
}

#[test]
fn a_plan_that_does_not_fit_fails_and_says_what_to_lower() {
    let output = plan(&["--memory", "0.5"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        error.contains("compute.device has 0.5 GiB of free memory") && error.contains("micro_batch_tokens"),
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

/// A driver that a machine is to have.
struct Stub {
    /// 13000 for 13.0.
    cuda: u32,
    devices: u32,
    capability: [u32; 2],
}

const H200: Stub = Stub { cuda: 13_000, devices: 1, capability: [9, 0] };

/// Compiles a library with the linker's own compiler.
fn compile(to: &Path, source: &Path, options: &[String]) {
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    let output = compiler.args(["-shared", "-fPIC"]).args(options).arg("-o").arg(to).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A folder with that driver and empty libraries of every other name that training needs.
fn stubs(driver: &Stub) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let Stub { cuda, devices, capability: [major, minor] } = driver;
    let numbers = [("VERSION", cuda), ("DEVICES", devices), ("MAJOR", major), ("MINOR", minor)];
    let options = numbers.map(|(name, value)| format!("-D{name}={value}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/stub_driver.c");
    compile(&folder.path().join("libcuda.so.1"), &source, &options);
    let empty: PathBuf = folder.path().join("empty.c");
    std::fs::write(&empty, "int stub;\n").unwrap();
    for file in ["libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10", "libnvrtc.so.13"] {
        compile(&folder.path().join(file), &empty, &[]);
    }
    folder
}

/// What the probe prints of a machine with these libraries, as JSON and as text.
fn probed(folder: &Path) -> (Value, String) {
    let mut command = evenkeel(&["gpu", "probe"]);
    command.env("EVENKEEL_CUDA_LIBRARIES", folder);
    (probe(folder), String::from_utf8(succeed(command).stdout).unwrap())
}

#[test]
fn a_machine_with_a_new_driver_a_device_and_every_library_can_train() {
    let folder = stubs(&H200);
    let (json, text) = probed(folder.path());
    assert_eq!((&json["usable"], &json["driver"]["problem"]), (&Value::Bool(true), &Value::Null), "{text}");
    assert!(text.contains("training on a GPU is possible"), "{text}");
    assert!(text.contains("device 0   a stub, compute capability 9.0, 64.0 GiB"), "{text}");
}

#[test]
fn a_driver_older_than_the_libraries_is_refused_with_both_versions() {
    let folder = stubs(&Stub { cuda: 12_080, ..H200 });
    let (json, text) = probed(folder.path());
    assert_eq!(json["usable"], false);
    let words =
        "the driver supports CUDA 12.8, older than the libraries' 13.0, allowed: a driver of version 580 or later";
    assert_eq!(json["driver"]["problem"], words);
    assert!(text.contains(words) && text.contains("no GPU can be used here"), "{text}");
}

#[test]
fn a_driver_without_a_device_and_one_with_too_old_a_device_are_refused_with_the_reason() {
    let none = stubs(&Stub { devices: 0, ..H200 });
    let (json, _) = probed(none.path());
    assert_eq!(json["usable"], false);
    assert_eq!(json["driver"]["problem"], "cuInit failed with error 100: no CUDA-capable device is detected");
    let turing = stubs(&Stub { capability: [7, 5], ..H200 });
    let (json, text) = probed(turing.path());
    assert_eq!(json["usable"], false);
    assert!(text.contains("compute capability 7.5 (not supported: 8.0 or later is)"), "{text}");
}

#[test]
fn a_library_that_is_missing_or_of_another_version_is_named_with_where_it_was_searched_and_how_to_get_it() {
    let folder = stubs(&H200);
    let file = |name: &str| folder.path().join(name);
    std::fs::rename(file("libcublas.so.13"), file("libcublas.so.12")).unwrap();
    std::fs::remove_file(file("libnvrtc.so.13")).unwrap();
    let (json, text) = probed(folder.path());
    let of =
        |name: &str| json["libraries"].as_array().unwrap().iter().find(|report| report["library"] == name).unwrap();
    // Where the machine has a library itself, that one is taken.
    for name in ["cublas", "nvrtc"].into_iter().filter(|name| of(name)["path"].is_null()) {
        let report = of(name);
        assert_eq!(json["usable"], false, "{report}");
        assert_eq!(report["searched"][0], folder.path().to_str().unwrap());
        let source = report["source"].as_str().unwrap();
        assert!(source.contains("CUDA 13 toolkit") && source.contains("Python package nvidia-c"), "{source}");
        assert!(text.contains(source), "{text}");
        if name == "cublas" {
            assert_eq!(report["other_versions"][0], file("libcublas.so.12").to_str().unwrap());
            assert!(text.contains("of another version: ") && text.contains("libcublas.so.12"), "{text}");
        }
    }
}
