//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Reinforcement learning with verifiable rewards, with balanced aggregation.
#[derive(Parser)]
#[command(version, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Log filter for stderr, such as `info` or `evenkeel_learner=debug,warn`.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Format of the log.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(crate) log_format: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Train a model: every service in this process, over loopback gRPC.
    Train(TrainOptions),
    /// Run one service until a signal stops it.
    Serve(ServeOptions),
    /// Create the fresh model of a recipe, for services that need it before the run starts.
    Model(ModelOptions),
    /// Write the model of a run as a Hugging Face folder: weights, tokenizer, chat template, generation_config.json, model card.
    Export(ExportOptions),
    /// Print the metrics of a run as one table, for spreadsheets and Weights & Biases.
    Metrics(MetricsOptions),
    /// Print the resolved settings of a recipe with their documentation.
    Config(ConfigOptions),
    /// Judge the rows of a file, in this process or by running reward services.
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Evaluate a model on benchmarks, without a run: k samples for each problem, every answer kept.
    Eval(EvalOptions),
    /// Read the answers of an evaluation: prompt, answer, gold answer, verdict and the reason for it.
    Show(ShowOptions),
    /// Look at data sets as a run would read them, without any run.
    #[command(subcommand)]
    Data(DataCommand),
    /// Build and compile the interpreter of the sandbox before a reward worker needs it.
    Guest(GuestOptions),
    /// Look at NVIDIA's driver, libraries and devices.
    #[command(subcommand)]
    Gpu(GpuCommand),
    /// Run programs for a reward worker, which starts this process itself.
    #[command(hide = true)]
    SandboxWorker(SandboxWorkerOptions),
}

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// What the model will see of each row, how its gold answer is understood, and what is merged and dropped.
    Check(DataCheckOptions),
    /// Conversations as `apply_chat_template` of transformers renders them: rows {id, messages, arguments} of JSON, a row {id, text,
    /// token_ids} or {id, error} for each on stdout.
    Render(DataRenderOptions),
}

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
    /// Folder for the answers; the same command goes on with what it has [default: evaluations/MODEL].
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
    /// The evaluation after that many GRPO steps [default: the last one].
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
    /// At most so many.
    #[arg(long, value_name = "K")]
    pub(crate) limit: Option<usize>,
    /// One JSON object a line, with token ids.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DataRenderOptions {
    /// Folder with a tokenizer and its chat template; it needs no model.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// A JSON object on each line. Rows with a `model` that is not the folder's name are passed over.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) json: PathBuf,
}

#[derive(Args)]
pub(crate) struct DataCheckOptions {
    /// Folder with a tokenizer and its chat template; it needs no model [default: model.path of the recipe].
    #[arg(long, value_name = "FOLDER", required_unless_present = "recipe")]
    pub(crate) model: Option<PathBuf>,
    /// One JSON object a line: each prompt, then a summary of all files.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read as this recipe says in section `data`: a recipe that comes with the program, or a TOML file. May be repeated.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Set one setting, as `data.answer_field=extra.gold`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Parquet, or a JSON object on each line; or patterns that files match [default: the files of the recipe].
    #[arg(value_name = "FILE", required_unless_present = "recipe")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum VerifyCommand {
    /// Mathematical answers: JSON rows {id, gold, prediction or completion}, with a verdict row for each on stdout.
    Math(VerifyMathOptions),
    /// Programs: JSON rows {question, completion} or {question, programs}, with a verdict row for each program on stdout.
    Code(VerifyCodeOptions),
}

#[derive(Subcommand)]
pub(crate) enum GpuCommand {
    /// Print what this machine has, and what is missing for training on a GPU. That nothing is there is no error.
    Probe(GpuProbeOptions),
    /// Print what training a model takes of a GPU's memory, and fail if it does not fit.
    Plan(GpuPlanOptions),
}

