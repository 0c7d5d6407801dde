//! Programs against tests: the side of a pool in this process. The worker processes are a program of the package's,
//! found by the module `code`.

mod batch;
mod own_process;
mod pool;
mod report;
mod tests;

pub(crate) use batch::Batch;
pub(crate) use pool::CodePool;
pub(crate) use tests::{CodeTests, read_row, read_tests};

/// The reason codes of programs.
#[pyo3::pyfunction]
pub(crate) fn program_reason_codes() -> Vec<&'static str> {
    evenkeel_sandbox::Reason::ALL.iter().map(|reason| reason.code()).chain(["unsupported"]).collect()
}

/// The processors that this process may use, by affinity and control group.
#[pyo3::pyfunction]
#[pyo3(name = "_available_processors")]
pub(crate) fn available_processors() -> usize {
    crate::parallel::available()
}
