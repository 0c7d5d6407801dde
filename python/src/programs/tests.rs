//! The tests of a task, read once for all its programs.

use std::sync::Arc;

use evenkeel_sandbox::rows::{MAX_PRIVATE_BYTES, Test, TestKind, Tests, tests_of_row};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::arguments;
use crate::errors::guarded;
use crate::released::released;
use crate::text::lossy;

/// Tests that were read.
#[pyclass(frozen, name = "_Tests", module = "evenkeel_rlvr._native")]
pub(crate) struct CodeTests {
    pub(super) tests: Arc<Tests>,
}

#[pymethods]
impl CodeTests {
    /// Memory that they take.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.tests.held_bytes()
    }
}

/// Tests, or what is wrong with them.
#[derive(IntoPyObject)]
pub(crate) enum Read {
    Tests(CodeTests),
    Bad(String),
}

impl Read {
    fn of<E: ToString>(read: Result<Tests, E>) -> Self {
        match read {
            Ok(tests) => Self::Tests(CodeTests { tests: Arc::new(tests) }),
            Err(error) => Self::Bad(error.to_string()),
        }
    }
}

/// The tests of a row of LiveCodeBench.
#[pyfunction]
#[pyo3(name = "_read_row")]
pub(crate) fn read_row(
    py: Python<'_>,
    public: &Bound<'_, PyString>,
    private: &Bound<'_, PyString>,
    metadata: &Bound<'_, PyString>,
) -> PyResult<Read> {
    guarded(py, || {
        let [public, private, metadata] = [public, private, metadata].map(lossy);
        Ok(released(py, || Read::of(tests_of_row(&public, &private, &metadata, MAX_PRIVATE_BYTES))))
    })
}

/// Tests of standard input and output.
#[pyfunction]
#[pyo3(name = "_read_tests")]
pub(crate) fn read_tests(py: Python<'_>, inputs: &Bound<'_, PyAny>, outputs: &Bound<'_, PyAny>) -> PyResult<Read> {
    guarded(py, || {
        let texts = |name, values| -> PyResult<Vec<String>> {
            let texts = arguments::items(name, values)?;
            texts.iter().map(|text| Ok(lossy(&arguments::text(name, text)?).into_owned())).collect()
        };
        let inputs = texts("inputs", inputs)?;
        let outputs = texts("outputs", outputs)?;
        arguments::same_length(py, "outputs", outputs.len(), inputs.len())?;
        let tests = inputs.into_iter().zip(outputs).map(|(input, output)| Test::new(TestKind::Stdin, input, output));
        Ok(Read::of(Tests::within(tests.collect(), None, MAX_PRIVATE_BYTES)))
    })
}
