//! The command line.

mod data;
mod init;
mod machine;
mod results;
mod serve;
mod train;
mod verify;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use data::{DataCheckOptions, DataCommand, DataRenderOptions};
pub(crate) use init::InitOptions;
#[cfg(feature = "sandbox")]
pub(crate) use machine::SandboxWorkerOptions;
pub(crate) use machine::{GpuCommand, GpuPlanOptions, GpuProbeOptions, GuestOptions, PlanOptions};
pub(crate) use results::{
    AuditOptions, EvalOptions, ExportOptions, GenerateOptions, MetricsOptions, ReportOptions, RunsOptions, ShowOptions,
    TableFormat, WatchOptions, WeightsOption,
};
pub(crate) use serve::{
    ConfigOptions, HealthOptions, ImportOptions, ModelArguments, ModelCommand, ModelOptions, ServeOptions, Service,
    UntieOptions, WorkerExtensionOptions,
};
pub(crate) use train::{CompareOptions, ResumeOptions, TrainOptions, probe_setting};
pub(crate) use verify::{CodeModeOption, VerifyCodeOptions, VerifyCommand, VerifyMathOptions};

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
    Train(Box<TrainOptions>),
    /// Go on with a run from its last checkpoint, or extend it: short for `train --resume`.
    Resume(ResumeOptions),
    /// Write a recipe for own rows and an own model, commented, and the files of an own reward function.
    Init(InitOptions),
    /// Compare settings over several seeds, with the statistics to judge differences: run every combination, or use
    /// existing runs.
    Compare(CompareOptions),
    /// Run one service until a signal stops it.
    Serve(ServeOptions),
    /// Check the health of servers, one line each; the exit status says whether all are healthy.
    Health(HealthOptions),
    /// Create the fresh model of a recipe, or link the model that it starts from, for services that need it before the
    /// run starts; or prepare a model, or vLLM, for training.
    Model(ModelArguments),
    /// Write the model of a run as a Hugging Face folder: weights, tokenizer, chat template, generation_config.json,
    /// model card.
    Export(ExportOptions),
    /// List the runs in a folder: state, steps, reward, accuracy, rule.
    Runs(RunsOptions),
    /// Follow a run in the terminal until it ends, given the address of its page or its directory.
    Watch(WatchOptions),
    /// Print the metrics of a run as one table, for spreadsheets and Weights & Biases.
    Metrics(MetricsOptions),
    /// Check that each prompt in the data order of a run was trained on, filtered for a stated reason or found invalid,
    /// exactly once, and compare lengths of trained and sampled answers; exit status 1 if the check fails.
    Audit(AuditOptions),
    /// Write the report of a run as its files are now, whether the run is active or not: one page without scripts.
    Report(ReportOptions),
    /// Print the resolved settings of a recipe with their documentation.
    Config(ConfigOptions),
    /// Judge the rows of a file, in this process or on reward services that are already running.
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Evaluate a model on benchmarks, without a run: k samples per problem, every answer kept.
    Eval(EvalOptions),
    /// Ask a model something, on the embedded engine.
    Generate(GenerateOptions),
    /// Show the answers of an evaluation: prompt, answer, gold answer, verdict and the reason for it.
    Show(ShowOptions),
    /// Inspect data sets as a run would read them, without starting a run.
    #[command(subcommand)]
    Data(DataCommand),
    /// Build and compile the interpreter of the sandbox before a reward worker needs it.
    Guest(GuestOptions),
    /// Inspect NVIDIA's driver, libraries and devices, and plan GPU memory.
    #[command(subcommand)]
    Gpu(GpuCommand),
    /// Estimate what a recipe takes of a number of GPUs: memory, seconds of a step by part, and what bounds them.
    Plan(PlanOptions),
    #[cfg(feature = "sandbox")]
    /// Run programs for a reward worker, which starts this process itself.
    #[command(hide = true)]
    SandboxWorker(SandboxWorkerOptions),
}

/// A number without a fraction, as an argument.
fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| "allowed: a whole number that is not negative".to_owned())
}

/// What to do instead of a command that there is not, where it is known what was wanted.
pub(crate) fn tip(command: &str) -> Option<&'static str> {
    match command {
        "delete" | "rm" | "remove" | "prune" | "clean" => Some("evenkeel runs --prune NAME removes a run"),
        "continue" => Some("evenkeel resume DIR goes on with a run"),
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
