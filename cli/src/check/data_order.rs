//! Whether a run trained on each prompt of its data order once, and on what lengths.

use evenkeel_proto::Label;
use evenkeel_run_report::{Audit, LagLengths, Lengths, OvertakenLengths};

use crate::columns::aligned;

/// The audit as tables, faults and a sentence.
pub(super) fn shown(audit: &Audit) -> String {
    let faults: String = audit.faults().iter().map(|fault| format!("{fault}\n")).collect();
    format!("{}{faults}{}\n", table(audit), audit.sentence())
}

/// Groups by outcome, then lengths by lag.
fn table(audit: &Audit) -> String {
    let mut outcomes = vec![["outcome", "prompts"].map(str::to_owned).to_vec()];
    outcomes.extend(audit.outcomes().map(|(outcome, count)| vec![outcome.label().to_owned(), count.to_string()]));
    let header = ["lag, answers", "number", "mean", "first quartile", "median", "third quartile"];
    let mut lengths = vec![header.map(str::to_owned).to_vec()];
    for LagLengths { lag, sampled, trained } in audit.lengths() {
        lengths.push(row(format!("{lag}, sampled"), *sampled));
        lengths.push(row(format!("{lag}, trained"), *trained));
    }
    if let Some(OvertakenLengths { taken, left }) = audit.overtaken() {
        lengths.push(row("by steps that left prompts, taken".to_owned(), Some(*taken)));
        lengths.push(row("by steps that left prompts, left".to_owned(), Some(*left)));
    }
    [outcomes, lengths].into_iter().filter(|rows| rows.len() > 1).map(|rows| aligned(&rows) + "\n").collect()
}

fn row(name: String, lengths: Option<Lengths>) -> Vec<String> {
    let cells = match lengths {
        None => vec!["0".to_owned()],
        Some(Lengths { answers, mean, quartiles }) => {
            let numbers = std::iter::once(mean).chain(quartiles);
            std::iter::once(answers.to_string()).chain(numbers.map(|number| format!("{number:.1}"))).collect()
        }
    };
    std::iter::once(name).chain(cells).collect()
}
