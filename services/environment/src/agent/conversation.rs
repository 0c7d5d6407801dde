//! Whether a request goes on with the conversation before it, or is another one.

use evenkeel_proto::v1::{EnvironmentMessage, MessageRole};
use serde_json::{Map, Value};

use super::answer::ChatAnswer;
use super::request::ChatRequest;

/// What was asked last, and how it was answered.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) asked: ChatRequest,
    answer: Map<String, Value>,
}

impl Conversation {
    pub(super) fn new(asked: ChatRequest, answer: &ChatAnswer) -> Self {
        Self { asked, answer: answer.message() }
    }

    /// The messages with which a request goes on: it repeats what was asked and the answer, has the same tools, and
    /// adds messages of the user or of tools. `None`: it is another conversation.
    pub(super) fn tail(&self, next: &ChatRequest) -> Option<Vec<EnvironmentMessage>> {
        let before = &self.asked.messages;
        let answered = self.asked.messages.len();
        let repeats = next.tools == self.asked.tools && next.messages.starts_with(before);
        let (answer, tail) = next.messages.get(answered..).filter(|_| repeats)?.split_first()?;
        let mut answer = answer.clone();
        answer.remove("reasoning_content");
        if answer != self.answer || tail.is_empty() {
            return None;
        }
        tail.iter().map(message).collect()
    }
}

/// A message as the protocol has it; `None` for one that has no place there.
fn message(message: &Map<String, Value>) -> Option<EnvironmentMessage> {
    let text = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let role = match text("role").as_str() {
        "user" if !message.contains_key("name") => MessageRole::User,
        "tool" => MessageRole::Tool,
        _ => return None,
    };
    Some(EnvironmentMessage {
        role: role.into(),
        content: text("content"),
        tool_call_id: text("tool_call_id"),
        name: text("name"),
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{AssistantMessage, FinishReason, ToolCall};
    use serde_json::json;

    use super::*;
    use crate::action::Action;

    fn request(messages: &Value, tools: &Value) -> ChatRequest {
        ChatRequest::read(json!({"messages": messages, "tools": tools}).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_request_goes_on_where_it_repeats_what_was_said_and_adds_to_it() {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let asked = json!({"role": "user", "content": "a"});
        let first = request(&json!([asked]), &tools);
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{\"x\": 1}".into(), error: String::new() };
        let said = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        let action = Action {
            message: said,
            finish_reason: FinishReason::Stop,
            turn: 1,
            tokens: (0, 0),
            token_ids: Default::default(),
        };
        let conversation = Conversation::new(first.clone(), &ChatAnswer::to(&first, action));

        // As clients repeat it: with nulls, another spelling of the arguments, and reasoning or none.
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
        let answer = json!({"role": "assistant", "content": null, "reasoning_content": "Hm", "refusal": null,
            "tool_calls": [call]});
        let result = json!({"role": "tool", "tool_call_id": "c", "content": "2"});
        let tail = conversation.tail(&request(&json!([asked, answer, result]), &tools)).unwrap();
        assert_eq!((tail.len(), tail[0].role(), tail[0].content.as_str()), (1, MessageRole::Tool, "2"));

        let other = json!({"role": "assistant", "content": "rewritten"});
        let told = json!({"role": "system", "content": "b"});
        for (messages, tools) in [
            (json!([asked]), &tools),
            (json!([asked, answer]), &tools),
            (json!([asked, other, result]), &tools),
            (json!([told, asked, answer, result]), &tools),
            (json!([result, answer, result]), &tools),
            (json!([asked, answer, told]), &tools),
            (json!([asked, answer, result]), &json!([])),
            (json!([asked, answer, {"role": "user", "content": "b", "name": "Ann"}]), &tools),
        ] {
            assert_eq!(conversation.tail(&request(&messages, tools)), None, "{messages}");
        }
    }
}
