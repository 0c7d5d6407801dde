//! One run on this processor and on an emulated one, bit for bit: `cargo test --release --test emulated`.
//!
//! The other processor is qemu's Haswell (Debian: `apt-get install qemu-user`), which has AVX2 and FMA and never
//! AVX-512, so that the comparison says most on a machine with AVX-512. Without qemu, or on another architecture, the
//! tests are listed as ignored.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints what it compared, and may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use evenkeel_run::metric::table::may_differ;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Map, Value};

/// Set for the copy of this program that only looks at its processor.
const PROBE: &str = "EVENKEEL_TEST_PROBE";
/// Translates programs of x86-64, one at a time.
const QEMU: &str = "qemu-x86_64";

fn main() {
    let arguments = Arguments::from_args();
    if std::env::var_os(PROBE).is_some() {
        std::process::exit(i32::from(!has_fused_vectors()));
    }
    let can_run = has_fused_vectors() && emulates_fused_vectors();
    let tests = [
        Trial::test("a_run_gives_the_same_bits_on_an_emulated_haswell", same_bits),
        Trial::test("a_processor_without_fused_multiply_adds_is_refused_by_name", refused),
    ];
    let kind = if can_run { "" } else { "needs AVX2, FMA and qemu-x86_64 7.2" };
    let tests = tests.into_iter().map(|test| test.with_ignored_flag(!can_run).with_kind(kind)).collect();
    libtest_mimic::run(&arguments, tests).exit();
}

/// Whether the processor, real or emulated, has what the kernels need.
fn has_fused_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether qemu is installed and translates AVX2 (from 7.2 on): this program asks itself under it.
fn emulates_fused_vectors() -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let mut command = Command::new(QEMU);
    command.args(["-cpu", "Haswell"]).arg(program).env(PROBE, "1").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn same_bits() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let [native, emulated] = [None, Some("Haswell")].map(|cpu| {
        let out = dir.path().join(cpu.unwrap_or("native"));
        let output = train(cpu, &out);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (instructions(&said), out)
    });
    println!("this processor: {}; emulated: {}", native.0, emulated.0);
    let native = native.1;
    let emulated = emulated.1;
    for run in [&native, &emulated] {
        let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        assert!(metrics.contains("\"proof/equal_tokens\":"), "engine and learner have the same bits: {metrics}");
    }
    for name in ["warm_start.jsonl", "metrics.jsonl", "evaluation.jsonl"] {
        assert_eq!(lines(&native.join(name)), lines(&emulated.join(name)), "{name}");
    }
    let weights = [&native, &emulated].map(|run| files(&run.join("weights")));
    assert!(!weights[0].is_empty());
    assert_eq!(weights[0].iter().map(|(name, _)| name).collect::<Vec<_>>(), ["step-11", "step-12"]);
    assert!(weights[0] == weights[1], "published weights differ");
    Ok(())
}

fn refused() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("run");
    let output = train(Some("Nehalem"), &out);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("processor is an x86-64 without avx2") && said.contains("fma"), "{said}");
    assert!(!out.exists(), "nothing has started");
    Ok(())
}

/// A whole run with all services in one process, on this processor or on an emulated one.
fn train(cpu: Option<&str>, out: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_evenkeel");
    let mut command = match cpu {
        None => Command::new(program),
        Some(cpu) => {
            let mut command = Command::new(QEMU);
            command.args(["-cpu", cpu, program]);
            command
        }
    };
    let recipe = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/emulated/tiny.toml");
    command.args(["--log", "info", "--log-format", "json", "train", "--json", "--recipe"]).arg(recipe);
    command.arg("--out").arg(out).stdin(Stdio::null()).output().unwrap()
}

/// What the learner says that it computes with.
fn instructions(log: &str) -> String {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = lines.filter_map(|line| Some(line.get("instructions")?.as_str()?.to_owned())).next();
    found.unwrap_or_else(|| panic!("no instructions in the log: {log}"))
}

/// Everything in a file of lines that two runs of one seed share.
fn lines(path: &Path) -> Vec<Map<String, Value>> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line| {
        let mut values: Map<String, Value> = serde_json::from_str(line).unwrap();
        values.retain(|name, _| !may_differ(name));
        values
    };
    text.lines().map(line).collect()
}

/// The weights in each folder of published versions, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let read = |path: PathBuf| std::fs::read(path.join("model.safetensors")).unwrap();
    let mut all: Vec<_> = entries.map(|entry| (entry.file_name().into_string().unwrap(), read(entry.path()))).collect();
    all.sort();
    all
}
