//! The lines of a run as one table.
//!
//! A row stands for a version of the weights, which counts supervised and GRPO steps: the step that led to it, and the
//! evaluation of it. So rows ascend, as Weights & Biases needs it (`_step`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use evenkeel_charts::csv_cell;
use evenkeel_run::{MetricsLine, RunRecord};
use serde_json::{Map, Value};

/// The column of the version.
const STEP: &str = "_step";

/// The lines of a run by version, each with its values by name as they are written in the run's files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsTable(BTreeMap<u64, Map<String, Value>>);

impl MetricsTable {
    /// All lines of a run.
    pub fn of(run: &RunRecord) -> Self {
        Self::of_lines(run.warm_start.iter().chain(&run.steps).chain(&run.evaluations))
    }

    fn of_lines<'a>(lines: impl Iterator<Item = &'a MetricsLine>) -> Self {
        let mut rows: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
        for line in lines {
            let row = rows.entry(line.policy_version).or_default();
            if let Ok(Value::Object(mut values)) = serde_json::from_str(&line.to_json()) {
                for name in ["kind", "step", "policy_version"] {
                    values.remove(name);
                }
                row.append(&mut values);
            }
        }
        Self(rows)
    }

    /// Writes a JSON object for each row.
    ///
    /// # Errors
    /// What the writer refuses.
    pub fn jsonl(&self, mut out: impl Write) -> io::Result<()> {
        for (version, values) in &self.0 {
            let mut row = values.clone();
            row.insert(STEP.to_owned(), (*version).into());
            writeln!(out, "{}", Value::Object(row))?;
        }
        out.flush()
    }

    /// Writes a line with the names, and a line for each row.
    ///
    /// # Errors
    /// What the writer refuses.
    pub fn csv(&self, mut out: impl Write) -> io::Result<()> {
        let names: BTreeSet<&String> = self.0.values().flat_map(Map::keys).collect();
        write!(out, "{STEP}")?;
        names.iter().try_for_each(|name| write!(out, ",{}", csv_cell(name)))?;
        writeln!(out)?;
        for (version, values) in &self.0 {
            write!(out, "{version}")?;
            for name in &names {
                match values.get(*name) {
                    Some(value) => write!(out, ",{value}")?,
                    None => write!(out, ",")?,
                }
            }
            writeln!(out)?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    fn line(kind: StepKind, json: &str) -> MetricsLine {
        MetricsLine::from_json(kind, json).unwrap()
    }

    fn lines() -> [MetricsLine; 3] {
        [
            line(StepKind::WarmStart, r#"{"kind":"warm_start","step":1,"policy_version":1,"warm_start/loss":2.5}"#),
            line(StepKind::Train, r#"{"kind":"train","step":1,"policy_version":2,"critic/score/mean":0.1}"#),
            line(
                StepKind::Evaluation,
                r#"{"kind":"evaluation","step":1,"policy_version":2,"val-core/a, b/acc/mean@1":1}"#,
            ),
        ]
    }

    #[test]
    fn a_row_has_the_step_to_a_version_and_its_evaluation() {
        let mut out = Vec::new();
        MetricsTable::of_lines(lines().iter()).csv(&mut out).unwrap();
        let expected = "_step,critic/score/mean,\"val-core/a, b/acc/mean@1\",warm_start/loss\n1,,,2.5\n2,0.1,1,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        MetricsTable::of_lines(lines().iter()).jsonl(&mut out).unwrap();
        let last = String::from_utf8(out).unwrap();
        let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        assert_eq!(last, serde_json::json!({"_step": 2, "critic/score/mean": 0.1, "val-core/a, b/acc/mean@1": 1}));
    }
}
