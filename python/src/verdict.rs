//! A verdict as an object of Python. It keeps what Rust found and makes texts when they are asked for.

use evenkeel_errors::FieldError;
use evenkeel_math::{CheckOutcome, Reason, Value};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{Exception, refused};
use crate::judge::Judged;

/// The answer in canonical form: as parsed, or as it was written down in another process.
#[derive(Debug, Clone)]
enum Canonical {
    Value(Value),
    Text(Box<str>),
}

/// What a check found, and why.
#[pyclass(frozen, module = "evenkeel_rlvr")]
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    reason: Reason,
    extracted: Option<Box<str>>,
    canonical: Option<Canonical>,
    copies_checked: bool,
    detail: Option<Box<str>>,
}

impl From<Judged> for Verdict {
    fn from(judged: Judged) -> Self {
        let Judged { reason, extracted, value, copies_checked, detail } = judged;
        Self { reason, extracted, canonical: value.map(Canonical::Value), copies_checked, detail }
    }
}

/// The name of an outcome in Python, which is that of the reward service.
fn outcome_name(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Equal => "correct",
        CheckOutcome::NotEqual => "incorrect",
        CheckOutcome::Undecided => "undecided",
        CheckOutcome::NoAnswer => "no_answer",
        CheckOutcome::BadGold => "invalid",
    }
}

#[pymethods]
impl Verdict {
    /// `correct`, `incorrect`, `no_answer`, `undecided` or `invalid`.
    #[getter]
    fn outcome(&self) -> &'static str {
        outcome_name(self.reason.outcome())
    }

    /// The reason code, which determines the outcome.
    #[getter]
    fn reason(&self) -> &'static str {
        self.reason.code()
    }

    /// True, False, or None if the verdict is invalid.
    #[getter]
    fn correct(&self) -> Option<bool> {
        match self.reason.outcome() {
            CheckOutcome::BadGold => None,
            outcome => Some(outcome == CheckOutcome::Equal),
        }
    }

    /// 1.0, 0.0, or None if the verdict is invalid.
    #[getter]
    fn reward(&self) -> Option<f64> {
        self.correct().map(|correct| if correct { 1.0 } else { 0.0 })
    }

    /// Whether nothing can be said about the answer, through no fault of its own.
    #[getter]
    fn is_invalid(&self) -> bool {
        self.reason.outcome() == CheckOutcome::BadGold
    }

    /// The final answer as written, or None.
    #[getter]
    fn extracted(&self) -> Option<&str> {
        self.extracted.as_deref()
    }

    /// The final answer in canonical form, or None if it could not be read.
    #[getter]
    fn canonical(&self) -> Option<String> {
        self.canonical.as_ref().map(|canonical| match canonical {
            Canonical::Value(value) => value.to_string(),
            Canonical::Text(text) => text.to_string(),
        })
    }

    /// Whether an answer copied from the task would have been recognised: the prompt was given and the rules ask for
    /// it.
    #[getter]
    fn copies_checked(&self) -> bool {
        self.copies_checked
    }

    /// What is wrong with the gold answer of an invalid verdict, or None.
    #[getter]
    fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.correct().ok_or_else(|| {
            let detail = self.detail.as_deref().unwrap_or("the gold answer cannot be used");
            let message = format!(
                "the verdict is invalid ({}: {detail}): it is neither right nor wrong; see .correct",
                self.reason
            );
            Exception::InvalidVerdict.with(py, message)
        })
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let other = other.get();
            self.reason == other.reason
                && self.extracted == other.extracted
                && self.copies_checked == other.copies_checked
                && self.detail == other.detail
                && self.canonical() == other.canonical()
        })
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.reason, &self.extracted).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let extracted = self.extracted.as_deref().map_or_else(|| "None".to_owned(), shortened);
        format!("Verdict({}, reason={}, extracted={extracted})", self.outcome(), self.reason)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("evenkeel_rlvr._native")?.getattr("_restore_verdict")?;
        let arguments = (self.reason.code(), self.extracted(), self.canonical(), self.copies_checked, self.detail())
            .into_pyobject(py)?;
        Ok((restore, arguments))
    }
}

/// A text in quotation marks, cut after some characters.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(SHOWN).collect();
    let end = if characters.next().is_some() { "…" } else { "" };
    format!("{start:?}{end}")
}

/// A verdict that another process wrote down.
#[pyfunction]
#[pyo3(name = "_restore_verdict")]
pub(crate) fn restore(
    py: Python<'_>,
    reason: &str,
    extracted: Option<String>,
    canonical: Option<String>,
    copies_checked: bool,
    detail: Option<String>,
) -> PyResult<Verdict> {
    let known = Reason::ALL.iter().copied().find(|known| known.code() == reason);
    let reason =
        known.ok_or_else(|| refused(py, &FieldError::quoted("reason", reason, "a reason code of this version")))?;
    Ok(Verdict {
        reason,
        extracted: extracted.map(String::into_boxed_str),
        canonical: canonical.map(|text| Canonical::Text(text.into_boxed_str())),
        copies_checked,
        detail: detail.map(String::into_boxed_str),
    })
}

/// Every reason code with its outcome.
#[pyfunction]
pub(crate) fn reason_codes() -> Vec<(&'static str, &'static str)> {
    Reason::ALL.iter().map(|reason| (reason.code(), outcome_name(reason.outcome()))).collect()
}
