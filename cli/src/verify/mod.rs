//! `evenkeel verify`: judges the rows of a file, in this process or with running services.

mod code;
mod counts;
mod judges;
mod math;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::arguments::VerifyCommand;
use evenkeel_data::DataRow;
use evenkeel_data::read::{Line, Lines, printable};

pub(crate) async fn verify(command: VerifyCommand) -> Result<ExitCode> {
    match command {
        VerifyCommand::Math(options) => math::verify(options).await,
        VerifyCommand::Code(options) => code::verify(options).await,
    }
}

/// Opens a file to read line by line; `-` is stdin.
pub(crate) fn open_lines(path: &Path, flag: &str) -> Result<Lines<Box<dyn BufRead>>> {
    if path == Path::new("-") {
        return Ok(Lines::new(Box::new(BufReader::new(std::io::stdin()))));
    }
    let file = File::open(path).with_context(|| format!("{flag} {}", path.display()))?;
    Ok(Lines::new(Box::new(BufReader::new(file))))
}

/// Reports invalid lines on stderr: each reason once, and how many further lines it holds for.
#[derive(Default)]
pub(crate) struct InvalidLines {
    last: Option<String>,
    others: u64,
}

impl InvalidLines {
    pub(crate) fn report(&mut self, path: &Path, number: usize, error: &anyhow::Error) {
        let reason = printable(format_args!("{error:#}"));
        if self.last.as_ref() == Some(&reason) {
            self.others += 1;
            return;
        }
        self.end();
        print_err!("{} line {number}: {reason}", path.display());
        self.last = Some(reason);
    }

    /// Says for how many further lines the last reason holds.
    pub(crate) fn end(&mut self) {
        let others = std::mem::take(&mut self.others);
        if others > 0 {
            print_err!("and {others} more lines for the same reason");
        }
    }
}

/// Parses a line as a row.
fn parse_row(line: &Line) -> Result<DataRow> {
    let text = line.text.as_deref().map_err(Clone::clone)?;
    Ok(DataRow::parse(line.number, text)?)
}

/// Opens the output; stdout by default.
fn open_output(path: Option<&Path>) -> Result<Box<dyn Write>> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
    let file = File::create(path).with_context(|| format!("--output {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
