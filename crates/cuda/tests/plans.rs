//! Plans of cuDNN for an H200 that is only described (`h200.json`): the recipes' shapes have plans, their workspace is
//! within what the memory plan counts, and plans are kept in files.
//!
//! Needs cuDNN and NVRTC, where [`evenkeel_cuda::open`] finds them (the Python packages nvidia-cudnn-cu13 and
//! nvidia-cuda-nvrtc), and a C compiler for stand-ins of the driver and of cuBLASLt, which must not be real here.
//! Without them the tests are reported as ignored.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use evenkeel_cuda::cudnn::{Cudnn, CudnnError};
use evenkeel_cuda::{Library, open};
use evenkeel_kernels::{FusedArrays, FusedAttention, FusedGradients, FusedPass, FusedShape, Pointer};
use evenkeel_testkit::{Trial, run, test};
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};
use serde_json::{Value, json};

const PASSES: [FusedPass; 3] = [FusedPass::Forward, FusedPass::Backward, FusedPass::DeterministicBackward];

const fn shape(sequences: usize, longest: usize, [heads, kv_heads, dim]: [usize; 3]) -> FusedShape {
    FusedShape { sequences, longest, heads, kv_heads, dim }
}

/// Heads of Qwen3-1.7B, of Qwen2.5-Math-7B, of a small model, and one whose query heads have their own keys.
const SMALL: [usize; 3] = [16, 8, 128];
const LARGE: [usize; 3] = [28, 4, 128];
const TINY: [usize; 3] = [4, 2, 64];
const OWN: [usize; 3] = [8, 8, 64];

fn main() -> ExitCode {
    let tests: [(&str, fn()); 6] = [
        ("every_shape_of_the_recipes_has_plans_within_the_counted_workspace", recipes),
        ("a_plan_is_read_from_its_file_and_a_damaged_file_is_replaced", files),
        ("a_newer_architecture_has_plans_as_well", newer),
        ("a_device_without_such_attention_is_refused_with_shape_pass_and_reason", older),
        ("a_description_that_is_none_is_refused", descriptions),
        ("nothing_runs_on_a_described_device", described),
    ];
    let trials = tests.map(|(name, body)| match stand_ins() {
        Ok(()) => test(name, body),
        Err(missing) => {
            let missing = missing.clone();
            Trial::test(name, move || Err(missing.into())).with_ignored_flag(true)
        }
    });
    run(trials.into())
}

/// Loads a driver and a cuBLASLt that have nothing, and the libraries that the tests need.
fn stand_ins() -> Result<(), &'static String> {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    READY.get_or_init(load).as_ref().copied()
}

