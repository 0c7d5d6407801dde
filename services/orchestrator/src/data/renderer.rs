//! From what a row asks to what the model sees.

use evenkeel_chat::Prompt;

use crate::settings::DataSettings;
use crate::text::Tokenizer;

/// A prompt as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// With special tokens written out.
    pub text: String,
    /// The same as tokens.
    pub token_ids: Vec<u32>,
}

/// Renders prompts with the chat template of a model folder and the settings of section `data`.
#[derive(Debug, Clone)]
pub struct Renderer {
    tokenizer: Tokenizer,
}

impl Renderer {
    pub(crate) fn new(tokenizer: Tokenizer, _settings: &DataSettings) -> Self {
        Self { tokenizer }
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The text and the tokens of a prompt.
    ///
    /// # Errors
    /// Why the prompt cannot be rendered, in a sentence.
    pub fn render(&self, prompt: &Prompt) -> Result<Rendered, String> {
        match prompt {
            Prompt::Text(text) => {
                let token_ids = self.tokenizer.encode(text).map_err(|error| error.to_string())?;
                Ok(Rendered { text: text.clone(), token_ids })
            }
            Prompt::Messages(_) => {
                Err("a list of messages, allowed: a text, since the model has no chat template".to_owned())
            }
        }
    }
}
