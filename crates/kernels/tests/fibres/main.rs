//! Every kernel on the CPU, its threads as fibres in random schedules, against the CPU's own kernels on random shapes.
//!
//! Needs a C++ compiler: `CXX`, or `c++` on the path. Without one the tests are reported as ignored.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod barriers;
mod case;
mod elementwise;
mod head;
mod memory;
mod norm;
mod optimizer;
mod rows;
mod shim;

use std::process::ExitCode;

use evenkeel_testing::{Trial, run, test};
use shim::Shim;

/// A test of some kernels.
type Check = (&'static str, fn(&Shim));

const CHECKS: [Check; 18] = [
    ("norm::rows_and_heads_of_every_width_are_normalised", norm::forward),
    ("norm::the_gradients_of_x_and_weight_are_those_of_the_cpu", norm::backward),
    ("norm::columns_are_summed_in_one_launch_or_two", norm::column_sums),
    ("elementwise::heads_are_rotated_and_rotated_back", elementwise::rotary),
    ("elementwise::the_gated_activation_and_its_gradients_are_those_of_the_cpu", elementwise::swiglu),
    ("elementwise::casts_round_to_the_nearest_and_keep_what_is_no_number", elementwise::casts),
    ("rows::an_embedding_and_its_gradient_are_those_of_the_cpu", rows::embedding),
    ("rows::selected_rows_are_scattered_back", rows::selection),
    ("head::scores_are_those_of_the_cpu_at_every_temperature", head::scores),
    ("head::gradients_of_logits_are_those_of_the_cpu", head::gradients),
    ("head::a_broken_logit_is_not_lost", head::broken),
    ("optimizer::the_norm_is_exact_and_clips_as_pytorch_does", optimizer::clipping),
    ("optimizer::weights_and_moments_are_those_of_adamw", optimizer::updates),
    ("optimizer::a_norm_that_is_not_finite_changes_nothing", optimizer::skipped),
    ("barriers::every_barrier_is_needed", barriers::each_is_needed),
    ("barriers::no_schedule_changes_a_bit", barriers::schedules_agree),
    ("shim::every_kernel_of_the_source_has_a_launch", shim::knows_every_kernel),
    ("shim::a_write_behind_shared_memory_is_found", shim::finds_overruns),
];

fn main() -> ExitCode {
    let trial = |(name, check): Check| match Shim::get() {
        Ok(shim) => test(name, move || check(shim)),
        Err(missing) => {
            let missing = missing.clone();
            Trial::test(name, move || Err(missing.into())).with_ignored_flag(true)
        }
    };
    run(CHECKS.into_iter().map(trial).collect())
}
