//! Evaluations that are not all there: runs that lack some of them, and benchmarks that some runs lack.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{Run, RunEnd};
use crate::stored_run::EVALUATED_ON;

/// The setting with what is asked of a run.
const BENCHMARKS: &str = "evaluation.benchmarks";

fn tasks(runs: &[Run]) -> BTreeSet<String> {
    runs.iter().map(|run| run.task.clone()).collect()
}

fn finished<'a>(runs: &'a [Run], task: &'a str) -> impl Iterator<Item = &'a Run> {
    runs.iter().filter(move |run| run.task == task && run.state == RunEnd::Finished)
}

fn steps(run: &Run) -> BTreeSet<u64> {
    run.evaluations.iter().map(|evaluation| evaluation.step).collect()
}

/// Leaves out finished runs that lack evaluations which another run of their task has: a peak over fewer is lower.
pub(super) fn evaluations(runs: &mut Vec<Run>) -> Vec<String> {
    let mut said = Vec::new();
    for task in tasks(runs) {
        let most = finished(runs, &task).map(steps).max_by_key(BTreeSet::len).unwrap_or_default();
        runs.retain(|run| {
            let own = steps(run);
            let lacks: Vec<String> = most.difference(&own).map(u64::to_string).collect();
            // One with other steps is refused when it is compared.
            let is_part = own.is_subset(&most) && !lacks.is_empty();
            if run.task != task || run.state != RunEnd::Finished || !is_part {
                return true;
            }
            said.push(format!("left out: {}, which lacks the evaluations of steps {}", run.name, lacks.join(", ")));
            false
        });
    }
    said
}

/// Leaves out benchmarks that some evaluation of a task lacks. The runs need not agree in what is asked beside the
/// benchmarks that all of them have.
pub(super) fn benchmarks(runs: &mut [Run]) -> Vec<String> {
    let mut said = Vec::new();
    for task in tasks(runs) {
        let mut lacking: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let all: BTreeSet<String> = finished(runs, &task)
            .flat_map(|run| &run.evaluations)
            .flat_map(|evaluation| evaluation.benchmarks.keys().cloned())
            .collect();
        for run in finished(runs, &task) {
            for name in &all {
                if run.evaluations.iter().any(|evaluation| !evaluation.benchmarks.contains_key(name)) {
                    lacking.entry(name.clone()).or_default().insert(run.name.clone());
                }
            }
        }
        if lacking.is_empty() || lacking.len() == all.len() {
            continue;
        }
        let own: Vec<&mut Run> = runs.iter_mut().filter(|run| run.task == task).collect();
        let is_shared: BTreeMap<String, usize> =
            own.iter().flat_map(|run| run.identity.keys().cloned()).fold(BTreeMap::new(), |mut counts, part| {
                *counts.entry(part).or_default() += 1;
                counts
            });
        let count = own.len();
        for run in own {
            run.evaluations.iter_mut().for_each(|e| e.benchmarks.retain(|name, _| !lacking.contains_key(name)));
            run.identity.retain(|part, _| {
                part != BENCHMARKS && !(part.starts_with(EVALUATED_ON) && is_shared[part.as_str()] < count)
            });
        }
        for (name, without) in lacking {
            let without: Vec<String> = without.into_iter().collect();
            said.push(format!("left out of {task}: the benchmark {name}, which {} lacks", without.join(", ")));
        }
    }
    said
}
