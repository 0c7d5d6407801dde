//! Commands about this machine: its GPU, the interpreter of the sandbox.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use evenkeel_learner::MomentsLocation;
use evenkeel_model::Recompute;
use evenkeel_recipe::Card;

#[derive(Subcommand)]
pub(crate) enum GpuCommand {
    /// Print what this machine has, and what is missing for training on a GPU. A machine without a GPU is not an error.
    Probe(GpuProbeOptions),
    /// Print how much GPU memory training a model takes, and fail if it does not fit.
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
    /// Length of the longest sequence in tokens, prompt included.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) longest: usize,
    /// Tokens in a micro-batch: compute.micro_batch_tokens. 0 uses the setting's own default.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) micro_batch_tokens: usize,
    /// What is recomputed: compute.recompute. If this option or the next is absent, all of its variants are printed,
    /// and one must fit.
    #[arg(long, value_name = "WHAT", value_parser = one_of(Recompute::ALL, Recompute::name))]
    pub(crate) recompute: Option<Recompute>,
    /// Where AdamW's moments are kept: optimizer.moments.
    #[arg(long, value_name = "WHERE", value_parser = one_of(MomentsLocation::ALL, MomentsLocation::name))]
    pub(crate) moments: Option<MomentsLocation>,
    /// Blocks in which gradients are summed: compute.gradient_blocks. Fewer take less memory.
    #[arg(long, value_name = "BLOCKS", default_value_t = 8)]
    pub(crate) gradient_blocks: usize,
    /// Compute in fp32 instead of bf16.
    #[arg(long)]
    pub(crate) f32: bool,
    /// A batch takes several updates: mini_batch_groups or epochs.
    #[arg(long)]
    pub(crate) several_updates: bool,
    /// A KL term against the initial weights is used.
    #[arg(long)]
    pub(crate) reference: bool,
    /// Memory of the GPU in GiB [default: that of this machine's first GPU]. An H200 has 140.4.
    #[arg(long, value_name = "GIB")]
    pub(crate) memory: Option<f64>,
    /// Print it as JSON, in bytes.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PlanOptions {
    /// A built-in recipe or a TOML file; several are merged. Of the model only config.json is read, and no data.
    #[arg(value_name = "RECIPE", required = true)]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Cards in all: one for the learner, the others for engines; with one card both take turns on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) gpus: u64,
    /// Which card.
    #[arg(long, value_name = "CARD", default_value = "h100", value_parser = PossibleValuesParser::new(Card::names()))]
    pub(crate) card: String,
    /// Mean length of a prompt.
    #[arg(long, value_name = "TOKENS", default_value_t = 256.0)]
    pub(crate) prompt_tokens: f64,
    /// Mean length of a response [default: half of sampling.max_tokens].
    #[arg(long, value_name = "TOKENS")]
    pub(crate) answer_tokens: Option<f64>,
    /// Gigabytes a second at which new weights reach each engine.
    #[arg(long, value_name = "GB/S", default_value_t = 5.0)]
    pub(crate) network: f64,
    /// Print it as JSON, in seconds and bytes.
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
    /// Folder to build it in [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
