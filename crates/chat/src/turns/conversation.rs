//! The prompts of conversations that an agent has made, of which the template must leave nothing out.

use serde_json::Value;

use super::without_template::{in_texts, instructions};
use super::{PROBE, PastTurn, ToolsIn, TurnRenderer, no_tools};
use crate::prompt::{Message, Prompt};
use crate::renderer::PromptError;
use crate::template::RenderError;

impl TurnRenderer {
    /// The prompt of a conversation that an agent has made, with its tools, and of the turns since.
    ///
    /// # Errors
    /// Messages or tools that the template does not take.
    pub fn conversation(
        &self,
        messages: &[Message],
        tools: &[Value],
        turns: &[PastTurn<'_>],
    ) -> Result<Vec<u32>, PromptError> {
        let in_template = self.tools_in == ToolsIn::Template;
        if in_template && !tools.is_empty() && !self.mentions("tools") {
            let why = no_tools("the chat template does not read `tools`").within("turns");
            return Err(PromptError::Template(RenderError(why.to_string())));
        }
        let listed = if in_template { tools } else { &[] };
        let with = self.prompts.with_tools(instructions("", tools, self.tools_in), listed)?;
        let messages = if in_template { messages.to_vec() } else { in_texts(messages) };
        let messages = self.with_known_roles(messages);
        let asked = Prompt::Messages(messages.clone());
        let rendered = with.render_followed(&asked, Some(""), &self.past_turns(turns))?;
        match messages.iter().position(|message| !is_shown(message, &rendered.text)) {
            None => Ok(rendered.token_ids),
            Some(index) => {
                let role = messages[index].role();
                let what = format!("it leaves out messages[{index}], of the role `{role}`");
                Err(PromptError::Template(RenderError(what)))
            }
        }
    }

    /// A template that does not read the role `developer` has its messages as those of the system.
    fn with_known_roles(&self, mut messages: Vec<Message>) -> Vec<Message> {
        if messages.iter().any(|message| message.role() == "developer") {
            let tried = [Message::text("developer", PROBE), Message::text("user", "?")];
            let is_read = self.prompts.turns(&tried, true).is_ok_and(|text| text.contains(PROBE));
            for message in messages.iter_mut().filter(|message| !is_read && message.role() == "developer") {
                let mut fields = message.fields().clone();
                fields.insert("role".to_owned(), "system".into());
                *message = Message::of(Value::Object(fields));
            }
        }
        messages
    }
}

/// Whether a text has the content of a message, as it is or as JSON. Answers of the model are for the template to say.
fn is_shown(message: &Message, text: &str) -> bool {
    let content = message.fields().get("content").and_then(Value::as_str).unwrap_or_default().trim();
    let json = Value::from(content).to_string();
    message.role() == "assistant" || text.contains(content) || text.contains(json.trim_matches('"'))
}
