//! `evenkeel gpu`: what this machine has to train on.

use std::process::ExitCode;

use anyhow::Result;
use evenkeel_cuda::Probe;

use crate::arguments::GpuCommand;

/// Answers with success whatever is there: a machine without a GPU is one of the answers.
#[expect(clippy::print_stdout, reason = "the answer")]
pub(crate) fn gpu(command: &GpuCommand) -> Result<ExitCode> {
    let GpuCommand::Probe(options) = command;
    let probe = Probe::of_this_machine();
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&probe)?),
        false => println!("{probe}"),
    }
    Ok(ExitCode::SUCCESS)
}
