//! Commands about the judge of a recipe.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::whole;

#[derive(Subcommand)]
pub(crate) enum JudgeCommand {
    /// Compare the judge with labels and with itself, before a run starts.
    ///
    /// Reads JSON rows with a task, a `completion`, a `label` (0 to 1, or true and false) and optionally a reference.
    /// Each answer is judged twice. Nothing is recorded, so every judgement is a call. The exit status is 1 if a row
    /// cannot be read or an answer has no verdict.
    #[command(after_help = "  evenkeel judge check labelled.jsonl --recipe recipe.toml")]
    Check(JudgeCheckOptions),
}

#[derive(Args)]
pub(crate) struct JudgeCheckOptions {
    /// One JSON object per line; - is stdin.
    #[arg(value_name = "FILE.jsonl")]
    pub(crate) file: PathBuf,
    /// Recipe with `reward.judge`; may be repeated.
    #[arg(long, value_name = "NAME|FILE.toml", required = true)]
    pub(crate) recipe: Vec<String>,
    /// Override one setting, such as reward.judge.model=NAME.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Judge this many rows [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub(crate) limit: Option<usize>,
}
