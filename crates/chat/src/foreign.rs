//! Texts that neither the user nor the model has written: what environments, tools and agents say. Control text in them
//! is text.

use evenkeel_errors::FieldError;
use evenkeel_model_folder::{ControlTokens, MARK};
use serde_json::{Map, Value};

use crate::prompt::{Message, Prompt};
use crate::prompt_error::PromptError;
use crate::renderer::PromptRenderer;
use crate::template::RenderError;
use crate::turns::{ToolsIn, instructions};

/// Characters of a text that an error shows.
const SHOWN: usize = 100;

/// Which control tokens a message of a role may not spell: what the model has said keeps the tags that models write.
fn of_role(role: &str) -> ControlTokens {
    if role == "assistant" { ControlTokens::Special } else { ControlTokens::All }
}

impl PromptRenderer {
    /// A text with a mark in all of its control text, which keeps it from being read as such.
    ///
    /// # Errors
    /// A text that has the mark itself.
    pub(crate) fn foreign(&self, text: &str, which: ControlTokens) -> Result<String, PromptError> {
        if text.contains(MARK) {
            let allowed = "a text without this character, which Unicode keeps for use within programs";
            let error = FieldError::new("a text", format_args!("with {MARK:?}"), allowed);
            return Err(PromptError::Template(RenderError(error.to_string())));
        }
        let marked = self.control().marked(self.tokenizer(), text, which)?;
        Ok(marked.unwrap_or_else(|| text.to_owned()))
    }

    /// Marks control text as [`foreign`](Self::foreign) does, in all texts within a value.
    pub(crate) fn foreign_value(&self, value: &Value, which: ControlTokens) -> Result<Value, PromptError> {
        Ok(match value {
            Value::String(text) => Value::String(self.foreign(text, which)?),
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.foreign_value(value, which)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => Value::Object(self.foreign_fields(fields, which)?),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    /// The beginning of a text of a prompt that spells control tokens of the model, where one does. In answers tags
    /// such as `</think>` are what models write.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn control_text(&self, prompt: &Prompt) -> Result<Option<String>, PromptError> {
        let (messages, text) = prompt.parts();
        let of_messages = messages.iter().flat_map(|message| {
            let which = of_role(message.role());
            message.texts().into_iter().map(move |text| (text, which))
        });
        let texts = text.into_iter().map(|text| (text, ControlTokens::All)).chain(of_messages);
        for (text, which) in texts {
            if self.control().is_in(self.tokenizer(), text, which)? {
                return Ok(Some(text.chars().take(SHOWN).collect()));
            }
        }
        Ok(None)
    }

    /// The renderer with what an environment tells the model beforehand, and its tools.
    ///
    /// # Errors
    /// Texts as with [`foreign`](Self::foreign); tools that the template does not take.
    pub(crate) fn told(&self, system_prompt: &str, tools: &[Value], tools_in: ToolsIn) -> Result<Self, PromptError> {
        let system_prompt = self.foreign(system_prompt, ControlTokens::All)?;
        let tools: Vec<Value> =
            tools.iter().map(|tool| self.foreign_value(tool, ControlTokens::All)).collect::<Result<_, _>>()?;
        let listed = if tools_in == ToolsIn::Template { &tools[..] } else { &[] };
        Ok(self.with_tools(instructions(&system_prompt, &tools, tools_in), listed)?)
    }

    /// Marks control text as [`foreign`](Self::foreign) does, in the messages of an agent.
    pub(crate) fn foreign_messages(&self, messages: &[Message]) -> Result<Vec<Message>, PromptError> {
        let foreign = |message: &Message| {
            Ok(Message::of(Value::Object(self.foreign_fields(message.fields(), of_role(message.role()))?)))
        };
        messages.iter().map(foreign).collect()
    }

    fn foreign_fields(
        &self,
        fields: &Map<String, Value>,
        which: ControlTokens,
    ) -> Result<Map<String, Value>, PromptError> {
        let foreign =
            |(name, value): (&String, &Value)| Ok((self.foreign(name, which)?, self.foreign_value(value, which)?));
        fields.iter().map(foreign).collect()
    }
}
