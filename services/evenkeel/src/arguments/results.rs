//! Commands that measure models and look at runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct EvalOptions {
    /// Folder with the model's tokenizer and chat template; with its weights where no engine is named.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// An engine that serves the model, as http://HOST:PORT. May be repeated [default: the embedded engine, on the folder].
    #[arg(long, value_name = "URL")]
    pub(crate) engine: Vec<String>,
    /// Problems: parquet, or a JSON object on each line. May be repeated [default: the benchmarks of the recipe].
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) benchmark: Vec<String>,
    /// Samples for each problem [default: as the recipe says, 8 without one].
    #[arg(long, value_name = "K")]
    pub(crate) samples: Option<u32>,
    /// 0 takes the most probable token [default: as the recipe says, 1 without one].
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f32>,
    /// Keeps the most probable tokens whose probabilities reach it [default: as the recipe says, 1 without one].
    #[arg(long, value_name = "P")]
    pub(crate) top_p: Option<f32>,
    /// Longest answer [default: as the recipe says, 2048 without one].
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<u32>,
    /// Every draw follows from it [default: as the recipe says, 0 without one].
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Folder for the answers; the same command continues with what it has [default: evaluations/MODEL].
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Prompts, verifiers, engines and benchmarks as this recipe says: one that comes with the program, or a TOML file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Set one setting of a recipe, as `data.suffix=...`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the metrics as one JSON line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ShowOptions {
    /// Directory of a run, folder of `evenkeel eval`, or a file of answers.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The evaluation after this number of GRPO steps [default: the last one].
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Only this benchmark. May be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) benchmark: Vec<String>,
    /// Only this problem, by its name.
    #[arg(long, value_name = "ID")]
    pub(crate) problem: Option<String>,
    /// Only answers that are wrong; with --right or --invalid those as well.
    #[arg(long)]
    pub(crate) wrong: bool,
    /// Only answers that are right.
    #[arg(long)]
    pub(crate) right: bool,
    /// Only samples without a verdict.
    #[arg(long)]
    pub(crate) invalid: bool,
    /// At most this many.
    #[arg(long, value_name = "K")]
    pub(crate) limit: Option<usize>,
    /// One JSON object a line, with token ids.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RunsOptions {
    /// Folder with a directory for each run.
    #[arg(value_name = "DIR", default_value = "runs")]
    pub(crate) folder: PathBuf,
}

#[derive(Args)]
pub(crate) struct WatchOptions {
    /// Directory of the run, or the address of its page as `evenkeel train` prints it: http://HOST:PORT/run/NAME.
    #[arg(value_name = "URL|DIR")]
    pub(crate) run: String,
}

#[derive(Args)]
pub(crate) struct MetricsOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// A row of commas, or a JSON object, for each version of the weights.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub(crate) format: TableFormat,
}

#[derive(Args)]
pub(crate) struct AuditOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    Csv,
    Jsonl,
}

#[derive(Args)]
pub(crate) struct ExportOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The folder to write; it must be empty or new.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: PathBuf,
    /// GRPO steps done: of a checkpoint, or of published weights that the run still has [default: the newest checkpoint].
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Type of the weights [default: that of the model that the run began with].
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) weights: Option<WeightsOption>,
    /// Largest file of weights, as `2GiB` [default: 5 GB, as transformers].
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_file: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightsOption {
    F32,
    Bf16,
    F16,
}
