//! What an agent asks of the model: a conversation of its own, with tools of its own.

use evenkeel_chat::Message;
use evenkeel_environment::tool_calls::Turn;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::EnvironmentMessage;
use serde_json::Value;

/// A conversation of an agent, and the turns since.
#[derive(Debug)]
pub(crate) struct AgentConversation {
    messages: Vec<Message>,
    tools: Vec<Value>,
    turns: Vec<(Turn, Vec<EnvironmentMessage>)>,
}

impl AgentConversation {
    /// A conversation as an environment worker sends it.
    ///
    /// # Errors
    /// What is no object with messages, by the field.
    pub(crate) fn read(json: &[u8]) -> Result<Self, FieldError> {
        let refused = |found: String| FieldError::new("conversation", found, "a JSON object with `messages`");
        let mut fields = match serde_json::from_slice(json) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(refused("no object".to_owned())),
            Err(error) => return Err(refused(error.to_string())),
        };
        let Some(Value::Array(messages)) = fields.remove("messages") else {
            return Err(refused("without messages".to_owned()));
        };
        let message = |(index, value)| Message::new(&format!("messages[{index}]"), value);
        let messages = messages.into_iter().enumerate().map(message).collect::<Result<_, _>>()?;
        let tools = match fields.remove("tools") {
            Some(Value::Array(tools)) => tools,
            _ => Vec::new(),
        };
        Ok(Self { messages, tools, turns: Vec::new() })
    }

    /// A turn is over, and the agent goes on with these messages.
    pub(crate) fn push(&mut self, turn: Turn, messages: Vec<EnvironmentMessage>) {
        self.turns.push((turn, messages));
    }

    /// The messages before these turns.
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The tools that the model may call, as chat templates take them.
    pub(super) fn tools(&self) -> &[Value] {
        &self.tools
    }

    /// The turns since, each with what the agent went on with.
    pub(super) fn turns(&self) -> impl Iterator<Item = (&Turn, &[EnvironmentMessage])> {
        self.turns.iter().map(|(turn, messages)| (turn, messages.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_conversation_is_refused_by_the_field() {
        let read = |json: &str| AgentConversation::read(json.as_bytes());
        let whole = read(r#"{"messages": [{"role": "user", "content": "a"}], "tools": [{}]}"#).unwrap();
        assert_eq!((whole.messages().len(), whole.tools().len(), whole.turns().count()), (1, 1, 0));
        for (json, words) in [
            ("[]", "conversation is no object, allowed: a JSON object with `messages`"),
            ("{}", "conversation is without messages"),
            ("{", "conversation is EOF"),
            (r#"{"messages": [{"role": "x", "content": "a"}]}"#, "messages[0].role is \"x\""),
            (r#"{"messages": [{"role": "user"}]}"#, "messages[0].content is absent"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.starts_with(words), "{json}: {error}");
        }
    }
}
