//! Why a prompt cannot be asked.

use evenkeel_model_folder::TextError;

use crate::template::RenderError;

/// Longest text of a prompt, in bytes: several times the longest context of a model.
const MAX_TEXT: usize = 16 << 20;

/// Why a prompt cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// Messages, where nothing turns them into a text.
    #[error("the prompt is a list of messages, allowed: a text, because {0}")]
    NoTemplate(&'static str),
    /// The template does not render the conversation.
    #[error("the chat template does not render the prompt: {0}")]
    Template(#[from] RenderError),
    /// A template for texts prints the parts of a content as code of Python.
    #[error(
        "the content of a message is a list of parts, allowed: a text, since the chat template prints the list as it is"
    )]
    Parts,
    /// A text of the prompt that spells control tokens, where the settings refuse that.
    #[error("the text {text:?} spells control tokens of the model, allowed: none (data.control_text = \"refuse\")")]
    ControlText {
        /// The beginning of the text.
        text: String,
    },
    /// More text than any context holds; its tokens would take a hundred times its bytes.
    #[error("the prompt has {bytes} bytes of text, allowed: at most {MAX_TEXT}")]
    TooLong {
        /// The length of the text.
        bytes: usize,
    },
    /// The tokenizer could not encode the prompt.
    #[error(transparent)]
    Tokens(#[from] TextError),
}

/// Refuses this many bytes of text if they are more than [`MAX_TEXT`].
pub(crate) fn validate_size(bytes: usize) -> Result<(), PromptError> {
    if bytes > MAX_TEXT { Err(PromptError::TooLong { bytes }) } else { Ok(()) }
}
