//! A chat template, and what a run adds to every conversation before the template renders it.

use std::sync::Arc;

use serde_json::Value;

use crate::conversation::conversation;
use crate::prompt::Message;
use crate::prompt_error::PromptError;
use crate::roles::{is_usual, rename_developer, require_calls_shown, require_shown};
use crate::template::{ChatTemplate, RenderError, TemplateArguments};
use crate::value::TemplateValue;

/// Renders conversations. Clones share the template.
#[derive(Debug, Clone)]
pub(crate) struct Chat {
    template: Arc<ChatTemplate>,
    arguments: TemplateArguments,
    /// System message of conversations that have none of their own.
    system_prompt: Option<Message>,
    /// What is appended to the system message, whether it is the settings' or the prompt's own.
    instructions: Option<String>,
}

impl Chat {
    pub(crate) fn new(template: Arc<ChatTemplate>, arguments: TemplateArguments, system_prompt: Option<&str>) -> Self {
        let system_prompt = system_prompt.map(|text| Message::text("system", text));
        Self { template, arguments, system_prompt, instructions: None }
    }

    /// A copy with further instructions in the system message, and with tools for the template, if there are any.
    pub(crate) fn with_tools(&self, instructions: Option<String>, tools: &[Value]) -> Result<Self, RenderError> {
        let mut with = Self { instructions, ..self.clone() };
        if !tools.is_empty() {
            with.arguments = with.arguments.with("tools", &TemplateValue::from(&Value::from(tools.to_vec())))?;
        }
        Ok(with)
    }

    pub(crate) fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// Arguments that the template never mentions.
    pub(crate) fn unread_arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.names().filter(|name| !self.template.mentions(name))
    }

    /// The text of a conversation as it stands, with or without what the template puts before an answer.
    pub(crate) fn turns(&self, messages: &[Message], generation_prompt: bool) -> Result<String, PromptError> {
        let mut messages = messages.to_vec();
        self.instruct(&mut messages);
        let wanted = TemplateValue::from(&Value::from(generation_prompt));
        let arguments = self.arguments.clone().with("add_generation_prompt", &wanted)?;
        Ok(self.template.render(&conversation(&messages), &arguments)?)
    }

    /// The conversation of a row, of which no call of a tool may vanish, and the messages that follow it.
    pub(crate) fn row(
        &self,
        messages: Vec<Message>,
        suffix: &str,
        followed_by: &[Message],
    ) -> Result<String, PromptError> {
        let count = messages.len();
        let messages = self.completed(messages, suffix, followed_by);
        let arguments = self.arguments_for(&messages)?;
        let text = self.text(&messages, &arguments)?;
        let end = messages.len() - followed_by.len();
        require_calls_shown(&messages, end - count..end, &text, &self.template, &arguments)?;
        Ok(text)
    }

    /// The conversation of another author, and the messages that follow it.
    pub(crate) fn followed(&self, messages: Vec<Message>, followed_by: &[Message]) -> Result<String, PromptError> {
        let messages = self.completed(messages, "", followed_by);
        self.text(&messages, &self.arguments_for(&messages)?)
    }

    /// Messages with everything that goes with them to the template.
    fn completed(&self, mut messages: Vec<Message>, suffix: &str, followed_by: &[Message]) -> Vec<Message> {
        rename_developer(&mut messages, &self.template, &self.arguments);
        self.instruct(&mut messages);
        if !suffix.is_empty()
            && let Some(message) = messages.iter_mut().rfind(|message| message.role() == "user")
        {
            message.append(suffix);
        }
        messages.extend_from_slice(followed_by);
        messages
    }

    fn text(&self, messages: &[Message], arguments: &TemplateArguments) -> Result<String, PromptError> {
        let text = self.template.render(&conversation(messages), arguments)?;
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

    /// The arguments for a conversation: one that ends with the assistant is continued, any other is followed by what
    /// the template puts before an answer, unless the settings say otherwise.
    fn arguments_for(&self, messages: &[Message]) -> Result<TemplateArguments, RenderError> {
        let arguments = self.arguments.clone();
        if arguments.sets("add_generation_prompt") || arguments.sets("continue_final_message") {
            return Ok(arguments);
        }
        let last = messages.last();
        let is_answer = last.is_some_and(|message| message.role() == "assistant");
        let has_content =
            last.is_some_and(|message| message.fields().get("content").is_some_and(|text| !text.is_null()));
        let yes = TemplateValue::from(&Value::from(true));
        match (is_answer, has_content) {
            (false, _) => arguments.with("add_generation_prompt", &yes),
            (true, true) => arguments.with("continue_final_message", &yes),
            (true, false) => Ok(arguments),
        }
    }
}

/// Whether a text shows the parts of a message as Python prints a list.
fn prints_parts(message: &Message, text: &str) -> bool {
    message.fields().get("content").filter(|content| content.is_array()).is_some_and(|content| {
        let printed = crate::python::str_of(TemplateValue::from(content).inner());
        printed.is_ok_and(|printed| text.contains(&printed))
    })
}
