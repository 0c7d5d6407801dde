//! The command that writes files to begin with.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct InitOptions {
    /// Files with problems: Parquet, CSV, a JSON array, or one JSON object per line; or patterns. May be repeated.
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) data: Vec<PathBuf>,
    /// The model to train: a Hugging Face folder, or hf:OWNER/NAME.
    #[arg(long, value_name = "DIR", requires = "data")]
    pub(crate) model: Option<PathBuf>,
    /// Write also a reward function, reward.py, beside the recipe.
    #[arg(long)]
    pub(crate) verifier: bool,
    /// Write also an environment with several turns, environment.py, and the file that plays it,
    /// evenkeel_environment.py, beside the recipe.
    #[arg(long)]
    pub(crate) environment: bool,
    /// The recipe.
    #[arg(long, value_name = "FILE.toml", default_value = "recipe.toml")]
    pub(crate) out: PathBuf,
}
