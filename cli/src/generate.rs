//! `evenkeel generate`: what a model answers to a prompt, on the embedded engine.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_chat::Prompt;
use evenkeel_model_folder::{ConfigFile, Folder};
use evenkeel_orchestrator::DataSettings;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::FinishReason;
use evenkeel_run::RUN_FILE;

use crate::arguments::GenerateOptions;
use crate::local_model::{self, Asked, LocalModel};
use crate::terminal::{note, print_result};

/// Longest prompt on standard input.
const MAX_PROMPT: u64 = 16 << 20;

pub(crate) async fn generate(options: GenerateOptions) -> Result<ExitCode> {
    let model = &crate::hub::folder("MODEL", &options.model)?;
    refuse_run(model)?;
    let folder = Folder::new(model);
    let context = ConfigFile::read(&folder)?.max_position_embeddings()? as usize;
    let data = DataSettings { raw: options.raw, system_prompt: options.system.clone(), ..DataSettings::default() };
    let rendered = data.prompt_renderer(&folder)?.render(&Prompt::Text(prompt(&options.prompt)?))?;
    let prompt_tokens = rendered.token_ids.len();
    let most = options.max_tokens as usize;
    if prompt_tokens + most > context {
        let allowed = format!("at most {}, the model's context less the prompt", context.saturating_sub(prompt_tokens));
        return Err(FieldError::new("--max-tokens", most, allowed).into());
    }

    let mut asked_model = LocalModel::start(model, prompt_tokens + most, context).await?;
    let asked = Asked {
        prompt: rendered.token_ids,
        temperature: options.temperature,
        max_tokens: options.max_tokens,
        seed: options.seed,
    };
    let mut answer = None;
    asked_model.ask(vec![asked], |rollout| answer = Some(rollout)).await?;
    let Some(rollout) = answer else { bail!("the engine gave no answer") };
    let ids = local_model::tokens(&rollout);
    print_result(&(asked_model.tokenizer.decode(&ids)? + "\n"))?;
    match rollout.finish_reason() {
        FinishReason::Stop => {}
        FinishReason::Length => note(&format!("cut off after {} tokens (--max-tokens)", ids.len())),
        other => bail!("the answer ended as {}: {:?}", other.as_str_name(), rollout.failure),
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of a run is no model, though it holds some.
pub(crate) fn refuse_run(model: &Path) -> Result<(), FieldError> {
    if model.join(RUN_FILE).exists() {
        let allowed = format!(
            "a model: what `evenkeel export {0} --to FOLDER` writes, or a folder {0}/weights/step-N",
            model.display()
        );
        Err(FieldError::new("the model", format!("{}, a run", model.display()), allowed))
    } else {
        Ok(())
    }
}

/// The argument, or standard input for `-`.
fn prompt(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().take(MAX_PROMPT).read_to_string(&mut text).context("PROMPT from standard input")?;
    Ok(text)
}
