//! Commands that look at data sets.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// What the model will see of each row, how its gold answer is understood, and what is merged and dropped.
    Check(DataCheckOptions),
    /// Conversations as `apply_chat_template` of transformers renders them: rows {id, messages, arguments} of JSON, a row {id, text,
    /// token_ids} or {id, error} for each on stdout.
    Render(DataRenderOptions),
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
