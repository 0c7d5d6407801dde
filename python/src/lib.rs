//! The native part of the Python package `evenkeel_rlvr`: verdicts on mathematics and on programs, and the weights of
//! balanced aggregation, as the crates `evenkeel-math`, `evenkeel-sandbox` and `evenkeel-objective` compute them.
//!
//! What a model wrote never raises: it has a verdict. What the caller passed wrongly raises an exception of the package
//! that names the argument. A panic becomes such an exception too. Importing this starts no thread, and only a pool of
//! programs has threads that outlive a call: a child that is forked knows such a pool as another process's and leaves
//! it alone.
#![forbid(unsafe_code)]

mod arguments;
mod errors;
mod issues;
mod judge;
mod parallel;
mod policy;
mod programs;
mod released;
mod text;
mod verdict;
mod verify;
mod weights;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::issues::{GoldIssue, lint_golds};
    #[pymodule_export]
    use super::programs::{
        Batch, CodePool, CodeTests, available_processors, program_reason_codes, read_row, read_tests,
    };
    #[pymodule_export]
    use super::released::interpreter_ends;
    #[pymodule_export]
    use super::verdict::{Verdict, reason_codes, restore};
    #[pymodule_export]
    use super::verify::{extract_answer, verify_math, verify_math_batch};
    #[pymodule_export]
    use super::weights::balanced_weights;
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
