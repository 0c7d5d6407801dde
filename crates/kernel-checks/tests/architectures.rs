//! Every kernel compiled for every architecture that is supported: sm_80, 90, 100 and 120, without a spilled register, and for sm_90 within
//! a stated number of registers.
//!
//! Needs `nvcc` (`NVCC`, or on the path) and no driver. Without it the tests are reported as ignored.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use evenkeel_kernels::sources;
use evenkeel_testing::{Trial, run, test};

/// Registers of a thread on sm_90: with so many, five blocks of 256 threads are resident on a multiprocessor.
const MOST_REGISTERS: u32 = 48;
/// In the whole source.
const KERNELS: usize = 83;

fn main() -> ExitCode {
    let names = [80, 90, 100, 120];
    let trials = names.map(|architecture| {
        let name = format!("kernels_compile_for_sm_{architecture}_without_spills");
        match compiler() {
            Some(nvcc) => test(&name, move || compiles(&nvcc, architecture)),
            None => Trial::test(name, || Err("nvcc is not on the path".into())).with_ignored_flag(true),
        }
    });
    run(trials.into())
}

fn compiler() -> Option<String> {
    let nvcc = std::env::var("NVCC").unwrap_or_else(|_| "nvcc".into());
    Command::new(&nvcc).arg("--version").output().is_ok_and(|output| output.status.success()).then_some(nvcc)
}

/// What ptxas says of a kernel.
#[derive(Default)]
struct Usage {
    registers: u32,
    spilled: u32,
}

fn compiles(nvcc: &str, architecture: u32) {
    let folder = tempfile::tempdir().unwrap();
    let mut kernels = BTreeMap::new();
    for source in sources() {
        let path = folder.path().join(source.name);
        std::fs::write(&path, &source.text).unwrap();
        kernels.extend(usage(nvcc, architecture, &path));
    }
    assert_eq!(kernels.len(), KERNELS);
    for (name, usage) in &kernels {
        assert_eq!(usage.spilled, 0, "{name} spills on sm_{architecture}");
        if architecture == 90 {
            assert!((1..=MOST_REGISTERS).contains(&usage.registers), "{name} takes {} registers", usage.registers);
        }
    }
}

fn usage(nvcc: &str, architecture: u32, source: &Path) -> BTreeMap<String, Usage> {
    let output = Command::new(nvcc)
        .args(["-std=c++17", "-cubin", "-Xptxas", "-v", &format!("-arch=sm_{architecture}"), "-o"])
        .arg(source.with_extension("cubin"))
        .arg(source)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let mut kernels: BTreeMap<String, Usage> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            current = rest.split('\'').next().unwrap().into();
        }
        let before = |what: &str| -> Option<u32> { line.split_once(what)?.0.split_whitespace().last()?.parse().ok() };
        let kernel = kernels.entry(current.clone()).or_default();
        kernel.spilled += before(" bytes spill stores").unwrap_or(0) + before(" bytes spill loads").unwrap_or(0);
        kernel.registers = kernel.registers.max(before(" registers").unwrap_or(0));
    }
    kernels.remove("");
    kernels
}
