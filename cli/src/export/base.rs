//! The model that a run began with, as a model card names it.

use anyhow::Result;
use evenkeel_recipe::Recipe;

/// What a run began with.
pub(super) enum Base {
    /// A model with weights drawn from the seed.
    Fresh,
    /// A folder, of which only the name is shown: its path means nothing elsewhere.
    Folder(String),
    /// A model of the hub.
    Hub { repository: String, revision: String },
}

impl Base {
    pub(super) fn of(recipe: &Recipe) -> Result<Self> {
        Ok(match (recipe.model.name().transpose()?, &recipe.model.path) {
            (Some(name), _) => {
                Self::Hub { repository: name.repository().to_owned(), revision: name.revision().to_owned() }
            }
            (None, Some(path)) => Self::Folder(super::name(path)),
            (None, None) => Self::Fresh,
        })
    }

    /// Repository and revision on the hub, both empty where it has none.
    pub(super) fn on_hub(&self) -> (&str, &str) {
        match self {
            Self::Hub { repository, revision } => (repository, revision),
            Self::Fresh | Self::Folder(_) => ("", ""),
        }
    }

    /// The model in a sentence.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Fresh => "a fresh model".to_owned(),
            Self::Folder(name) => format!("`{name}`"),
            Self::Hub { repository, revision } => {
                format!("[{repository}](https://huggingface.co/{repository}) at revision `{revision}`")
            }
        }
    }
}
