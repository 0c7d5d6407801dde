//! One JSON object a line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use evenkeel_data::{DataReport, FileReport, Id, Problem, Reason};
use serde::Serialize;

use super::{Checked, Output};

#[derive(Serialize)]
struct PromptLine<'a> {
    source: &'a str,
    id: &'a Id,
    text: &'a str,
    /// Absent without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [u32]>,
    gold: Option<Gold<'a>>,
}

/// A gold answer, or several of equal worth.
#[derive(Serialize)]
#[serde(untagged)]
enum Gold<'a> {
    One(&'a str),
    Several(Vec<&'a str>),
}

#[derive(Serialize)]
struct SummaryLine<'a> {
    summary: BTreeMap<&'a str, FileSummary<'a>>,
}

/// What became of the rows of a file.
#[derive(Serialize)]
struct FileSummary<'a> {
    rows: u64,
    prompts: u64,
    duplicates: u64,
    dropped: &'a BTreeMap<Reason, u64>,
}

impl<'a> FileSummary<'a> {
    fn of(file: &'a FileReport) -> Self {
        let FileReport { rows, prompts, duplicates, dropped, .. } = file;
        Self { rows: *rows, prompts: *prompts, duplicates: *duplicates, dropped }
    }
}

pub(super) struct Lines<W> {
    output: W,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output }
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, value)?;
        self.output.write_all(b"\n")
    }
}

impl<W: Write> Output for Lines<W> {
    fn prompt(&mut self, problem: &Problem, prompt: &Checked, report: &DataReport) -> io::Result<()> {
        let golds: Vec<_> = problem.task.golds().collect();
        let gold = match golds[..] {
            [] => None,
            [gold] => Some(Gold::One(gold)),
            _ => Some(Gold::Several(golds)),
        };
        let source = &report.files[problem.origin.file].file;
        self.line(&PromptLine {
            source,
            id: &problem.id,
            text: &prompt.text,
            token_ids: prompt.token_ids.as_deref(),
            gold,
        })
    }

    fn finish(&mut self, report: &DataReport) -> io::Result<()> {
        let summary = report.files.iter().map(|file| (file.file.as_str(), FileSummary::of(file))).collect();
        self.line(&SummaryLine { summary })?;
        self.output.flush()
    }
}
