//! `evenkeel data`: data sets without a run.

mod check;
mod marked;
mod render;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::DataCommand;

pub(crate) use marked::{MarkedPrompts, SUFFIX, WRITTEN_SUFFIX, plain_text};

pub(crate) fn run(command: &DataCommand) -> Result<ExitCode> {
    match command {
        DataCommand::Check(options) => check::check(options),
        DataCommand::Render(options) => render::render(options),
    }
}
