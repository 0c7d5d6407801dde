//! The token that ends a turn of the assistant.

use evenkeel_model_folder::{ChatTemplates, ConfigFile, EosTokens, Folder, FolderError, Tokenizer};

use crate::conversation::conversation;
use crate::prompt::Message;
use crate::template::{ChatTemplate, TemplateArguments};

/// Words of the assistant that no template writes.
const PROBE: &str = "evenkeelprobe";

/// The tokens that end a response, in the files of the folder and in its chat template. What the model learned in chats
/// ends with the template's, whatever the files say: those of a Qwen2.5 base model name `<|endoftext|>`, its template
/// ends turns with `<|im_end|>`.
///
/// A template that cannot be compiled ends nothing: the model may be asked without it.
///
/// # Errors
/// As [`EosTokens::read`].
pub fn end_tokens(
    folder: &Folder,
    config: &ConfigFile,
    tokenizer: Option<&Tokenizer>,
) -> Result<EosTokens, FolderError> {
    let named = EosTokens::read(folder, config, tokenizer)?;
    let template = match tokenizer {
        Some(tokenizer) if ChatTemplates::read(folder)? != ChatTemplates::default() => {
            let template = ChatTemplate::read(folder).ok().flatten();
            template.and_then(|template| template.end_of_turn(tokenizer))
        }
        _ => None,
    };
    let vocab_size = config.vocab_size()?;
    Ok(EosTokens { template: template.filter(|&id| id < vocab_size), ..named })
}

impl ChatTemplate {
    /// The special token that the template puts after what the assistant said. `None` where it is not a special token,
    /// or where the template refuses an answer to a question.
    pub fn end_of_turn(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let messages = [Message::text("user", "?"), Message::text("assistant", PROBE)];
        let text = self.render(&conversation(&messages), &TemplateArguments::default()).ok()?;
        let (_, behind) = text.rsplit_once(PROBE)?;
        let id = *tokenizer.encode(behind.trim_start(), false).ok()?.first()?;
        tokenizer.is_special(id).then_some(id)
    }
}
