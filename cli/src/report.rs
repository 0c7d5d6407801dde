//! `evenkeel report`: the report of a run as its files are now.

use std::process::ExitCode;

use anyhow::Result;
use evenkeel_run_report::render_report;

use crate::arguments::ReportOptions;
use crate::terminal::print_result;

/// Writes the page to a file, or prints it.
pub(crate) fn write(options: &ReportOptions) -> Result<ExitCode> {
    let page = render_report(&options.run, options.earlier.as_deref())?;
    match &options.to {
        Some(file) => evenkeel_run::replace(file, &page)?,
        None => print_result(&page)?,
    }
    Ok(ExitCode::SUCCESS)
}
