//! What cannot be compared is refused, with the difference by name.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_errors::FieldError;

use crate::run::{Evaluation, Lengths, Run, RunEnd, Score, Scores};
use crate::stored_run::{EVALUATED_ON, TRAINED_ON};

/// Runs of which those of a task differ in arm and seed alone.
///
/// # Errors
/// The field of the run that is impossible, or differs from the first run of its task.
pub(crate) fn validate(runs: &[&Run]) -> Result<(), FieldError> {
    let first = *runs.first().ok_or_else(|| FieldError::new("runs", "empty", "one run or more"))?;
    let mut seen = BTreeMap::new();
    let mut first_of_task: BTreeMap<&str, &Run> = BTreeMap::new();
    let mut first_finished: BTreeMap<&str, &Run> = BTreeMap::new();
    for &run in runs {
        let within = |error: FieldError| error.within(format!("runs[{}]", run.name));
        settings(run, first).map_err(within)?;
        let other = *first_of_task.entry(run.task.as_str()).or_insert(run);
        identity(run, other).map_err(within)?;
        if let Some(other) = seen.insert((&run.task, &run.arm, run.seed), &run.name) {
            let allowed = format!("another seed than {other}, which has the same task and arm");
            return Err(within(FieldError::new("seed", run.seed, allowed)));
        }
        if run.state == RunEnd::Finished {
            values(run).map_err(within)?;
            let other = *first_finished.entry(run.task.as_str()).or_insert(run);
            same_evaluations(run, other).map_err(within)?;
        }
    }
    Ok(())
}

fn settings(run: &Run, other: &Run) -> Result<(), FieldError> {
    let names = |run: &Run| run.arm.0.keys().cloned().collect::<Vec<_>>().join(", ");
    let allowed = || format!("the settings that {} varies: {}", other.name, names(other));
    FieldError::ensure(run.arm.0.keys().eq(other.arm.0.keys()), "arm", names(run), allowed())
}

fn identity(run: &Run, other: &Run) -> Result<(), FieldError> {
    let parts: BTreeSet<&String> = run.identity.keys().chain(other.identity.keys()).collect();
    for part in parts {
        let own = run.identity.get(part);
        let known = other.identity.get(part);
        let of_file = |prefix: &str, what: &'static str| part.strip_prefix(prefix).map(|file| (what, file));
        let file = of_file(TRAINED_ON, "what it was trained on");
        if let (Some((what, file)), true) = (file.or(of_file(EVALUATED_ON, "what it was evaluated on")), own != known) {
            let allowed = format!("the same data as {}: runs of one task are compared on the same terms", other.name);
            return Err(FieldError::new(what, format!("other data ({file})"), allowed));
        }
        if own != known {
            let shown = |value: Option<&String>| value.map_or_else(|| "absent".to_owned(), Clone::clone);
            let allowed =
                format!("{}, as in {}: runs of one task are compared on the same terms", shown(known), other.name);
            return Err(FieldError::new(format!("identity.{part}"), shown(own), allowed));
        }
    }
    Ok(())
}

