//! The kernels as a library, compiled once for all tests.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use evenkeel_kernel_checks::case::Case;
use evenkeel_kernel_checks::{Buffer, Factors, Runner, attend, multiply};
use evenkeel_kernels::{
    Argument, DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Norm, NormBackward, Pointer, Product,
    Type,
};
use evenkeel_model::{AttentionFallback, AttentionLibrary};

use crate::sanitizer;

/// So small that a block has several pieces of work.
pub(crate) const CHIP: DeviceProperties = DeviceProperties { multiprocessors: 1 };

type LaunchFn =
    unsafe extern "C" fn(*const c_char, c_uint, c_uint, usize, c_uint, c_uint, *mut *mut c_void, c_uint) -> c_int;
type KernelFn = unsafe extern "C" fn(c_uint) -> *const c_char;

pub(crate) struct Shim {
    launch: LaunchFn,
    kernel: KernelFn,
    /// Launches go one after another: the scheduler is one for the whole process.
    turn: Mutex<()>,
}

/// A schedule: the seed of its choices, and the barrier that is taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) seed: u32,
    pub(crate) without: Option<u32>,
}

impl Schedule {
    pub(crate) fn of(seed: u32) -> Self {
        Self { seed, without: None }
    }
}

impl Shim {
    /// The library, or why there is none.
    pub(crate) fn get() -> Result<&'static Self, String> {
        static SHIM: OnceLock<Result<Shim, String>> = OnceLock::new();
        SHIM.get_or_init(Self::build).as_ref().map_err(Clone::clone)
    }

    fn build() -> Result<Self, String> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        if let Err(error) = Command::new(&compiler).arg("--version").output() {
            return Err(format!("no C++ compiler: {compiler}: {error}"));
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/shim.cpp");
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libkernels.so");
        // Products are not fused with sums, as on the CPU.
        let flags =
            ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unknown-pragmas"];
        let include = source.parent().unwrap();
        let mut command = Command::new(&compiler);
        command.args(flags).args(sanitizer::FLAGS.iter().filter(|_| sanitizer::is_on()));
        command.arg("-I").arg(include).arg("-o").arg(&library).arg(&source);
        let output = command.output().unwrap();
        // A compiler that refuses the kernels is a failure, not a missing compiler.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: this crate's own library; its initialisers fill a table.
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(&library) }.unwrap()));
        // SAFETY: the types of the two functions in shim.cpp.
        let (launch, kernel) = unsafe { (*library.get("shim_launch").unwrap(), *library.get("shim_kernel").unwrap()) };
        Ok(Self { launch, kernel, turn: Mutex::default() })
    }

    /// Runs a launch in a schedule.
    pub(crate) fn try_run(&self, launch: &Launch, schedule: Schedule) -> Result<(), String> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let name = CString::new(launch.kernel.as_str()).unwrap();
        let mut values: Vec<u64> = launch.arguments.iter().map(Argument::bits).collect();
        let mut arguments: Vec<*mut c_void> = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        // SAFETY: the arguments are of the kernel's types, and their memory is that of buffers that outlive the call.
        let code = unsafe {
            (self.launch)(
                name.as_ptr(),
                launch.grid,
                launch.block,
                launch.shared as usize,
                schedule.seed,
                schedule.without.unwrap_or(u32::MAX),
                arguments.as_mut_ptr(),
                arguments.len() as c_uint,
            )
        };
        match code {
            0 => Ok(()),
            1 => Err("no kernel of that name".into()),
            2 => Err("the kernel takes another number of arguments".into()),
            3 => Err("threads wait for others that never come".into()),
            4 => Err("a write past shared memory".into()),
            _ => Err("a block that is not a whole number of warps, or too large".into()),
        }
    }

    fn kernels(&self) -> BTreeSet<String> {
        let names = (0..).map(|position| {
            // SAFETY: gives a constant text, or null after the last kernel.
            let name = unsafe { (self.kernel)(position) };
            // SAFETY: checked; the text lives as long as the library.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned())
        });
        names.map_while(|name| name).collect()
    }
}

impl Runner for Shim {
    fn properties(&self) -> DeviceProperties {
        CHIP
    }

    fn run(&self, launch: &Launch, seed: u32) {
        if let Err(problem) = self.try_run(launch, Schedule::of(seed)) {
            panic!("{problem}: {launch:?} in schedule {seed}");
        }
    }

    fn multiply(&self, product: &Product) {
        multiply(product);
    }

    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
        Ok(AttentionLibrary::stand_in("in a loop"))
    }

    fn attention_workspace(&self, _shape: FusedShape, _pass: FusedPass) -> Option<usize> {
        Some(0)
    }

    fn attend(&self, attention: &FusedAttention) {
        attend(attention, Factors::Exact);
    }
}

pub(crate) fn finds_overruns(shim: &Shim) {
    let mut case = Case::new(5);
    let norm = Norm { kind: Type::F32, runs: 3, width: 600, epsilon: 1e-6 };
    let buffers = [case.normal(1800), case.normal(1800), case.normal(600)].map(|values| Buffer::f32(&values));
    let [dx, partial] = [Buffer::blank_f32(1800), Buffer::blank_f32(3 * 600)];
    let at = NormBackward {
        dy: buffers[0].pointer(),
        x: buffers[1].pointer(),
        weight: buffers[2].pointer(),
        into: Pointer::NULL,
        dx: dx.pointer(),
        partial: partial.pointer(),
    };
    let mut launch = norm.backward(CHIP, at).unwrap();
    shim.run(&launch, 0);
    launch.shared -= 4;
    assert_eq!(shim.try_run(&launch, Schedule::of(0)), Err("a write past shared memory".into()));
}

pub(crate) fn knows_every_kernel(shim: &Shim) {
    // What a launch can be named, and what the source has.
    let mut named = BTreeSet::from(["global_norm".to_owned()]);
    for name in ["rms_norm", "rms_norm_backward", "add_norm"] {
        named.extend([1, 2].map(|steps| format!("{name}_bf16_held{steps}")));
    }
    for name in ["norm_rotary", "norm_rotary_backward"] {
        named.extend([64, 128, 256].map(|width| format!("{name}_bf16_{width}")));
    }
    for step in ["wide", "single"] {
        for name in ["adamw", "squares", "add", "token_scores", "token_scores_fast", "cast_f32_bf16", "cast_bf16_f32"] {
            named.insert(format!("{name}_{step}"));
        }
        for kind in ["f32", "bf16"] {
            named.insert(format!("column_sum_{kind}"));
            named.extend([format!("norm_rotary_{kind}"), format!("norm_rotary_backward_{kind}")]);
            named.extend(["", "fast_"].map(|way| format!("logit_gradients_{way}{kind}_{step}")));
            named.insert(format!("attention_softmax_{kind}"));
            named.insert(format!("attention_gradients_{kind}"));
            for name in ["add_bias", "dots", "repeat_heads", "sum_heads"] {
                named.insert(format!("{name}_{kind}_{step}"));
            }
            for name in ["rotary", "swiglu", "swiglu_backward", "swiglu_joined", "swiglu_joined_backward"] {
                named.insert(format!("{name}_{kind}_{step}"));
            }
            for name in ["embed", "embed_backward", "gather", "scatter", "columns"] {
                named.insert(format!("{name}_{kind}_{step}"));
            }
            for lanes in ["warp", "block"] {
                named.insert(format!("rms_norm_{kind}_{step}_{lanes}"));
                named.insert(format!("rms_norm_backward_{kind}_{step}_{lanes}"));
            }
        }
    }
    assert_eq!(shim.kernels(), named);
}
