//! Every kernel compiled by NVRTC, as a learner does when it starts, for every architecture that is supported: sm_80, 90, 100 and 120, without
//! a spilled register, and for sm_90 within a stated number of registers.
//!
//! Needs NVRTC, where [`evenkeel_cuda::open`] finds it (the Python package nvidia-cuda-nvrtc), and neither a driver nor a GPU. Without it the
//! tests are reported as ignored.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::process::ExitCode;
use std::ptr;

use evenkeel_cuda::{Library, LoadedLibrary, open};
use evenkeel_kernels::{Source, sources};
use evenkeel_testing::{Trial, run, test};

/// Registers of a thread on sm_90: with this many, five blocks of 256 threads are resident on a multiprocessor.
const MAX_REGISTERS: u32 = 48;
/// In the whole source.
const KERNELS: usize = 83;

fn main() -> ExitCode {
    let names = [80, 90, 100, 120];
    let trials = names.map(|architecture| {
        let name = format!("kernels_compile_for_sm_{architecture}_without_spills");
        match open(Library::Nvrtc) {
            Ok(nvrtc) => test(&name, move || compiles(nvrtc, architecture)),
            Err(missing) => Trial::test(name, move || Err(missing.to_string().into())).with_ignored_flag(true),
        }
    });
    run(trials.into())
}

/// What the assembler says of a kernel.
#[derive(Default)]
struct Usage {
    registers: u32,
    spilled: u32,
}

fn compiles(nvrtc: LoadedLibrary, architecture: u32) {
    let mut kernels = BTreeMap::new();
    for source in sources() {
        kernels.extend(usage(&log(nvrtc, architecture, &source)));
    }
    assert_eq!(kernels.len(), KERNELS);
    let most = kernels.iter().max_by_key(|(_, usage)| usage.registers).unwrap();
    println!("sm_{architecture}: {} kernels, {} registers at most ({})", kernels.len(), most.1.registers, most.0);
    for (name, usage) in &kernels {
        assert_eq!(usage.spilled, 0, "{name} spills on sm_{architecture}");
        assert!(usage.registers > 0, "nothing is known of {name}");
        if architecture == 90 {
            assert!(usage.registers <= MAX_REGISTERS, "{name} takes {} registers", usage.registers);
        }
    }
}

/// What NVRTC writes of a source that it compiles to machine code.
fn log(nvrtc: LoadedLibrary, architecture: u32, source: &Source) -> String {
    type Create = unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int;
    type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
    type LogSize = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
    type Log = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
    type Destroy = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
    // SAFETY: the library is open already.
    let nvrtc = unsafe { libloading::Library::new(nvrtc.path()) }.unwrap();
    // SAFETY: the types that nvrtc.h declares for these functions.
    let (create, compile, log_size, log, destroy) = unsafe {
        (
            nvrtc.get::<Create>("nvrtcCreateProgram").unwrap(),
            nvrtc.get::<Compile>("nvrtcCompileProgram").unwrap(),
            nvrtc.get::<LogSize>("nvrtcGetProgramLogSize").unwrap(),
            nvrtc.get::<Log>("nvrtcGetProgramLog").unwrap(),
            nvrtc.get::<Destroy>("nvrtcDestroyProgram").unwrap(),
        )
    };
    let [text, name] = [source.text.as_str(), source.name].map(|text| CString::new(text).unwrap());
    // A real architecture: the assembler runs, and says what each kernel takes.
    let architecture = format!("--gpu-architecture=sm_{architecture}");
    let options = [&architecture, "--std=c++17", "--ptxas-options=-v"].map(|option| CString::new(option).unwrap());
    let pointers = options.each_ref().map(|option| option.as_ptr());
    let mut program = ptr::null_mut();
    // SAFETY: every pointer leads to a text or a value that outlives its call; the log has as many bytes as the library asks for.
    unsafe {
        assert_eq!(create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()), 0);
        let code = compile(program, pointers.len() as c_int, pointers.as_ptr());
        let mut size = 0;
        assert_eq!(log_size(program, &raw mut size), 0);
        let mut bytes = vec![0u8; size];
        assert_eq!(log(program, bytes.as_mut_ptr().cast()), 0);
        destroy(&raw mut program);
        let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
        assert_eq!(code, 0, "{}: {text}", source.name);
        text
    }
}

/// By kernel, out of such a log.
fn usage(log: &str) -> BTreeMap<String, Usage> {
    let mut kernels: BTreeMap<String, Usage> = BTreeMap::new();
    let mut current = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            current = rest.split('\'').next();
        }
        let Some(current) = current else { continue };
        let kernel = kernels.entry(current.to_owned()).or_default();
        for what in [" bytes spill stores", " bytes spill loads"] {
            kernel.spilled += number_before(line, what).unwrap_or(0);
        }
        kernel.registers = kernel.registers.max(number_before(line, " registers").unwrap_or(0));
    }
    kernels
}

/// The number in front of these words.
fn number_before(line: &str, words: &str) -> Option<u32> {
    line.split_once(words)?.0.split_whitespace().last()?.parse().ok()
}