fn values(run: &Run) -> Result<(), FieldError> {
    let has_values = !run.evaluations.is_empty() || !run.rewards.is_empty();
    FieldError::ensure(has_values, "evaluations", "empty", "an evaluation, where there are no rewards")?;
    ascending("rewards", run.rewards.iter().map(|(step, _)| *step))?;
    ascending("lengths", run.lengths.iter().map(|at| at.step))?;
    for (of, points) in &run.training {
        ascending(of.metric(), points.iter().map(|(step, _)| *step))?;
        let wrong = points.iter().find(|(_, value)| !value.is_finite());
        let (step, value) = wrong.copied().unwrap_or_default();
        FieldError::ensure(wrong.is_none(), format!("{} of step {step}", of.metric()), value, "a finite number")?;
    }
    for (at, Lengths { variation, gap, mean, .. }) in run.lengths.iter().enumerate() {
        let holds = [variation, gap, mean].iter().all(|value| value.is_finite()) && *variation >= 0.0 && *mean > 0.0;
        let shown = format!("variation {variation}, gap {gap}, mean {mean}");
        FieldError::ensure(
            holds,
            format!("lengths[{at}]"),
            shown,
            "finite numbers, a variation from 0, a mean above 0",
        )?;
    }
    ascending("evaluations", run.evaluations.iter().map(|evaluation| evaluation.step))?;
    for (at, evaluation) in run.evaluations.iter().enumerate() {
        for (benchmark, scores) in &evaluation.benchmarks {
            let path = |metric: &str| format!("evaluations[{at}].{benchmark}.{metric}");
            score(&scores.mean).map_err(|error| error.within(path("mean")))?;
            scores.best.as_ref().map_or(Ok(()), score).map_err(|error| error.within(path("best")))?;
        }
    }
    Ok(())
}

fn ascending(field: &str, steps: impl Iterator<Item = u64>) -> Result<(), FieldError> {
    let mut before = None;
    for (at, step) in steps.enumerate() {
        let holds = before.is_none_or(|before| before < step);
        let allowed = || format!("above the step before, {}", before.unwrap_or_default());
        FieldError::ensure(holds, format!("{field}[{at}].step"), step, allowed())?;
        before = Some(step);
    }
    Ok(())
}

fn score(score: &Score) -> Result<(), FieldError> {
    FieldError::ensure((0.0..=1.0).contains(&score.value), "value", score.value, "0 to 1")?;
    for (name, error) in [("sampling_error", score.sampling_error), ("standard_error", score.standard_error)] {
        let holds = error.is_none_or(|error| error.is_finite() && error >= 0.0);
        FieldError::ensure(holds, name, error.unwrap_or_default(), "a finite number, at least 0")?;
    }
    Ok(())
}

/// A peak over more evaluations is higher, an area over other steps is another one: the steps, the benchmarks and what
/// is known of them agree.
fn same_evaluations(run: &Run, other: &Run) -> Result<(), FieldError> {
    let list = |evaluations: &[Evaluation]| {
        let steps: Vec<_> = evaluations.iter().map(|evaluation| evaluation.step.to_string()).collect();
        format!("at steps {}", if steps.is_empty() { "none".to_owned() } else { steps.join(", ") })
    };
    let as_in = |what: String| format!("{what}, as in {}", other.name);
    let own = list(&run.evaluations);
    let known = list(&other.evaluations);
    FieldError::ensure(own == known, "evaluations", &own, as_in(known.clone()))?;
    let scores = |benchmarks: &BTreeMap<String, Scores>| {
        let one = |(name, scores): (&String, &Scores)| {
            let best = if scores.best.is_some() { "with" } else { "without" };
            format!("{name} ({} samples, {best} best@k)", scores.samples)
        };
        let all: Vec<_> = benchmarks.iter().map(one).collect();
        if all.is_empty() { "no benchmark".to_owned() } else { all.join(", ") }
    };
    let first = other.evaluations.first().map(|evaluation| scores(&evaluation.benchmarks)).unwrap_or_default();
    for (at, evaluation) in run.evaluations.iter().enumerate() {
        let own = scores(&evaluation.benchmarks);
        FieldError::ensure(
            !evaluation.benchmarks.is_empty(),
            format!("evaluations[{at}]"),
            &own,
            "one benchmark or more",
        )?;
        FieldError::ensure(own == first, format!("evaluations[{at}]"), &own, as_in(first.clone()))?;
    }
    let own = run.rewards.is_empty();
    let known = other.rewards.is_empty();
    let shown = |is_empty: bool| if is_empty { "empty" } else { "a curve" };
    FieldError::ensure(own == known, "rewards", shown(own), as_in(shown(known).to_owned()))
}
