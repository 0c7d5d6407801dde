//! `evenkeel data`: data sets without a run.

mod check;
mod render;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::DataCommand;

pub(crate) fn run(command: &DataCommand) -> Result<ExitCode> {
    match command {
        DataCommand::Check(options) => check::check(options),
        DataCommand::Render(options) => render::render(options),
    }
}
