//! Commands that measure models and look at runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::whole;

#[derive(Args)]
pub(crate) struct EvalOptions {
    /// Folder with the model's tokenizer and chat template, also with its weights if no engine is named; or
    /// hf:OWNER/NAME. A folder with a LoRA adapter as PEFT writes it is evaluated beside its base.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// The model that an adapter belongs to: a folder or hf:OWNER/NAME [default: what its adapter_config.json names].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) base: Option<PathBuf>,
    /// An engine that serves the model, as http://HOST:PORT. May be repeated [default: the embedded engine, with the
    /// model in the folder].
    #[arg(long, value_name = "URL")]
    pub(crate) engine: Vec<String>,
    /// Problems: Parquet, or one JSON object per line. May be repeated [default: the benchmarks of the recipe].
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) benchmark: Vec<String>,
    /// Samples per problem [default: the recipe's, or 8 without a recipe].
    #[arg(long, value_name = "K", value_parser = whole::<u32>)]
    pub(crate) samples: Option<u32>,
    /// Sampling temperature; 0 is greedy decoding [default: the recipe's, or 1 without a recipe].
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f32>,
    /// Nucleus sampling: keeps the smallest set of most probable tokens whose total probability is at least this
    /// [default: the recipe's, or 1 without a recipe].
    #[arg(long, value_name = "P")]
    pub(crate) top_p: Option<f32>,
    /// Maximum response length [default: the recipe's; without a recipe 2048, or half of the model's context].
    #[arg(long, value_name = "TOKENS", value_parser = whole::<u32>)]
    pub(crate) max_tokens: Option<u32>,
    /// Seed for all sampling [default: the recipe's, or 0 without a recipe].
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) seed: Option<u64>,
    /// Folder for the answers; running the same command again continues the evaluation [default: evaluations/MODEL].
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Take prompts, verifiers, engines and benchmarks from this recipe: a built-in recipe or a TOML file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe, such as `data.suffix=...`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the metrics as one JSON line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GenerateOptions {
    /// Folder of a model, such as one that `evenkeel export` wrote, or hf:OWNER/NAME.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// What it is asked: a user message where the model has a chat template, otherwise the text to go on from. `-`
    /// reads standard input.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// System message before it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Pass the prompt on as it is, even if the model has a chat template.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Longest answer, in tokens.
    #[arg(long, value_name = "TOKENS", default_value_t = 64, value_parser = whole::<u32>)]
    pub(crate) max_tokens: u32,
    /// Sampling temperature; 0 is greedy decoding.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Seed of the sampling.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>)]
    pub(crate) seed: u64,
}

#[derive(Args)]
pub(crate) struct ShowOptions {
    /// Directory of a run, output folder of `evenkeel eval`, a file of answers, or a file of a run's `rollouts`.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The evaluation after this number of GRPO steps; the training samples of this step where it was not evaluated
    /// [default: the last evaluation].
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) step: Option<u64>,
    /// The samples that the step was trained on, those that were filtered or failed included [default step: the newest
    /// one; with --problem all].
    #[arg(long, conflicts_with = "benchmark")]
    pub(crate) train: bool,
    /// Only this benchmark. May be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) benchmark: Vec<String>,
    /// Only this problem, by its name or by its number as it is shown.
    #[arg(long, value_name = "ID|N")]
    pub(crate) problem: Option<String>,
    /// Only answers that are not correct; combined with another of these filters, what that one shows as well.
    #[arg(long)]
    pub(crate) wrong: bool,
    /// Only correct answers.
    #[arg(long)]
    pub(crate) right: bool,
    /// Only samples without a verdict.
    #[arg(long)]
    pub(crate) invalid: bool,
    /// Only answers that were cut off.
    #[arg(long)]
    pub(crate) truncated: bool,
    /// Only answers in which no final answer was found.
    #[arg(long)]
    pub(crate) no_answer: bool,
    /// Only the K longest of those, from the longest.
    #[arg(long, value_name = "K")]
    pub(crate) longest: Option<usize>,
    /// Show at most this many.
    #[arg(long, value_name = "K", value_parser = whole::<usize>)]
    pub(crate) limit: Option<usize>,
    /// Print one JSON object per line, with token ids.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RunsOptions {
    /// Folder with a directory for each run.
    #[arg(value_name = "DIR", default_value = "runs")]
    pub(crate) folder: PathBuf,
    /// Remove these runs, after asking; without names those that have done no step. A run in progress is never removed.
    #[arg(long, value_name = "NAME", num_args = 0..)]
    pub(crate) prune: Option<Vec<String>>,
    /// Remove them without asking.
    #[arg(long, requires = "prune")]
    pub(crate) yes: bool,
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
    /// Output format: CSV or JSON Lines, one row per weights version.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub(crate) format: TableFormat,
}

#[derive(Args)]
pub(crate) struct AuditOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
}

#[derive(Args)]
pub(crate) struct ReportOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Directory of another run, whose curves of reward, accuracy and training lie under those of this one.
    #[arg(long, value_name = "RUN")]
    pub(crate) earlier: Option<PathBuf>,
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
    /// Number of GRPO steps done: selects a checkpoint, or published weights that the run still has [default: the
    /// newest checkpoint].
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) step: Option<u64>,
    /// Data type of the weights [default: that of the model that the run started from].
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) weights: Option<WeightsOption>,
    /// Maximum size of one weight file, such as `2GiB` [default: 5 GB, as in transformers].
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_file: Option<String>,
    /// Merge the adapters of a run with `learner.lora` into a copy of their base, instead of writing them as a folder
    /// of PEFT.
    #[arg(long)]
    pub(crate) merged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightsOption {
    F32,
    Bf16,
    F16,
}
