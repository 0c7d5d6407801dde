//! From what a row asks to what the model sees.

use std::sync::Arc;

use evenkeel_chat::{ChatTemplate, PromptRenderer, PromptSettings};
use evenkeel_hf::Folder;

use crate::error::RunError;
use crate::settings::DataSettings;
use crate::text::Tokenizer;

impl DataSettings {
    /// The renderer of prompts with the chat template and the tokenizer of a folder, which needs no model.
    ///
    /// # Errors
    /// A file that is missing or broken, an invalid template; a system prompt or an argument that the template cannot take.
    pub fn prompt_renderer(&self, folder: &Folder) -> Result<PromptRenderer, RunError> {
        let tokenizer = evenkeel_hf::Tokenizer::require(folder)?;
        self.renderer_with(folder, Arc::new(tokenizer))
    }

    fn renderer_with(
        &self,
        folder: &Folder,
        tokenizer: Arc<evenkeel_hf::Tokenizer>,
    ) -> Result<PromptRenderer, RunError> {
        let template = ChatTemplate::read(folder)?.map(Arc::new);
        let settings = PromptSettings {
            system_prompt: self.system_prompt.clone(),
            suffix: self.suffix.clone(),
            template_arguments: self.template_arguments.clone().into_iter().collect(),
            raw: self.raw,
        };
        Ok(PromptRenderer::new(template, tokenizer, settings).map_err(|error| error.within("data"))?)
    }
}

/// What turns the problems of a run into tokens: prompts by the chat template, answers to imitate as they are.
#[derive(Debug, Clone)]
pub(crate) struct Encoder {
    pub(crate) prompts: PromptRenderer,
    pub(crate) tokenizer: Tokenizer,
}

impl Encoder {
    /// # Errors
    /// As [`DataSettings::prompt_renderer`].
    pub(crate) fn new(folder: &Folder, tokenizer: Tokenizer, settings: &DataSettings) -> Result<Self, RunError> {
        Ok(Self { prompts: settings.renderer_with(folder, tokenizer.shared())?, tokenizer })
    }
}
