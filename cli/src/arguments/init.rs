//! The command that writes files to begin with.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct InitOptions {
    /// Files with problems: Parquet, CSV, JSON array or JSON Lines.
    ///
    /// Patterns are allowed. May be repeated.
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) data: Vec<PathBuf>,
    /// Model to train: a Hugging Face folder, or hf:OWNER/NAME.
    #[arg(long, value_name = "DIR", requires = "data")]
    pub(crate) model: Option<PathBuf>,
    /// Also write a reward function, reward.py.
    #[arg(long)]
    pub(crate) verifier: bool,
    /// Also write an environment with several turns.
    ///
    /// It consists of environment.py and the file that plays it, evenkeel_environment.py, beside the recipe.
    #[arg(long)]
    pub(crate) environment: bool,
    /// The recipe to write.
    #[arg(long, value_name = "FILE.toml", default_value = "recipe.toml")]
    pub(crate) out: PathBuf,
}
