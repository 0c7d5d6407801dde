//! Prompts as a model sees them: text and token ids.

use std::sync::Arc;

use evenkeel_errors::FieldError;
use evenkeel_model_folder::{ControlText, MARK, Tokenizer};
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::chat::Chat;
use crate::prompt::{Message, Prompt};
use crate::prompt_error::{PromptError, validate_size};
use crate::template::{ChatTemplate, RenderError, TemplateArguments};
use crate::value::TemplateValue;

/// Tags that a model reads and writes, whether or not its template has them.
const TAGS: [&str; 6] = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];

/// What is added to every prompt of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptSettings {
    /// System message of prompts that have none of their own.
    pub system_prompt: Option<String>,
    /// Appended to the last user message.
    pub suffix: String,
    /// Arguments of the template, such as `enable_thinking`; over the defaults of [`PromptRenderer`].
    pub template_arguments: Map<String, Value>,
    /// Texts go to the model as they are, whether or not there is a template.
    pub raw: bool,
    /// Whether prompts are refused whose own text spells control tokens.
    pub refuses_control_text: bool,
}

/// A prompt as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub text: String,
    /// The tokens of the text: those that it spells out, and no others.
    pub token_ids: Vec<u32>,
}

/// Turns prompts into text and tokens. Clones share everything; threads may render at the same time.
///
/// If the folder has a template, a text becomes one user message, otherwise it goes to the model as it is. A
/// conversation that ends with the assistant is continued, any other is followed by what the template puts before an
/// answer; the arguments `add_generation_prompt` and `continue_final_message` say otherwise.
#[derive(Debug, Clone)]
pub struct PromptRenderer {
    /// Absent where there is no template, and where prompts go in raw.
    chat: Option<Chat>,
    tokenizer: Arc<Tokenizer>,
    control: Arc<ControlText>,
    suffix: String,
    raw: bool,
    refuses_control_text: bool,
    /// Whether instructions or tools of an environment are in each prompt.
    is_told: bool,
}

impl PromptRenderer {
    /// A renderer with the template of a folder, where it has one, and with its tokenizer.
    ///
    /// # Errors
    /// A system prompt where prompts go in raw; a template argument that is not supported.
    pub fn new(
        template: Option<Arc<ChatTemplate>>,
        tokenizer: Arc<Tokenizer>,
        settings: PromptSettings,
    ) -> Result<Self, FieldError> {
        let PromptSettings { system_prompt, suffix, template_arguments, raw, refuses_control_text } = settings;
        if let Some(text) = &system_prompt
            && (raw || template.is_none())
        {
            let allowed = if raw { "none with raw prompts" } else { "none for a model without a chat template" };
            return Err(FieldError::new("system_prompt", format!("{text:?}"), allowed));
        }
        let given = TemplateValue::from(&template_arguments);
        let refused = |error: RenderError| FieldError::new("template_arguments", "refused", error.to_string());
        let arguments = TemplateArguments::new(&given).map_err(refused)?;
        let control = ControlText::of(&tokenizer, |text| {
            TAGS.contains(&text) || template.as_ref().is_some_and(|template| template.mentions(text))
        });
        let template = template.filter(|_| !raw);
        let chat = template.map(|template| Chat::new(template, arguments, system_prompt.as_deref()));
        let control = Arc::new(control);
        Ok(Self { chat, tokenizer, control, suffix, raw, refuses_control_text, is_told: false })
    }

    /// The renderer with further instructions in the system message, and with tools for the template, if there are any.
    pub(crate) fn with_tools(&self, instructions: Option<String>, tools: &[Value]) -> Result<Self, RenderError> {
        let is_told = instructions.is_some() || !tools.is_empty();
        let chat = self.chat.as_ref().map(|chat| chat.with_tools(instructions, tools)).transpose()?;
        Ok(Self { chat, is_told, ..self.clone() })
    }

    /// The template, where conversations are rendered by one.
    pub(crate) fn template(&self) -> Option<&ChatTemplate> {
        self.chat.as_ref().map(Chat::template)
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(crate) fn control(&self) -> &ControlText {
        &self.control
    }

    /// The text of a conversation as it stands, with or without what the template puts before an answer.
    pub(crate) fn turns(&self, messages: &[Message], generation_prompt: bool) -> Result<String, PromptError> {
        self.chat()?.turns(messages, generation_prompt)
    }

    fn chat(&self) -> Result<&Chat, PromptError> {
        self.chat.as_ref().ok_or(PromptError::NoTemplate("the tokenizer has no chat template"))
    }

    /// A sentence for each argument of the settings that the template never mentions, so it changes no prompt.
    pub fn unread_arguments(&self) -> Vec<String> {
        let unread = self.chat.iter().flat_map(Chat::unread_arguments);
        unread
            .map(|name| {
                format!("data.template_arguments.{name}: the chat template does not read it, so it changes no prompt")
            })
            .collect()
    }

    /// Renders one prompt.
    ///
    /// # Errors
    /// Messages that no template renders.
    pub fn render(&self, prompt: &Prompt) -> Result<RenderedPrompt, PromptError> {
        self.render_with(prompt, None)
    }

    /// Renders with a suffix in place of that of the settings.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_with(&self, prompt: &Prompt, suffix: Option<&str>) -> Result<RenderedPrompt, PromptError> {
        self.render_followed(prompt, suffix, &[])
    }