fn load() -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if let Err(error) = Command::new(&compiler).arg("--version").output() {
        return Err(format!("no C compiler: {compiler}: {error}"));
    }
    let folder = tempfile::tempdir().unwrap();
    for file in ["libcuda.so.1", "libcublasLt.so.13"] {
        let path = folder.path().join(file);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_ins.c");
        let name = format!("-Wl,-soname,{file}");
        let output =
            Command::new(&compiler).args(["-shared", "-fPIC", &name, "-o"]).arg(&path).arg(&source).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: this test's own library, without initialisers.
        let loaded = unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.unwrap();
        // From now on this one is opened under that name.
        std::mem::forget(loaded);
    }
    for library in [Library::Nvrtc, Library::Cudnn] {
        open(library).map_err(|missing| missing.to_string())?;
    }
    match Cudnn::described(&h200(&json!({})), None) {
        Err(error @ CudnnError::Version { .. }) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// The H200, with changes. Later versions of the library ask for more.
fn h200(changes: &Value) -> String {
    let mut device: Value = serde_json::from_str(include_str!("h200.json")).unwrap();
    let later = json!({"memoryBusWidth": 6144, "smCountOrigin": 0, "oversizedSharedMemoryPerBlock": 0});
    for (key, value) in [later, changes.clone()].iter().flat_map(|more| more.as_object().unwrap()) {
        device[key] = value.clone();
    }
    device.to_string()
}

fn cudnn() -> Cudnn {
    Cudnn::described(&h200(&json!({})), None).unwrap()
}

fn recipes() {
    let cudnn = cudnn();
    println!("cuDNN {} ({})", cudnn.version(), cudnn.path());
    for shape in [
        shape(8, 4096, SMALL),
        shape(4, 8192, SMALL),
        shape(2, 16_384, SMALL),
        shape(8, 2048, LARGE),
        shape(24, 256, TINY),
        shape(3, 384, OWN),
    ] {
        for pass in PASSES {
            // Plans are made for such shapes alone.
            assert_eq!(shape.rounded_up(), shape);
            let plan = cudnn.plan(shape, pass).unwrap();
            let most = shape.workspace(pass);
            println!("{pass} {shape}: {} bytes of workspace, counted {most}", plan.workspace());
            assert!(plan.workspace() <= most, "{pass} {shape}: {} of {most}", plan.workspace());
        }
    }
}

fn files() {
    let folder = tempfile::tempdir().unwrap();
    let of_folder = || Cudnn::described(&h200(&json!({})), Some(folder.path())).unwrap();
    for pass in PASSES {
        let shape = shape(4, 512, SMALL);
        let built = of_folder().plan(shape, pass).unwrap();
        let read = of_folder().plan(shape, pass).unwrap();
        assert_eq!((built.is_read(), read.is_read()), (false, true), "{pass}");
        assert_eq!(built.workspace(), read.workspace(), "{pass}");
    }
    let devices: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let plans = std::fs::read_dir(&devices[0]).unwrap().next().unwrap().unwrap().path();
    let file = plans.join("forward-4x512-heads-16-8-dim-128.plan");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let again = of_folder().plan(shape(4, 512, SMALL), FusedPass::Forward).unwrap();
    assert!(!again.is_read());
    assert!(of_folder().plan(shape(4, 512, SMALL), FusedPass::Forward).unwrap().is_read());
}

fn newer() {
    let device = json!({"deviceVer": 1000, "multiProcessorCount": 148, "deviceName": "NVIDIA B200"});
    let cudnn = Cudnn::described(&h200(&device), None).unwrap();
    for pass in [FusedPass::Forward, FusedPass::Backward] {
        cudnn.plan(shape(8, 4096, SMALL), pass).unwrap();
    }
}

fn older() {
    let device = json!({"deviceVer": 800, "multiProcessorCount": 108, "deviceName": "NVIDIA A100"});
    let cudnn = Cudnn::described(&h200(&device), None).unwrap();
    let error = cudnn.plan(shape(8, 4096, SMALL), FusedPass::DeterministicBackward).err().unwrap();
    assert!(matches!(error, CudnnError::NoPlan { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("no plan for the deterministic-backward pass of attention 8x4096-heads-16-8"), "{text}");
    assert!(text.contains("no engine was proposed") || text.contains("CUDNN_STATUS_"), "{text}");
}

fn descriptions() {
    let error = Cudnn::described("{}", None).err().unwrap();
    let CudnnError::Call { what, name, .. } = &error else { panic!("{error}") };
    assert_eq!((*what, name.contains("CUDNN_STATUS_")), ("cudnnBackendFinalize", true), "{error}");
}

fn described() {
    let shape = shape(1, 128, TINY);
    let pass = FusedPass::Forward;
    let arrays = FusedArrays::default();
    let gradients = FusedGradients::default();
    let workspace = Pointer::NULL;
    let attention = FusedAttention { shape, pass, tokens: 1, pairs: 1, arrays, gradients, workspace };
    // SAFETY: it is refused before any address is used.
    let refused = unsafe { cudnn().run(&attention) };
    assert_eq!(refused.unwrap_err(), CudnnError::Described);
}
