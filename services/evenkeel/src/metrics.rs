//! `evenkeel metrics`: the lines of a run as one table.
//!
//! A row stands for a version of the weights, which counts supervised and GRPO steps: the step that led to it, and the evaluation of it. So
//! rows ascend, as Weights & Biases needs it (`_step`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_orchestrator::{MetricsLine, RunRecord};
use evenkeel_report::csv_cell;
use serde_json::{Map, Value};

use crate::arguments::{MetricsOptions, TableFormat};
use crate::terminal::unless_reader_left;

/// The column of the version.
const STEP: &str = "_step";

/// Rows by version, each with its values by name as they are written in the run's files.
type Rows = BTreeMap<u64, Map<String, Value>>;

/// Prints the table.
pub(crate) fn print(options: &MetricsOptions) -> Result<ExitCode> {
    let run = RunRecord::read(&options.run)?;
    let rows = rows(run.warm_start.iter().chain(&run.steps).chain(&run.evaluations));
    let out = BufWriter::new(io::stdout().lock());
    let written = match options.format {
        TableFormat::Csv => csv(out, &rows),
        TableFormat::Jsonl => jsonl(out, &rows),
    };
    unless_reader_left(written)?;
    Ok(ExitCode::SUCCESS)
}

fn rows<'a>(lines: impl Iterator<Item = &'a MetricsLine>) -> Rows {
    let mut rows = Rows::new();
    for line in lines {
        let row = rows.entry(line.policy_version).or_default();
        if let Ok(Value::Object(mut values)) = serde_json::from_str(&line.to_json()) {
            for name in ["kind", "step", "policy_version"] {
                values.remove(name);
            }
            row.append(&mut values);
        }
    }
    rows
}

fn jsonl(mut out: impl Write, rows: &Rows) -> io::Result<()> {
    for (version, values) in rows {
        let mut row = values.clone();
        row.insert(STEP.to_owned(), (*version).into());
        writeln!(out, "{}", Value::Object(row))?;
    }
    out.flush()
}

fn csv(mut out: impl Write, rows: &Rows) -> io::Result<()> {
    let names: BTreeSet<&String> = rows.values().flat_map(Map::keys).collect();
    write!(out, "{STEP}")?;
    names.iter().try_for_each(|name| write!(out, ",{}", csv_cell(name)))?;
    writeln!(out)?;
    for (version, values) in rows {
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

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    fn line(kind: StepKind, json: &str) -> MetricsLine {
        MetricsLine::from_json(kind, json).unwrap()
    }

    fn lines() -> [MetricsLine; 3] {
        [
            line(StepKind::WarmStart, r#"{"step":0,"policy_version":1,"warm_start/loss":2.5}"#),
            line(StepKind::Train, r#"{"step":0,"policy_version":2,"critic/score/mean":0.1}"#),
            line(StepKind::Evaluation, r#"{"step":1,"policy_version":2,"val-core/a, b/acc/mean@1":1}"#),
        ]
    }

    #[test]
    fn a_row_has_the_step_to_a_version_and_its_evaluation() {
        let mut out = Vec::new();
        csv(&mut out, &rows(lines().iter())).unwrap();
        let expected = "_step,critic/score/mean,\"val-core/a, b/acc/mean@1\",warm_start/loss\n1,,,2.5\n2,0.1,1,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        jsonl(&mut out, &rows(lines().iter())).unwrap();
        let last = String::from_utf8(out).unwrap();
        let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        assert_eq!(last, serde_json::json!({"_step": 2, "critic/score/mean": 0.1, "val-core/a, b/acc/mean@1": 1}));
    }
}
