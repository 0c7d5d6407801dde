//! Commands that judge answers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::whole;

#[derive(Subcommand)]
pub(crate) enum VerifyCommand {
    /// Judge mathematical answers: JSON rows {id, gold, prediction or completion, and optionally prompt}, with a
    /// verdict row for each on stdout.
    Math(VerifyMathOptions),
    /// Judge programs: JSON rows {question, completion} or {question, programs}, with a verdict row for each program on
    /// stdout.
    Code(VerifyCodeOptions),
}

#[derive(Args)]
pub(crate) struct VerifyMathOptions {
    /// One JSON object per line; `-` is stdin.
    #[arg(long, value_name = "FILE.jsonl", required_unless_present = "lint_golds")]
    pub(crate) input: Option<PathBuf>,
    /// Instead of judging answers, list the gold answers that are unsuitable for training.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["input", "endpoint"])]
    pub(crate) lint_golds: Option<PathBuf>,
    /// File for the verdict rows [default: stdout].
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// A running reward service, as http://HOST:PORT or dns://HOST:PORT. May be repeated.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Vec<String>,
    /// Profile for rows that name none [default: default].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) profile: String,
    /// Column of the gold answer, such as `reward_model.ground_truth` [default: gold, or the columns of published data
    /// sets].
    #[arg(long, value_name = "FIELD")]
    pub(crate) gold_field: Option<String>,
}

#[derive(Args)]
pub(crate) struct VerifyCodeOptions {
    /// One JSON object per line; `-` is stdin.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) input: PathBuf,
    /// File for the verdict rows [default: stdout].
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// A running reward service, as http://HOST:PORT or dns://HOST:PORT. May be repeated.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Vec<String>,
    /// Rules under which programs are run [default: strict, or those of the service].
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<CodeModeOption>,
    /// CPU time limit of a test [default: 18000, or that of the service].
    #[arg(long, value_name = "MILLISECONDS", value_parser = whole::<u64>)]
    pub(crate) cpu_ms: Option<u64>,
    /// Count instructions instead of time, so that no verdict depends on the machine.
    #[arg(long)]
    pub(crate) deterministic: bool,
    /// Largest error of a number whose expected value is written as a float; 0 for none [default: 1e-6, or that of the
    /// service].
    #[arg(long, value_name = "ERROR")]
    pub(crate) float_tolerance: Option<f64>,
    /// Run every test even after one failed.
    #[arg(long)]
    pub(crate) all_tests: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeModeOption {
    /// As a separate process would run them.
    Strict,
    /// As LiveCodeBench's grader judges, with its quirks, but without its loopholes.
    Livecodebench,
}
