//! The prompts of conversations that an agent has made, of which the template must leave nothing out.

use serde_json::Value;

use super::without_template::in_texts;
use super::{PastTurn, ToolsIn, TurnRenderer, no_tools};
use crate::prompt::Message;
use crate::prompt_error::PromptError;
use crate::roles::require_shown;
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
        let with = self.prompts.told("", tools, self.tools_in)?;
        let texts = |messages: &[Message]| if in_template { messages.to_vec() } else { in_texts(messages) };
        let asked = texts(&self.prompts.foreign_messages(messages)?);
        let rendered = with.render_marked(asked, &self.past_turns(turns)?)?;
        let messages = texts(messages);
        // Answers of the model are for the template to say.
        require_shown(&messages, &rendered.text, |role| role != "assistant")?;
        Ok(rendered.token_ids)
    }
}
