//! The command line.

mod data;
mod init;
mod judge;
mod machine;
mod results;
mod serve;
mod train;
mod verify;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use data::{DataCheckOptions, DataCommand, DataRenderOptions};
pub(crate) use init::InitOptions;
pub(crate) use judge::{JudgeCheckOptions, JudgeCommand};
#[cfg(feature = "sandbox")]
pub(crate) use machine::SandboxWorkerOptions;
pub(crate) use machine::{GpuCommand, GpuPlanOptions, GpuProbeOptions, GuestOptions, PlanOptions};
pub(crate) use results::{
    CheckOptions, EvalOptions, ExportOptions, GenerateOptions, MetricsOptions, ReplayOptions, ReportOptions,
    RunsOptions, ShowOptions, TableFormat, WatchOptions, WeightsOption,
};
pub(crate) use serve::{
    ConfigOptions, HealthOptions, ImportOptions, ModelArguments, ModelCommand, ModelOptions, ServeOptions, Service,
    UntieOptions, WorkerExtensionOptions,
};
pub(crate) use train::{CompareOptions, ResumeOptions, TrainOptions, probe_setting};
pub(crate) use verify::{CodeModeOption, VerifyCodeOptions, VerifyCommand, VerifyMathOptions};

/// Help of a command: what the command does, an example, then one line for each argument. Second paragraphs of the
/// doc comments, with the details, are only in docs/reference/commands.md.
const HELP: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";

const GLOBAL: &str = "Global options";