    /// Renders with a hint after the suffix: what a teacher reads that knows more than the model.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_hinted(
        &self,
        prompt: &Prompt,
        suffix: Option<&str>,
        hint: &str,
    ) -> Result<RenderedPrompt, PromptError> {
        if self.refuses_control_text
            && let Some(text) = self.control_text(&Prompt::Text(hint.to_owned()))?
        {
            return Err(PromptError::ControlText { text });
        }
        self.render_with(prompt, Some(&format!("{}{hint}", suffix.unwrap_or(&self.suffix))))
    }

    /// Renders a prompt and the messages that follow it.
    pub(crate) fn render_followed(
        &self,
        prompt: &Prompt,
        suffix: Option<&str>,
        followed_by: &[Message],
    ) -> Result<RenderedPrompt, PromptError> {
        let suffix = suffix.unwrap_or(&self.suffix);
        // Before it is copied, and again once it is rendered.
        validate_size(length(prompt))?;
        if self.refuses_control_text
            && let Some(text) = self.control_text(prompt)?
        {
            return Err(PromptError::ControlText { text });
        }
        let text = match (prompt, &self.chat) {
            (Prompt::Text(text), Some(chat)) => chat.row(vec![Message::text("user", text)], suffix, followed_by)?,
            (Prompt::Either { messages, .. } | Prompt::Messages(messages), Some(chat)) => {
                chat.row(messages.clone(), suffix, followed_by)?
            }
            (Prompt::Text(text) | Prompt::Either { text, .. }, None) => format!("{text}{suffix}"),
            (Prompt::Messages(_), None) if self.raw => return Err(PromptError::NoTemplate("prompts go in raw")),
            (Prompt::Messages(_), None) => {
                return Err(PromptError::NoTemplate("the tokenizer has no chat template"));
            }
        };
        // Marks are in what follows, and in instructions and tools.
        if followed_by.is_empty() && !self.is_told {
            validate_size(text.len())?;
            let token_ids = self.tokenizer.encode(&text, false)?;
            return Ok(RenderedPrompt { text, token_ids });
        }
        if has_mark(prompt) {
            return Err(PromptError::Template(RenderError(format!(
                "it has {MARK:?}, which is kept for use within programs"
            ))));
        }
        self.unmarked(text)
    }

    /// Renders messages of other authors, with marks in their control text, and those that follow.
    pub(crate) fn render_marked(
        &self,
        messages: Vec<Message>,
        followed_by: &[Message],
    ) -> Result<RenderedPrompt, PromptError> {
        self.unmarked(self.chat()?.followed(messages, followed_by)?)
    }

    fn unmarked(&self, text: String) -> Result<RenderedPrompt, PromptError> {
        validate_size(text.len())?;
        let token_ids = self.control.encode(&self.tokenizer, &text)?;
        Ok(RenderedPrompt { text: text.replace(MARK, ""), token_ids })
    }

    /// Renders many prompts on all threads of the current pool, in their order, each with its suffix.
    pub fn render_all(&self, prompts: &[(&Prompt, Option<&str>)]) -> Vec<Result<RenderedPrompt, PromptError>> {
        prompts.par_iter().map(|(prompt, suffix)| self.render_with(prompt, *suffix)).collect()
    }
}

/// Bytes of all texts of a prompt.
fn length(prompt: &Prompt) -> usize {
    let bytes = |texts: Vec<&str>| texts.iter().map(|text| text.len()).sum::<usize>();
    let (messages, text) = prompt.parts();
    text.map_or(0, str::len).max(messages.iter().map(|message| bytes(message.texts())).sum())
}

/// Whether a text of a prompt has the mark of control text that is not to be read as such.
fn has_mark(prompt: &Prompt) -> bool {
    let (messages, text) = prompt.parts();
    let names = messages.iter().flat_map(|message| message.fields().keys()).map(String::as_str);
    text.into_iter().chain(messages.iter().flat_map(Message::texts)).chain(names).any(|text| text.contains(MARK))
}
