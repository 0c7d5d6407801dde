//! Gold answers that cannot be used for training.

use evenkeel_math::lint;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::arguments;
use crate::errors::guarded;
use crate::text::{exact, lossy};
use crate::verify::{in_slices, number_of_threads};
use crate::{parallel, policy};

/// A gold answer that cannot be used for training, and why.
#[pyclass(frozen, module = "evenkeel_rlvr", get_all, eq, hash)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GoldIssue {
    /// Index among the golds.
    index: usize,
    /// What is wrong, as a stable name.
    code: String,
    /// What is wrong, in words.
    message: String,
}

#[pymethods]
impl GoldIssue {
    #[new]
    fn new(index: usize, code: String, message: String) -> Self {
        Self { index, code, message }
    }

    fn __repr__(&self) -> String {
        format!("GoldIssue(index={}, code={}, message={:?})", self.index, self.code, self.message)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = (self.index, &self.code, &self.message).into_pyobject(py)?;
        Ok((py.get_type::<Self>().into_any(), arguments))
    }
}

/// What is there instead of a gold answer.
enum GoldColumn<'a> {
    Text(&'a str),
    Surrogate,
    /// No text, but a value of this type.
    Other(String),
}

/// The gold answers that cannot be used for training.
#[pyfunction]
#[pyo3(signature = (golds, *, prompts=None, profile=None, threads=None, **policy))]
pub(crate) fn lint_golds(
    py: Python<'_>,
    golds: &Bound<'_, PyAny>,
    prompts: Option<&Bound<'_, PyAny>>,
    profile: Option<&Bound<'_, PyAny>>,
    threads: Option<&Bound<'_, PyAny>>,
    policy: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<GoldIssue>> {
    guarded(py, || {
        let rules = policy::rules(py, profile, policy)?;
        let threads = number_of_threads(py, threads)?;
        let golds = arguments::items("golds", golds)?;
        let prompts: Vec<Option<Bound<'_, PyString>>> = match prompts {
            None => vec![None; golds.len()],
            Some(prompts) => {
                let prompts = arguments::items("prompts", prompts)?;
                arguments::same_length(py, "prompts", prompts.len(), golds.len())?;
                prompts.iter().map(|prompt| arguments::optional_text("prompts", prompt)).collect::<PyResult<_>>()?
            }
        };
        let rows: Vec<GoldColumn<'_>> = golds
            .iter()
            .map(|gold| match gold.cast::<PyString>() {
                Ok(text) => exact(text).map_or(GoldColumn::Surrogate, GoldColumn::Text),
                Err(_) => GoldColumn::Other(gold.get_type().name().map(|name| name.to_string()).unwrap_or_default()),
            })
            .collect();
        let prompts: Vec<_> = prompts.iter().map(|prompt| prompt.as_ref().map(lossy)).collect();
        let look = |index: usize| -> Option<GoldIssue> {
            let (code, message) = match &rows[index] {
                GoldColumn::Text(gold) => {
                    let finding = lint(gold, prompts[index].as_deref(), &rules)?;
                    (finding.code(), finding.to_string())
                }
                GoldColumn::Surrogate => {
                    ("gold_hidden_characters", "the gold answer contains a lone surrogate".to_owned())
                }
                GoldColumn::Other(name) => {
                    ("gold_not_text", format!("the gold answer is of type {name}, allowed: str"))
                }
            };
            Some(GoldIssue { index, code: code.to_owned(), message })
        };
        let issues = in_slices(py, rows.len(), |slice| parallel::map(slice, threads, look))?;
        Ok(issues.into_iter().flatten().collect())
    })
}
