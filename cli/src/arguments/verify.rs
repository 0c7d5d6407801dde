//! Commands that judge answers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::whole;

#[derive(Subcommand)]
pub(crate) enum VerifyCommand {
    /// Judge mathematical answers.
    ///
    /// Reads JSON rows {id, gold, prediction or completion, and optionally prompt}; writes one verdict row for each.
    #[command(after_help = "  evenkeel verify math --input answers.jsonl --output verdicts.jsonl")]
    Math(VerifyMathOptions),
    /// Judge programs.
    ///
    /// Reads JSON rows {question, completion} or {question, programs}; writes one verdict row for each program.
    #[command(after_help = "  evenkeel verify code --input programs.jsonl --output verdicts.jsonl")]
    Code(VerifyCodeOptions),
}

#[derive(Args)]
pub(crate) struct VerifyMathOptions {
    /// One JSON object per line; - is stdin.
    #[arg(long, value_name = "FILE.jsonl", required_unless_present = "lint_golds")]
    pub(crate) input: Option<PathBuf>,
    /// Instead, list gold answers that are unsuitable for training.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["input", "endpoint"])]
    pub(crate) lint_golds: Option<PathBuf>,
    /// File for the verdict rows [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Running reward service; may be repeated [default: this process]
    ///
    /// As http://HOST:PORT or dns://HOST:PORT.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Vec<String>,
    /// Profile for rows that name none [default: default]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) profile: String,
    /// Column of the gold answer [default: gold]
    ///
    /// Such as `reward_model.ground_truth`. The columns of published data sets are found without this option.
    #[arg(long, value_name = "FIELD")]
    pub(crate) gold_field: Option<String>,
}

#[derive(Args)]
pub(crate) struct VerifyCodeOptions {
    /// One JSON object per line; - is stdin.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) input: PathBuf,
    /// File for the verdict rows [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Running reward service; may be repeated [default: this process]
    ///
    /// As http://HOST:PORT or dns://HOST:PORT.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Vec<String>,
    /// strict or livecodebench [default: strict]
    ///
    /// Rules under which programs run. The default with --endpoint is that of the service.
    #[arg(long, value_name = "MODE", hide_possible_values = true)]
    pub(crate) mode: Option<CodeModeOption>,
    /// CPU time limit of a test [default: 18000]
    ///
    /// The default with --endpoint is that of the service.
    #[arg(long, value_name = "MILLISECONDS", value_parser = whole::<u64>)]
    pub(crate) cpu_ms: Option<u64>,
    /// Count instructions, not time: equal verdicts on all machines.
    #[arg(long)]
    pub(crate) deterministic: bool,
    /// Largest error of a float; 0 for none [default: 1e-6]
    ///
    /// Applies to numbers whose expected value is written as a float. The default with --endpoint is that of the
    /// service.
    #[arg(long, value_name = "ERROR")]
    pub(crate) float_tolerance: Option<f64>,
    /// Run every test, even after one has failed.
    #[arg(long)]
    pub(crate) all_tests: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeModeOption {
    /// Judges like a separate process.
    Strict,
    /// Judges like LiveCodeBench's grader, with its quirks but without its loopholes.
    Livecodebench,
}
