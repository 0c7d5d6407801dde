//! `evenkeel metrics`: the lines of a run as one table.

use std::io::{self, BufWriter};
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_run::RunRecord;
use evenkeel_run_report::MetricsTable;

use crate::arguments::{MetricsOptions, TableFormat};
use crate::runs::require_run;
use crate::terminal::unless_reader_left;

pub(crate) fn print(options: &MetricsOptions) -> Result<ExitCode> {
    require_run(&options.run)?;
    let table = MetricsTable::of(&RunRecord::read(&options.run)?);
    let out = BufWriter::new(io::stdout().lock());
    let written = match options.format {
        TableFormat::Csv => table.csv(out),
        TableFormat::Jsonl => table.jsonl(out),
    };
    unless_reader_left(written)?;
    Ok(ExitCode::SUCCESS)
}
