//! Commands that inspect data sets.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// Show each prompt as the model sees it, and which rows are dropped or merged.
    ///
    /// Gold answers are shown as the verifier understands them.
    #[command(after_help = "  evenkeel data check problems.jsonl --model model")]
    Check(DataCheckOptions),
    /// Render conversations as `apply_chat_template` of transformers does.
    ///
    /// Reads JSON rows {id, messages, arguments}; prints a row {id, text, token_ids} or {id, error} for each.
    #[command(after_help = "  evenkeel data render --model model --json conversations.jsonl")]
    Render(DataRenderOptions),
}

#[derive(Args)]
pub(crate) struct DataRenderOptions {
    /// Folder with a tokenizer and its chat template.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// One JSON object per line.
    ///
    /// Rows with a `model` other than the folder's name are skipped.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) json: PathBuf,
}

#[derive(Args)]
pub(crate) struct DataCheckOptions {
    /// Folder with a tokenizer and its chat template.
    ///
    /// The default is model.path of the recipe. Without a model, rows are checked and prompts are shown as they are
    /// written.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: Option<PathBuf>,
    /// Print each prompt, then a summary, as JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the files as section data of this recipe says.
    ///
    /// A built-in recipe or a TOML file. May be repeated.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting, such as data.answer_field=extra.gold.
    ///
    /// May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Parquet, CSV, JSON array or JSON Lines; or patterns.
    ///
    /// The default is the files of the recipe.
    #[arg(value_name = "FILE", required_unless_present = "recipe")]
    pub(crate) files: Vec<PathBuf>,
}
