//! Commands about this machine: its GPU, the interpreter of the sandbox.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use evenkeel_learner::MomentsLocation;
use evenkeel_model::Recompute;
use evenkeel_recipe::Card;

#[derive(Subcommand)]
pub(crate) enum GpuCommand {
    /// Print the GPUs and libraries of this machine, and what training lacks.
    ///
    /// A machine without a GPU is not an error.
    #[command(after_help = "  evenkeel gpu probe")]
    Probe(GpuProbeOptions),
    /// Print how much GPU memory training a model needs; fail if it does not fit.
    #[command(after_help = "  evenkeel gpu plan --model model --longest 4096 --memory 80")]
    Plan(GpuPlanOptions),
}

#[derive(Args)]
pub(crate) struct GpuProbeOptions {
    /// Print JSON, with every place that was searched.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GpuPlanOptions {
    /// The model's folder; only its configuration is read.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// Longest sequence in tokens, prompt included.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) longest: usize,
    /// compute.micro_batch_tokens; 0 is its default.
    ///
    /// Tokens in a micro-batch.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) micro_batch_tokens: usize,
    /// compute.recompute: none, selective or full [default: all]
    ///
    /// What is recomputed. If this option or --moments is absent, all variants are printed, and one must fit.
    #[arg(long, value_name = "WHAT", hide_possible_values = true,
    value_parser = one_of(Recompute::ALL, Recompute::name))]
    pub(crate) recompute: Option<Recompute>,
    /// optimizer.moments: device or host [default: both]
    ///
    /// Where AdamW's moments are kept.
    #[arg(long, value_name = "WHERE", hide_possible_values = true,
    value_parser = one_of(MomentsLocation::ALL, MomentsLocation::name))]
    pub(crate) moments: Option<MomentsLocation>,
    /// compute.gradient_blocks; fewer need less memory.
    ///
    /// Blocks in which gradients are summed.
    #[arg(long, value_name = "BLOCKS", default_value_t = 8)]
    pub(crate) gradient_blocks: usize,
    /// Compute in fp32 instead of bf16.
    #[arg(long)]
    pub(crate) f32: bool,
    /// Plan several updates for each batch.
    ///
    /// That is, with mini_batch_groups or epochs.
    #[arg(long)]
    pub(crate) several_updates: bool,
    /// Plan a KL term against the initial weights.
    #[arg(long)]
    pub(crate) reference: bool,
    /// GPU memory [default: that of the first GPU; an H200 has 140.4]
    #[arg(long, value_name = "GIB")]
    pub(crate) memory: Option<f64>,
    /// Print JSON, in bytes.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PlanOptions {
    /// Built-in recipes or TOML files; later ones win.
    ///
    /// Only config.json of the model is read, and no data.
    #[arg(value_name = "RECIPE", required = true)]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// GPUs in all: one for the learner, the others for engines.
    ///
    /// On one GPU, learner and engine take turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) gpus: u64,
    /// GPUs: a100, h100, h200, b200, l4, l40s or rtx4090
    #[arg(long, value_name = "CARD", default_value = "h100", value_parser = PossibleValuesParser::new(Card::names()), hide_possible_values = true)]
    pub(crate) card: String,
    /// Mean length of a prompt.
    #[arg(long, value_name = "TOKENS", default_value_t = 256.0)]
    pub(crate) prompt_tokens: f64,
    /// Mean length of an answer [default: half of sampling.max_tokens]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) answer_tokens: Option<f64>,
    /// Bandwidth for new weights, for all engines together.
    #[arg(long, value_name = "GB/S", default_value_t = 5.0)]
    pub(crate) network: f64,
    /// Print JSON, in seconds and bytes.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One of the names that the values of a setting have.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find = move |chosen: String| all.into_iter().find(|value| name(*value) == chosen).ok_or("unknown");
    PossibleValuesParser::new(all.map(name)).try_map(find)
}

#[cfg(feature = "sandbox")]
#[derive(Args)]
pub(crate) struct SandboxWorkerOptions {
    /// Folder of the interpreter.
    pub(crate) dir: PathBuf,
    /// Run the cells of so many sessions.
    #[arg(long)]
    pub(crate) sessions: Option<usize>,
}

#[derive(Args)]
pub(crate) struct GuestOptions {
    /// Folder [default: EVENKEEL_GUEST_DIR, or evenkeel in the cache]
    ///
    /// The cache is the user's cache folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
