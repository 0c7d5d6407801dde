//! The command line.

mod data;
mod machine;
mod results;
mod serve;
mod train;
mod verify;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use data::{DataCheckOptions, DataCommand, DataRenderOptions};
pub(crate) use machine::{GpuCommand, GpuPlanOptions, GpuProbeOptions, GuestOptions, SandboxWorkerOptions};
pub(crate) use results::{
    AuditOptions, EvalOptions, ExportOptions, MetricsOptions, RunsOptions, ShowOptions, TableFormat, WatchOptions,
    WeightsOption,
};
pub(crate) use serve::{ConfigOptions, HealthOptions, ModelOptions, ServeOptions, Service};
pub(crate) use train::{CompareOptions, TrainOptions, probe_setting};
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
    Train(TrainOptions),
    /// Compare settings over seeds, with the statistics that a difference needs: run every combination, or take runs that exist.
    Compare(CompareOptions),
    /// Run one service until a signal stops it.
    Serve(ServeOptions),
    /// Check the health of servers, one line each; the exit status says whether all are.
    Health(HealthOptions),
    /// Create the fresh model of a recipe, or link the one that it begins with, for services that need it before the run starts.
    Model(ModelOptions),
    /// Write the model of a run as a Hugging Face folder: weights, tokenizer, chat template, generation_config.json, model card.
    Export(ExportOptions),
    /// List the runs of a folder: state, steps, reward, accuracy, rule.
    Runs(RunsOptions),
    /// Follow a run in the terminal, by the address of its page or by its directory, until it has ended.
    Watch(WatchOptions),
    /// Print the metrics of a run as one table, for spreadsheets and Weights & Biases.
    Metrics(MetricsOptions),
    /// Check that a run trained on each prompt of its data order, filtered it for a stated reason or found it invalid, exactly once, and compare
    /// lengths of trained and sampled answers; exit status 1 where it did not.
    Audit(AuditOptions),
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

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// An object per line.
    Json,
}
