//! Commands that inspect data sets.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// Show what the model will see of each row, how its gold answer is understood, and what is merged and dropped.
    Check(DataCheckOptions),
    /// Render conversations as `apply_chat_template` of transformers does: reads JSON rows {id, messages, arguments},
    /// prints a row {id, text, token_ids} or {id, error} for each on stdout.
    Render(DataRenderOptions),
}

#[derive(Args)]
pub(crate) struct DataRenderOptions {
    /// Folder with a tokenizer and its chat template; no model is needed.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: PathBuf,
    /// One JSON object per line. Rows with a `model` other than the folder's name are skipped.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) json: PathBuf,
}

#[derive(Args)]
pub(crate) struct DataCheckOptions {
    /// Folder with a tokenizer and its chat template [default: model.path of the recipe; without it rows are checked
    /// and prompts are shown as they are written].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) model: Option<PathBuf>,
    /// Print one JSON object per line: each prompt, then a summary of all files.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the files as section `data` of this recipe says: a built-in recipe or a TOML file. May be repeated.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting, such as `data.answer_field=extra.gold`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Parquet, CSV, a JSON array, or one JSON object per line; or patterns that match files [default: the files of the
    /// recipe].
    #[arg(value_name = "FILE", required_unless_present = "recipe")]
    pub(crate) files: Vec<PathBuf>,
}
