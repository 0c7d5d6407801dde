//! Every kernel on the CPU, its threads as fibres in random schedules, against the CPU's own kernels on random shapes.
//!
//! Needs a C++ compiler: `CXX`, or `c++` on the path. Without one the tests are reported as ignored.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it found")]

mod barriers;
mod precision;
mod sanitizer;
mod shim;

use std::process::ExitCode;

use evenkeel_kernel_checks::CHECKS;
use evenkeel_testkit::{Trial, run, test};
use shim::Shim;

/// A check of what only fibres can show, by name.
type OfFibres = (&'static str, fn(&Shim));

const OF_FIBRES: [OfFibres; 7] = [
    ("barriers::every_barrier_is_needed", barriers::each_is_needed),
    ("barriers::no_schedule_changes_a_bit", barriers::schedules_agree),
    ("precision::bf16_keeps_log_probabilities_of_the_goldens", precision::goldens),
    ("precision::bf16_keeps_log_probabilities_at_real_width", precision::real_width),
    ("precision::bf16_keeps_gradients_with_either_attention", precision::gradients),
    ("shim::every_kernel_of_the_source_has_a_launch", shim::knows_every_kernel),
    ("shim::a_write_behind_shared_memory_is_found", shim::finds_overruns),
];

fn main() -> ExitCode {
    if sanitizer::is_on() {
        return sanitizer::run_checks();
    }
    let trial = |name: &str, check: Box<dyn FnOnce(&'static Shim) + Send>| match Shim::get() {
        Ok(shim) => test(name, move || check(shim)),
        Err(missing) => {
            let missing = missing.clone();
            Trial::test(name, move || Err(missing.into())).with_ignored_flag(true)
        }
    };
    let common = CHECKS.into_iter().map(|(name, check)| trial(name, Box::new(move |shim| check(shim))));
    let of_fibres = OF_FIBRES.into_iter().map(|(name, check)| trial(name, Box::new(check)));
    run(common.chain(of_fibres).chain(sanitizer::trials()).collect())
}
