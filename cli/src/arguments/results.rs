//! Commands that measure models and look at runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::whole;

#[derive(Args)]
pub(crate) struct EvalOptions {
    /// Folder of the model or of a LoRA adapter, or hf:OWNER/NAME.
    ///
    /// The folder has the tokenizer and the chat template, and the weights if no engine is named. An adapter, as PEFT
    /// writes it, is evaluated beside its base.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// Base model of an adapter [default: the one it names]
    ///
    /// A folder or hf:OWNER/NAME; the default is in adapter_config.json.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) base: Option<PathBuf>,
    /// Engine that serves the model [default: the embedded one]
    ///
    /// As http://HOST:PORT. May be repeated.
    #[arg(long, value_name = "URL")]
    pub(crate) engine: Vec<String>,
    /// File of problems; may be repeated [default: the recipe's]
    ///
    /// Parquet, CSV, a JSON array, or one JSON object per line.
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) benchmark: Vec<String>,
    /// Samples per problem [default: the recipe's, or 8]
    #[arg(long, value_name = "K", value_parser = whole::<u32>)]
    pub(crate) samples: Option<u32>,
    /// Sampling temperature; 0 is greedy [default: the recipe's, or 1]
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f32>,
    /// Nucleus sampling [default: the recipe's, or 1]
    ///
    /// Keeps the smallest set of most probable tokens whose total probability is at least this.
    #[arg(long, value_name = "P")]
    pub(crate) top_p: Option<f32>,
    /// Longest answer [default: the recipe's, or 2048]
    ///
    /// At most half of the model's context without a recipe.
    #[arg(long, value_name = "TOKENS", value_parser = whole::<u32>)]
    pub(crate) max_tokens: Option<u32>,
    /// Seed of the sampling [default: the recipe's, or 0]
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) seed: Option<u64>,
    /// Folder for the answers [default: evaluations/MODEL]
    ///
    /// Running the same command again continues the evaluation.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Use prompts, verifiers, engines and benchmarks of a recipe.
    ///
    /// May be repeated.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the metrics as one JSON line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GenerateOptions {
    /// Folder of a model, or hf:OWNER/NAME.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// User message, or the text to continue; - reads stdin.
    ///
    /// A model without a chat template continues the text.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// System message before the prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Send the prompt as it is, even if the model has a chat template.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Longest answer.
    #[arg(long, value_name = "TOKENS", default_value_t = 64, value_parser = whole::<u32>)]
    pub(crate) max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Seed of the sampling.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>)]
    pub(crate) seed: u64,
}

#[derive(Args)]
pub(crate) struct ShowOptions {
    /// Directory of a run, folder of an evaluation, or one of their files.
    ///
    /// Files of answers and files of a run's `rollouts` can be read.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Evaluation after step N, or the samples of step N.
    ///
    /// The samples are shown if the step was not evaluated. The default is the last evaluation.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) step: Option<u64>,
    /// Samples of a training step [default: the newest]
    ///
    /// Including samples that were filtered or failed. With --problem, the default is all steps.
    #[arg(long, conflicts_with = "benchmark")]
    pub(crate) train: bool,
    /// Only this benchmark; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) benchmark: Vec<String>,
    /// Only this problem, by name or number.
    #[arg(long, value_name = "ID|N")]
    pub(crate) problem: Option<String>,
    /// Only answers that are not correct.
    ///
    /// Combined with another of these filters, answers of either kind are shown.
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
    /// Only answers without a final answer.
    #[arg(long)]
    pub(crate) no_answer: bool,
    /// The K longest of these, longest first.
    #[arg(long, value_name = "K")]
    pub(crate) longest: Option<usize>,
    /// At most K of these.
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
    /// Remove these runs, after asking; without names, runs without steps.
    ///
    /// A run in progress is never removed.
    #[arg(long, value_name = "NAME", num_args = 0..)]
    pub(crate) prune: Option<Vec<String>>,
    /// Remove without asking.
    #[arg(long, requires = "prune")]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct WatchOptions {
    /// Directory of the run, or the address of its page.
    ///
    /// `evenkeel train` prints the address: http://HOST:PORT/run/NAME.
    #[arg(value_name = "URL|DIR")]
    pub(crate) run: String,
}

#[derive(Args)]
pub(crate) struct MetricsOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Output format.
    ///
    /// One row per weights version.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub(crate) format: TableFormat,
}

#[derive(Args)]
pub(crate) struct CheckOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Head that was published elsewhere, to which the receipt must lead.
    ///
    /// As the run printed it at its end or a model card has it; that of an earlier step will do.
    #[arg(long, value_name = "HEAD")]
    pub(crate) head: Option<String>,
    /// Recompute step K as well, from the last checkpoint before it.
    ///
    /// The steps since that checkpoint, or since the model that the run began with, are done again in this process:
    /// verdicts, advantages, updates and weights, and with the embedded engine the sampled tokens. The exit status is 0
    /// if all is equal, 1 if something is different, and 2 if the step cannot be recomputed.
    #[arg(long, value_name = "K", value_parser = whole::<u64>)]
    pub(crate) step: Option<u64>,
    /// With --step: repeat the verdicts of your own code too.
    ///
    /// Without this, its recorded verdicts stand, and what follows from them is recomputed. A judge's verdicts are
    /// compared with its record either way.
    #[arg(long, requires = "step")]
    pub(crate) repeat_verdicts: bool,
}

#[derive(Args)]
pub(crate) struct ReplayOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Only steps A to B, or one step [default: all]
    ///
    /// Without this, steps that cannot be replayed are left out and counted.
    #[arg(long, value_name = "A..B")]
    pub(crate) steps: Option<String>,
    /// Judge with math, a verifier of the run or a Python file.
    ///
    /// All answers are judged with it. The file has reward functions, as `data.verifiers.NAME.path` has.
    #[arg(long, value_name = "NAME|FILE.py")]
    pub(crate) verifier: Option<String>,
    /// Override one setting; may be repeated.
    ///
    /// Settings of `data`, `reward` and `shaping` judge the answers again. `learner.objective.aggregation=RULE,RULE`
    /// weighs the groups of each step again, after the recorded step was reproduced; `sides` takes
    /// `learner.objective.length_exponent` and `side_ratio`, each a list.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// At most K changed verdicts in the table [default: 50]
    #[arg(long, value_name = "K", default_value_t = 50, hide_default_value = true, value_parser = whole::<usize>)]
    pub(crate) limit: usize,
    /// Print one JSON object per line instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ReportOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// File to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Another run, whose curves are drawn below those of this one.
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
    /// Folder to write; it must be empty or new.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: PathBuf,
    /// Step to export [default: the newest checkpoint]
    ///
    /// A step with a checkpoint, or with published weights that the run still has.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) step: Option<u64>,
    /// f32, bf16 or f16 [default: the type of the initial model]
    ///
    /// Data type of the weights.
    #[arg(long = "type", value_name = "TYPE", hide_possible_values = true)]
    pub(crate) weights: Option<WeightsOption>,
    /// Maximum size of a weight file, such as 2GiB [default: 5 GB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_file: Option<String>,
    /// Merge a LoRA adapter into a copy of its base.
    ///
    /// For runs with `learner.lora`. Otherwise the adapter is written as a folder of PEFT.
    #[arg(long)]
    pub(crate) merged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightsOption {
    F32,
    Bf16,
    F16,
}
