//! Prompts as a model sees them: text and token ids.

use std::sync::Arc;

use evenkeel_errors::FieldError;
use evenkeel_model_folder::{ControlText, MARK, TextError, Tokenizer};
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::prompt::{Message, Prompt};
use crate::roles::{is_usual, rename_developer, require_calls_shown, require_shown};
use crate::template::{ChatTemplate, RenderError, TemplateArguments};
use crate::value::TemplateValue;

/// Tags that a model reads and writes, whether or not its template has them.
const TAGS: [&str; 6] = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];

/// Longest text of a prompt, in bytes: several times the longest context of a model.
const MAX_TEXT: usize = 16 << 20;

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
    template: Option<Arc<ChatTemplate>>,
    tokenizer: Arc<Tokenizer>,
    control: Arc<ControlText>,
    system_prompt: Option<Message>,
    /// What is appended to the system message, whether it is the settings' or the prompt's own.
    instructions: Option<String>,
    suffix: String,
    arguments: TemplateArguments,
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
        let system_prompt = system_prompt.map(|text| Message::text("system", &text));
        let control = ControlText::of(&tokenizer, |text| {
            TAGS.contains(&text) || template.as_ref().is_some_and(|template| template.mentions(text))
        });
        Ok(Self {
            template,
            tokenizer,
            control: Arc::new(control),
            system_prompt,
            instructions: None,
            suffix,
            arguments,
            raw,
            refuses_control_text,
            is_told: false,
        })
    }

    /// The renderer with further instructions in the system message, and with tools for the template, if there are any.
    pub(crate) fn with_tools(&self, instructions: Option<String>, tools: &[Value]) -> Result<Self, RenderError> {
        let is_told = instructions.is_some() || !tools.is_empty();
        let mut with = Self { instructions, is_told, ..self.clone() };
        if !tools.is_empty() {
            with.arguments = with.arguments.with("tools", &TemplateValue::from(&Value::from(tools.to_vec())))?;
        }
        Ok(with)
    }

    /// The template, where conversations are rendered by one.
    pub(crate) fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_deref().filter(|_| !self.raw)
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(crate) fn control(&self) -> &ControlText {
        &self.control
    }

    /// The text of a conversation as it stands, with or without what the template puts before an answer.
    pub(crate) fn turns(&self, messages: &[Message], generation_prompt: bool) -> Result<String, PromptError> {
        let Some(template) = self.template() else {
            return Err(PromptError::NoTemplate("the tokenizer has no chat template"));
        };
        let mut messages = messages.to_vec();
        self.instruct(&mut messages);
        let wanted = TemplateValue::from(&Value::from(generation_prompt));
        let arguments = self.arguments.clone().with("add_generation_prompt", &wanted)?;
        Ok(template.render(&conversation(&messages), &arguments)?)
    }

    /// A sentence for each argument of the settings that the template never mentions, so it changes no prompt.
    pub fn unread_arguments(&self) -> Vec<String> {
        let Some(template) = self.template.as_ref().filter(|_| !self.raw) else { return Vec::new() };
        let unread = self.arguments.names().filter(|name| !template.mentions(name));
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
        let bytes = length(prompt);
        if bytes > MAX_TEXT {
            return Err(PromptError::TooLong { bytes });
        }
        if self.refuses_control_text
            && let Some(text) = self.control_text(prompt)?
        {
            return Err(PromptError::ControlText { text });
        }
        let text = match (prompt, &self.template) {
            (Prompt::Text(text), Some(template)) if !self.raw => {
                self.row(template, vec![Message::text("user", text)], suffix, followed_by)?
            }
            (Prompt::Either { messages, .. }, Some(template)) if !self.raw => {
                self.row(template, messages.clone(), suffix, followed_by)?
            }
            (Prompt::Text(text) | Prompt::Either { text, .. }, _) => format!("{text}{suffix}"),
            (Prompt::Messages(_), _) if self.raw => return Err(PromptError::NoTemplate("prompts go in raw")),
            (Prompt::Messages(messages), Some(template)) => {
                self.row(template, messages.clone(), suffix, followed_by)?
            }
            (Prompt::Messages(_), None) => {
                return Err(PromptError::NoTemplate("the tokenizer has no chat template"));
            }
        };
        // Marks are in what follows, and in instructions and tools.
        if followed_by.is_empty() && !self.is_told {
            validate_size(&text)?;
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
        let Some(template) = self.template() else {
            return Err(PromptError::NoTemplate("the tokenizer has no chat template"));
        };
        let messages = self.completed(template, messages, "", followed_by);
        self.unmarked(self.conversation(template, &messages)?)
    }

    fn unmarked(&self, text: String) -> Result<RenderedPrompt, PromptError> {
        validate_size(&text)?;
        let token_ids = self.control.encode(&self.tokenizer, &text)?;
        Ok(RenderedPrompt { text: text.replace(MARK, ""), token_ids })
    }

    /// Renders many prompts on all threads of the current pool, in their order, each with its suffix.
    pub fn render_all(&self, prompts: &[(&Prompt, Option<&str>)]) -> Vec<Result<RenderedPrompt, PromptError>> {
        prompts.par_iter().map(|(prompt, suffix)| self.render_with(prompt, *suffix)).collect()
    }

    /// The conversation of a row, of which no call of a tool may vanish.
    fn row(
        &self,
        template: &ChatTemplate,
        messages: Vec<Message>,
        suffix: &str,
        followed_by: &[Message],
    ) -> Result<String, PromptError> {
        let count = messages.len();
        let messages = self.completed(template, messages, suffix, followed_by);
        let text = self.conversation(template, &messages)?;
        let end = messages.len() - followed_by.len();
        require_calls_shown(&messages, end - count..end, &text, template, &self.arguments_for(&messages)?)?;
        Ok(text)
    }

    /// Messages with everything that goes with them to the template.
    fn completed(
        &self,
        template: &ChatTemplate,
        mut messages: Vec<Message>,
        suffix: &str,
        followed_by: &[Message],
    ) -> Vec<Message> {
        rename_developer(&mut messages, template, &self.arguments);
        self.instruct(&mut messages);
        if !suffix.is_empty()
            && let Some(message) = messages.iter_mut().rfind(|message| message.role() == "user")
        {
            message.append(suffix);
        }
        messages.extend_from_slice(followed_by);
        messages
    }

    fn conversation(&self, template: &ChatTemplate, messages: &[Message]) -> Result<String, PromptError> {
        let text = template.render(&conversation(messages), &self.arguments_for(messages)?)?;
        require_shown(messages, &text, |role| !is_usual(role))?;
        if messages.iter().any(|message| prints_parts(message, &text)) { Err(PromptError::Parts) } else { Ok(text) }
    }

    /// Adds the system message, and to it the instructions.
    fn instruct(&self, messages: &mut Vec<Message>) {
        let instructs = |message: &Message| matches!(message.role(), "system" | "developer");
        if let Some(system) = &self.system_prompt
            && !messages.iter().any(instructs)
        {
            messages.insert(0, system.clone());
        }
        let Some(instructions) = &self.instructions else { return };
        match messages.iter_mut().find(|message| instructs(message)) {
            Some(system) => system.append(&format!("\n\n{instructions}")),
            None => messages.insert(0, Message::text("system", instructions)),
        }
    }

    fn arguments_for(&self, messages: &[Message]) -> Result<TemplateArguments, RenderError> {
        let mut arguments = self.arguments.clone();
        if arguments.sets("add_generation_prompt") || arguments.sets("continue_final_message") {
            return Ok(arguments);
        }
        let last = messages.last();
        let is_answer = last.is_some_and(|message| message.role() == "assistant");
        let has_content =
            last.is_some_and(|message| message.fields().get("content").is_some_and(|text| !text.is_null()));
        if !is_answer {
            arguments = arguments.with("add_generation_prompt", &TemplateValue::from(&Value::from(true)))?;
        } else if has_content {
            arguments = arguments.with("continue_final_message", &TemplateValue::from(&Value::from(true)))?;
        }
        Ok(arguments)
    }
}

fn validate_size(text: &str) -> Result<(), PromptError> {
    if text.len() > MAX_TEXT { Err(PromptError::TooLong { bytes: text.len() }) } else { Ok(()) }
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

/// Whether a text shows the parts of a message as Python prints a list.
fn prints_parts(message: &Message, text: &str) -> bool {
    message.fields().get("content").filter(|content| content.is_array()).is_some_and(|content| {
        let printed = crate::python::str_of(TemplateValue::from(content).inner());
        printed.is_ok_and(|printed| text.contains(&printed))
    })
}

/// The messages as a template sees them.
pub(crate) fn conversation(messages: &[Message]) -> TemplateValue {
    messages.iter().map(|message| TemplateValue::from(message.fields())).collect()
}
