//! The checks once more, with kernels that the compiler's address sanitizer watches: not a byte outside of a buffer may
//! be read or written.
//!
//! A sanitizer has to be there before anything else. So the tests start this program again, with its library preloaded.

use std::ffi::CString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

use evenkeel_kernel_checks::{Buffer, CHECKS, Poison, Runner, poison_guards};
use evenkeel_kernels::{Pointer, Type, cast};
use evenkeel_testkit::{Trial, test};

use crate::shim::{CHIP, Shim};

/// Names what a program that was started again is to do.
const TASK: &str = "EVENKEEL_SANITIZER_TASK";
/// What compiles kernels so that every access is checked.
pub(crate) const FLAGS: [&str; 2] = ["-fsanitize=address", "-Wno-error"];
/// Whole networks: too slow for it, and made of the kernels that the others check.
const LEFT_OUT: [&str; 1] = ["network::"];

/// Whether this process is one that the tests have started.
pub(crate) fn is_on() -> bool {
    std::env::var_os(TASK).is_some()
}

pub(crate) fn run_checks() -> ExitCode {
    poison_guards(poison());
    let shim = Shim::get().expect("the tests have found a compiler");
    match std::env::var(TASK).as_deref() {
        Ok("checks") => {
            for (name, check) in
                CHECKS.into_iter().filter(|(name, _)| !LEFT_OUT.iter().any(|out| name.starts_with(out)))
            {
                println!("{name}");
                check(shim);
            }
        }
        // One value more than there is, which guards alone do not show.
        Ok("read too far") => cast_values(shim, 101, 102),
        _ => cast_values(shim, 102, 101),
    }
    ExitCode::SUCCESS
}

/// Has a kernel read and write 102 values of memory that has fewer.
fn cast_values(shim: &Shim, from: usize, to: usize) {
    let from = Buffer::values(Type::F32, &vec![1.0; from], 0);
    let to = Buffer::blank(Type::Bf16, to);
    let from: Pointer = from.pointer();
    let to: Pointer = to.pointer();
    shim.run(&cast(CHIP, 102, (Type::F32, from), (Type::Bf16, to)).unwrap(), 0);
}

fn poison() -> Poison {
    let name = CString::new("__asan_poison_memory_region").unwrap();
    let this = libloading::os::unix::Library::this();
    // SAFETY: the type that the sanitizer's interface declares; the library stays as long as the process.
    *unsafe { this.get::<Poison>(name.as_bytes_with_nul()) }.unwrap()
}

/// The sanitizer's library, or why there is none.
fn library() -> Result<PathBuf, String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let output = Command::new(&compiler).arg("-print-file-name=libasan.so").output();
    let output = output.map_err(|error| format!("no C++ compiler: {compiler}: {error}"))?;
    // Where there is none the compiler gives the name alone.
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if path.is_absolute() { Ok(path) } else { Err(format!("{compiler} has no address sanitizer")) }
}

fn start(library: &PathBuf, task: &str) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Tables of kernels are never freed. Rust's own memory is the sanitizer's, too.
    command.env(TASK, task).env("LD_PRELOAD", library).env("ASAN_OPTIONS", "detect_leaks=0");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

pub(crate) fn trials() -> Vec<Trial> {
    type Body = fn(&PathBuf);
    let bodies: [(&str, Body); 2] = [
        ("sanitizer::no_kernel_touches_a_byte_outside_of_its_memory", |library| {
            let (output, text) = start(library, "checks");
            assert!(output.status.success(), "{text}");
            assert!(text.contains("optimizer::") && text.contains("head::"), "{text}");
        }),
        ("sanitizer::a_value_too_far_is_found_when_it_is_read_and_when_it_is_written", |library| {
            for (task, what) in [("read too far", "READ of size"), ("write too far", "WRITE of size")] {
                let (output, text) = start(library, task);
                assert!(!output.status.success() && text.contains("AddressSanitizer"), "{task}: {text}");
                assert!(text.contains(what), "{task}: {text}");
            }
        }),
    ];
    let trial = |(name, body): (&str, Body)| match library() {
        Ok(library) => test(name, move || body(&library)),
        Err(missing) => Trial::test(name, move || Err(missing.into())).with_ignored_flag(true),
    };
    bodies.into_iter().map(trial).collect()
}
