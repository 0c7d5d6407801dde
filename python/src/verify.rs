//! Verdicts on one completion and on many.

use std::borrow::Cow;

use evenkeel_errors::FieldError;
use evenkeel_math::{CheckLimits, Rules};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arguments;
use crate::errors::{guarded, refused};
use crate::judge::{GoldText, answer, judge};
use crate::parallel;
use crate::policy;
use crate::released::released;
use crate::text::{exact, lossy};
use crate::verdict::Verdict;

/// Texts up to this length are judged without giving up the interpreter's lock: to get it back may take a thousand
/// times longer than the check, while other threads compute.
const HELD_BYTES: usize = 64 << 10;
/// Steps of a check up to which the lock is kept: those of four gold answers under the default limit, some
/// milliseconds.
const HELD_FUEL: u64 = 640_000;
/// Items of a batch between which a signal, such as Ctrl-C, is looked for.
const BETWEEN_SIGNALS: usize = 4096;

fn is_short(bytes: usize, golds: usize, rules: &Rules) -> bool {
    let CheckLimits { fuel, .. } = rules.limits;
    bytes <= HELD_BYTES && fuel.saturating_mul(golds as u64) <= HELD_FUEL
}

/// Judges one completion.
#[pyfunction]
#[pyo3(signature = (completion, gold, *, prompt=None, profile=None, **policy))]
pub(crate) fn verify_math(
    py: Python<'_>,
    completion: &Bound<'_, PyAny>,
    gold: &Bound<'_, PyAny>,
    prompt: Option<&Bound<'_, PyAny>>,
    profile: Option<&Bound<'_, PyAny>>,
    policy: Option<&Bound<'_, PyDict>>,
) -> PyResult<Verdict> {
    guarded(py, || {
        let rules = policy::rules(py, profile, policy)?;
        let completion = arguments::text("completion", completion)?;
        let golds = arguments::gold("gold", gold)?;
        let prompt = prompt.map(|prompt| arguments::text("prompt", prompt)).transpose()?;
        let item = Item::read(&completion, &golds, prompt.as_ref());
        let judged = if is_short(item.bytes(), item.golds.len(), &rules) {
            item.judge(&rules)
        } else {
            released(py, || item.judge(&rules))
        };
        Ok(judged)
    })
}

/// Judges many completions in parallel, in order.
#[pyfunction]
#[pyo3(signature = (completions, golds, *, prompts=None, profile=None, threads=None, **policy))]
pub(crate) fn verify_math_batch(
    py: Python<'_>,
    completions: &Bound<'_, PyAny>,
    golds: &Bound<'_, PyAny>,
    prompts: Option<&Bound<'_, PyAny>>,
    profile: Option<&Bound<'_, PyAny>>,
    threads: Option<&Bound<'_, PyAny>>,
    policy: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Verdict>> {
    guarded(py, || {
        let rules = policy::rules(py, profile, policy)?;
        let threads = number_of_threads(py, threads)?;
        let completions = texts("completions", completions)?;
        let golds = arguments::items("golds", golds)?;
        arguments::same_length(py, "golds", golds.len(), completions.len())?;
        let golds: Vec<Vec<Bound<'_, PyString>>> = named("golds", &golds, arguments::gold)?;
        let prompts: Vec<Option<Bound<'_, PyString>>> = match prompts {
            None => vec![None; completions.len()],
            Some(prompts) => {
                let prompts = arguments::items("prompts", prompts)?;
                arguments::same_length(py, "prompts", prompts.len(), completions.len())?;
                named("prompts", &prompts, arguments::optional_text)?
            }
        };
        let rows = completions.iter().zip(&golds).zip(&prompts);
        let items: Vec<Item<'_>> =
            rows.map(|((completion, golds), prompt)| Item::read(completion, golds, prompt.as_ref())).collect();
        in_slices(py, items.len(), |slice| parallel::map(slice, threads, |i| items[i].judge(&rules)))
    })
}

/// The final answer of a completion as written, or None.
#[pyfunction]
#[pyo3(signature = (completion, *, profile=None, **policy))]
pub(crate) fn extract_answer<'py>(
    py: Python<'py>,
    completion: &Bound<'py, PyAny>,
    profile: Option<&Bound<'py, PyAny>>,
    policy: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    guarded(py, || {
        let rules = policy::rules(py, profile, policy)?;
        let completion = arguments::text("completion", completion)?;
        let text = lossy(&completion);
        let found =
            if text.len() <= HELD_BYTES { answer(&text, &rules) } else { released(py, || answer(&text, &rules)) };
        Ok(found.map(|answer| PyString::new(py, &answer)))
    })
}

/// What one verdict is about.
struct Item<'a> {
    completion: Cow<'a, str>,
    golds: Vec<GoldText<'a>>,
    prompt: Option<Cow<'a, str>>,
}

impl<'a> Item<'a> {
    fn read(
        completion: &'a Bound<'_, PyString>,
        golds: &'a [Bound<'_, PyString>],
        prompt: Option<&'a Bound<'_, PyString>>,
    ) -> Self {
        Self { completion: lossy(completion), golds: golds.iter().map(exact).collect(), prompt: prompt.map(lossy) }
    }

    fn bytes(&self) -> usize {
        let golds: usize = self.golds.iter().flatten().map(|gold| gold.len()).sum();
        self.completion.len() + golds + self.prompt.as_ref().map_or(0, |prompt| prompt.len())
    }

    fn judge(&self, rules: &Rules) -> Verdict {
        judge(&self.completion, &self.golds, self.prompt.as_deref(), rules).into()
    }
}

fn texts<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    named(name, &arguments::items(name, value)?, arguments::text)
}

/// Reads the items of an argument; an item that is refused is called by its index.
fn named<'py, T>(
    name: &str,
    items: &[Bound<'py, PyAny>],
    read: impl Fn(&str, &Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    // The name is made only where an item is refused.
    let read_item = |(i, item)| read(name, item).or_else(|_| read(&format!("{name}[{i}]"), item));
    items.iter().enumerate().map(read_item).collect()
}

pub(crate) fn number_of_threads(py: Python<'_>, threads: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let Some(threads) = threads.map(|threads| arguments::whole("threads", threads)).transpose()? else {
        return Ok(parallel::available());
    };
    let allowed = format!("1 to {}", parallel::MAX_THREADS);
    let number = usize::try_from(threads).ok().filter(|threads| (1..=parallel::MAX_THREADS).contains(threads));
    number.ok_or_else(|| refused(py, &FieldError::new("threads", threads, allowed)))
}

/// Runs slice after slice without the interpreter's lock, and looks for signals in between.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    count: usize,
    run: impl Fn(std::ops::Range<usize>) -> Vec<T> + Sync,
) -> PyResult<Vec<T>> {
    let mut results = Vec::with_capacity(count);
    let mut start = 0;
    while start < count {
        let end = count.min(start + BETWEEN_SIGNALS);
        results.extend(released(py, || run(start..end)));
        py.check_signals()?;
        start = end;
    }
    Ok(results)
}