#[derive(Args)]
pub(crate) struct GpuProbeOptions {
    /// Print it as JSON, with every place that was searched.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GpuPlanOptions {
    /// The model's folder; only its configuration is read.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// Tokens of the longest sequence, prompt included.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) longest: usize,
    /// Tokens in a micro-batch: compute.micro_batch_tokens. 0 is the setting's own default.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) micro_batch_tokens: usize,
    /// What is recomputed: compute.recompute. Without this option or the next all ways are printed, and one must fit.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) recompute: Option<RecomputeOption>,
    /// Where AdamW's moments lie: optimizer.moments.
    #[arg(long, value_name = "WHERE", value_enum)]
    pub(crate) moments: Option<MomentsOption>,
    /// Compute in fp32 instead of bf16.
    #[arg(long)]
    pub(crate) f32: bool,
    /// A batch takes several updates: mini_batch_groups or epochs.
    #[arg(long)]
    pub(crate) several_updates: bool,
    /// A KL term refers to the initial weights.
    #[arg(long)]
    pub(crate) reference: bool,
    /// Memory of the GPU in GiB, by default that of this machine's first one. An H200 has 140.4.
    #[arg(long, value_name = "GIB")]
    pub(crate) memory: Option<f64>,
    /// Print it as JSON, in bytes.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyMathOptions {
    /// A JSON object on each line; `-` is stdin.
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
    /// Column of the gold answer, such as `reward_model.ground_truth` [default: gold, or the columns of published data sets].
    #[arg(long, value_name = "FIELD")]
    pub(crate) gold_field: Option<String>,
}

#[derive(Args)]
pub(crate) struct VerifyCodeOptions {
    /// A JSON object on each line; `-` is stdin.
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
    #[arg(long, value_name = "MILLISECONDS")]
    pub(crate) cpu_ms: Option<u64>,
    /// Count instructions instead of time, so that no verdict depends on the machine.
    #[arg(long)]
    pub(crate) deterministic: bool,
    /// Run every test even after one failed.
    #[arg(long)]
    pub(crate) all_tests: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeModeOption {
    /// As a process would run.
    Strict,
    /// As LiveCodeBench's grader judges, with its quirks, but without its loopholes.
    Livecodebench,
}

/// As in the learner's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecomputeOption {
    None,
    Selective,
    Full,
}

/// As in the learner's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MomentsOption {
    Device,
    Host,
}

#[derive(Args)]
pub(crate) struct SandboxWorkerOptions {
    /// Folder of the interpreter.
    pub(crate) dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct GuestOptions {
    /// Folder to build it in [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// An object per line.
    Json,
}

#[derive(Args)]
pub(crate) struct TrainOptions {
    /// A recipe that comes with the program, or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, value_name = "NAME|FILE.toml", conflicts_with = "resume")]
    pub(crate) recipe: Vec<String>,
    /// Start a new run from a checkpoint of another one, after step N [default: its newest], with its settings and --set on top.
    #[arg(long, value_name = "DIR[@N]", conflicts_with_all = ["recipe", "resume"])]
    pub(crate) from: Option<String>,
    /// Set one setting, as `learner.optimizer.learning_rate=1e-5`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// GRPO steps in total.
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u64>,
    /// Directory of the run [default: runs/RECIPE-SEED, or DIR-from-N with --from; with a number if it exists].
    #[arg(long, visible_alias = "run", value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Resume the run in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Print one JSON line per step on stdout, and nothing else; with --dry-run one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Start nothing: check files, templates, gold answers, memory and engines, print what the run will cost and all that keeps it from
    /// starting. Fails if the run cannot start.
    #[arg(long, conflicts_with_all = ["from", "resume"])]
    pub(crate) dry_run: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    Engine,
    Generation,
    Reward,
    Learner,
    Orchestrator,
}

#[derive(Args)]
pub(crate) struct ServeOptions {
    /// The service.
    pub(crate) service: Service,
    /// Use the service's part of a recipe; the orchestrator starts or resumes that run. Several are merged, later ones win.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Settings of the service as TOML; the environment (EVENKEEL__KEY) and --set override them.
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Set one setting, as `server.listen=0.0.0.0:50051`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Serve counters and histograms for Prometheus at http://ADDRESS/metrics (the engine has them on its own port).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// Send spans to an OpenTelemetry collector (OTLP over gRPC), such as http://127.0.0.1:4317. Only the generation service has spans: a
    /// trace of each sample.
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
}

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// A recipe that comes with the program, or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Set one setting of the recipe. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The folder; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Args)]
pub(crate) struct ConfigOptions {
    /// A recipe that comes with the program, or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Set one setting. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// List the recipes that come with the program instead.
    #[arg(long, conflicts_with_all = ["recipe", "set"])]
    pub(crate) list: bool,
}