/// Reinforcement learning with verifiable rewards for language models.
#[derive(Parser)]
#[command(version, disable_help_subcommand = true, after_help = "  evenkeel train arithmetic")]
pub(crate) struct Arguments {
    /// Log filter, such as info or evenkeel_learner=debug,warn.
    #[arg(long, global = true, value_name = "FILTER", help_heading = GLOBAL)]
    pub(crate) log: Option<String>,
    /// Format of the log.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human", help_heading = GLOBAL)]
    pub(crate) log_format: Format,
    /// Further names of HTTP ports, such as that of a proxy in front.
    ///
    /// At most 16, with commas between them. On loopback a port otherwise refuses every name but localhost and the one
    /// that it listens on.
    #[arg(long, global = true, value_name = "NAMES", value_delimiter = ',', help_heading = GLOBAL)]
    pub(crate) hosts: Vec<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Train a model, with all services in this process.
    #[command(after_help = "  evenkeel train smollm2 --steps 20")]
    Train(Box<TrainOptions>),
    /// Resume a run from its last checkpoint, or extend it.
    #[command(after_help = "  evenkeel resume runs/arithmetic-0")]
    Resume(ResumeOptions),
    /// Write a recipe for your own data and model, or a reward function to start from.
    #[command(after_help = "  evenkeel init --data problems.jsonl --model hf:HuggingFaceTB/SmolLM2-135M-Instruct")]
    Init(InitOptions),
    /// Compare settings over several seeds, with statistics.
    #[command(
        after_help = "  evenkeel compare arithmetic --vary learner.objective.aggregation=token,balanced --seeds 8"
    )]
    Compare(CompareOptions),
    /// Run one service until a signal stops it.
    #[command(after_help = "  evenkeel serve reward --set server.listen=127.0.0.1:50051")]
    Serve(ServeOptions),
    /// Check the health of servers; the exit status says whether all are healthy.
    #[command(after_help = "  evenkeel health http://127.0.0.1:50051")]
    Health(HealthOptions),
    /// Create, copy or import a model, for services and engines that need it first.
    ///
    /// Without a command: create the fresh model of a recipe, or link the model that the recipe starts from.
    #[command(after_help = "  evenkeel model --recipe arithmetic --out model")]
    Model(ModelArguments),
    /// Write the model of a run as a Hugging Face folder.
    ///
    /// The folder has weights, tokenizer, chat template, generation_config.json and a model card.
    #[command(after_help = "  evenkeel export runs/arithmetic-0 --to model")]
    Export(ExportOptions),
    /// List the runs in a folder: state, steps, reward, accuracy, size, rule.
    #[command(after_help = "  evenkeel runs")]
    Runs(RunsOptions),
    /// Follow a run in the terminal until it ends.
    #[command(after_help = "  evenkeel watch runs/arithmetic-0")]
    Watch(WatchOptions),
    /// Print the metrics of a run as one table, for spreadsheets and Weights & Biases.
    #[command(after_help = "  evenkeel metrics runs/arithmetic-0 > metrics.csv")]
    Metrics(MetricsOptions),
    /// Check the files of a run against its receipt, and that it used each prompt exactly once.
    ///
    /// All files that receipt.jsonl covers are read: samples, lines, settings, inputs, checkpoints and weights. Each
    /// prompt in the data order was trained on, filtered for a stated reason, or found invalid. The exit status is 0 if
    /// all is equal, 1 if something is different (with --head also a missing receipt), and 3 if there is no receipt.
    /// With --step a step is recomputed.
    #[command(after_help = "  evenkeel check runs/arithmetic-0 --step 40")]
    Check(CheckOptions),
    /// Judge or weigh the recorded steps of a run again, with other settings.
    ///
    /// The files of the run are read and none is written. The exit status is 0 if everything is as it was recorded, 1 if
    /// a verdict or a step is not, and 2 if it cannot be replayed.
    #[command(after_help = "  evenkeel replay runs/arithmetic-0 --set data.math_profile=exact")]
    Replay(ReplayOptions),
    /// Write the report of a run: one HTML page without scripts.
    ///
    /// The report shows the files of the run as they are now, whether the run is active or not.
    #[command(after_help = "  evenkeel report runs/arithmetic-0 --to report.html")]
    Report(ReportOptions),
    /// Print the settings of a recipe with their documentation.
    #[command(after_help = "  evenkeel config sampling.max_tokens --recipe dapo")]
    Config(ConfigOptions),
    /// Judge the answers in a file, in this process or on running reward services.
    #[command(subcommand, after_help = "  evenkeel verify math --input answers.jsonl")]
    Verify(VerifyCommand),
    /// Try the judge of a recipe.
    #[command(subcommand, after_help = "  evenkeel judge check labelled.jsonl --recipe recipe.toml")]
    Judge(JudgeCommand),
    /// Evaluate a model on benchmarks: k samples per problem, every answer kept.
    #[command(after_help = "  evenkeel eval --model model --benchmark gsm8k=gsm8k.parquet")]
    Eval(EvalOptions),
    /// Ask a model something, on the embedded engine.
    #[command(after_help = "  evenkeel generate model \"What is 12 + 30?\"")]
    Generate(GenerateOptions),
    /// Show the answers of an evaluation or the samples of a training step.
    ///
    /// Each answer is shown with its prompt, gold answer, verdict, and the reason for the verdict.
    #[command(after_help = "  evenkeel show runs/arithmetic-0 --wrong --limit 5")]
    Show(ShowOptions),
    /// Inspect data sets as a run would read them.
    #[command(subcommand, after_help = "  evenkeel data check problems.jsonl")]
    Data(DataCommand),
    /// Build the interpreter of the sandbox before a reward worker needs it.
    #[command(after_help = "  evenkeel guest")]
    Guest(GuestOptions),
    /// Inspect NVIDIA's driver, libraries and devices, and plan GPU memory.
    #[command(subcommand, after_help = "  evenkeel gpu probe")]
    Gpu(GpuCommand),
    /// Estimate the memory and the time of a recipe on a number of GPUs.
    #[command(after_help = "  evenkeel plan smollm2 --gpus 8")]
    Plan(PlanOptions),
    #[cfg(feature = "sandbox")]
    /// Run programs for a reward worker, which starts this process itself.
    #[command(hide = true)]
    SandboxWorker(SandboxWorkerOptions),
}

impl Arguments {
    /// Reads the command line of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut command = command();
        let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }
}

/// The command line as it is declared, with [`HELP`] for each command.
pub(crate) fn command() -> clap::Command {
    // `-h` and `--help` print the same.
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    with_help(Arguments::command().disable_help_flag(true).arg(help.global(true).help_heading(GLOBAL)))
}

fn with_help(command: clap::Command) -> clap::Command {
    command.help_template(HELP).mut_subcommands(with_help)
}

/// A number without a fraction, as an argument.
fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| "allowed: a whole number that is not negative".to_owned())
}

/// What to do instead of a command that there is not, where it is known what was wanted.
pub(crate) fn tip(command: &str) -> Option<&'static str> {
    match command {
        "delete" | "rm" | "remove" | "prune" | "clean" => Some("evenkeel runs --prune NAME removes a run"),
        "audit" => Some("evenkeel check RUN compares a run with its receipt and checks its data order"),
        "continue" => Some("evenkeel resume DIR continues a run"),
        "fork" => Some("evenkeel train --from DIR@N starts a run from a checkpoint of another one"),
        "chat" | "infer" | "sample" | "predict" => Some("evenkeel generate MODEL PROMPT asks a model"),
        "list" | "ls" | "status" => Some("evenkeel runs lists the runs of a folder"),
        _ => None,
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable.
    Human,
    /// One JSON object per line.
    Json,
}
