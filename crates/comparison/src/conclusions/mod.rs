//! What can and what cannot be concluded, in plain words.
//!
//! A sentence claims a difference only where its [`Finding`](crate::Finding) does.

mod arms;
mod criterion;
mod differences;
mod tasks;

use serde::{Deserialize, Serialize};

use crate::across::AcrossTasks;
use crate::criterion::OrderedTasks;
use crate::task::TaskComparison;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    pub kind: ConclusionKind,
    /// The task that it is about; absent where it is about all.
    pub task: Option<String>,
    /// One or two sentences.
    pub text: String,
}

/// What kind of conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConclusionKind {
    /// A difference is shown.
    Shown,
    /// No difference is shown, though there were enough seeds.
    NotShown,
    /// Evidence from which nothing can be concluded, with the reason.
    Inconclusive,
    /// What must be known to read the numbers.
    Caution,
}

/// All conclusions: task by task, then over tasks, then what holds for every comparison.
pub(crate) fn conclusions(
    tasks: &[TaskComparison],
    across: &[AcrossTasks],
    ordered: &[OrderedTasks],
) -> Vec<Conclusion> {
    let mut all = Vec::new();
    for task in tasks {
        let own = |(kind, text)| Conclusion { kind, task: Some(task.task.clone()), text };
        let of_task = differences::sentences(task).into_iter().chain(criterion::sentences(task));
        all.extend(of_task.chain(arms::sentences(task)).map(own));
    }
    let general = |(kind, text)| Conclusion { kind, task: None, text };
    let of_tasks = tasks::sentences(across).into_iter().chain(criterion::between_tasks(ordered));
    all.extend(of_tasks.chain(convention(tasks)).chain(limits(tasks)).map(general));
    all
}

/// A conclusion before its task is known.
type Sentence = (ConclusionKind, String);

fn convention(tasks: &[TaskComparison]) -> Option<Sentence> {
    let is_judged =
        |task: &TaskComparison| task.criterion.as_ref().is_some_and(|criterion| !criterion.claims.is_empty());
    let text = "The paper's criterion has no threshold. The convention here: it prefers token where the gap is at most \
                half a deviation of length, sequence where it is one deviation or more, and neither in between. Where \
                tasks are compared by their order, no threshold is needed.";
    tasks.iter().any(is_judged).then(|| (ConclusionKind::Caution, text.to_owned()))
}

fn limits(tasks: &[TaskComparison]) -> Vec<Sentence> {
    if tasks.iter().all(|task| task.pairs.is_empty()) {
        return Vec::new();
    }
    let seeds = "Seeds vary what is drawn in a run. Nothing here is about other models, data, budgets or settings than \
        those of the runs.";
    let many = "Holm's correction covers the pairs of arms within one measure of one task. Where several measures or \
                tasks are looked at, a difference in one of them is weaker evidence than its p-value says.";
    [seeds, many].map(|text| (ConclusionKind::Caution, text.to_owned())).into()
}

/// `1 seed`, `2 seeds`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// A p-value with two digits that count.
fn p_value(p: f64) -> String {
    if p >= 0.1 {
        format!("{p:.2}")
    } else if p >= 0.0001 {
        let decimals = if p >= 0.01 { 3 } else { 4 };
        format!("{p:.decimals$}")
    } else {
        "below 0.0001".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lists_read_as_text() {
        assert_eq!([count(1, "seed"), count(8, "seed")], ["1 seed", "8 seeds"]);
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([&names[..1], &names[..2], &names[..]].map(list), ["a", "a and b", "a, b and c"]);
        assert_eq!([0.734, 0.0312, 0.0078125, 0.00001].map(p_value), ["0.73", "0.031", "0.0078", "below 0.0001"]);
    }
}
