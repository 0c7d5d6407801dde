//! How the chat template of a model tells it of tools: the settings of turns with which an environment goes.

use std::path::Path;

use anyhow::Result;
use evenkeel_model_folder::Folder;
use evenkeel_orchestrator::{EarlierTurns, RunError, ToolCallSetting, ToolsSetting, TurnsSettings};
use evenkeel_recipe::Recipe;

use super::{ENVIRONMENT, ENVIRONMENT_FILE};
use crate::cluster::Environments;

/// The lines of section `turns` that the environment which is written needs with a model.
///
/// # Errors
/// An environment that cannot be played, or a template that goes with no settings.
pub(super) async fn lines(model: &Path) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(ENVIRONMENT_FILE);
    std::fs::write(&file, ENVIRONMENT)?;
    let mut recipe = Recipe::default();
    recipe.data.environment = Some(file.display().to_string());
    let environments = Environments::start(&recipe).await?;
    let model = Folder::new(model);
    let mut lines = Vec::new();
    loop {
        let refused = match recipe.loop_settings().prompt_encoder(&model, &environments.described) {
            Ok(_) => return Ok(lines),
            Err(RunError::Setting(refused)) => refused,
            Err(error) => return Err(error.into()),
        };
        let usual = TurnsSettings::default();
        let turns = &mut recipe.turns;
        let (key, value) = match refused.field.as_str() {
            "turns.tools" if turns.tools == usual.tools => {
                turns.tools = ToolsSetting::SystemPrompt;
                ("tools", "system-prompt")
            }
            "turns.tool_calls" if turns.tool_calls.is_none() => {
                turns.tool_calls = Some(ToolCallSetting::Hermes);
                ("tool_calls", "hermes")
            }
            "turns.earlier_turns" if turns.earlier_turns == usual.earlier_turns => {
                turns.earlier_turns = EarlierTurns::Rewrite;
                ("earlier_turns", "rewrite")
            }
            _ => return Err(refused.into()),
        };
        lines.push(format!("{key} = \"{value}\"  # the model's chat template has no other"));
    }
}
