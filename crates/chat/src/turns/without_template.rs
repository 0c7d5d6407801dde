//! How a model is told of tools in plain messages, where the chat template has no place for them.

use serde_json::Value;

use super::ToolsIn;
use crate::prompt::Message;

/// The result of a tool within a message of the user.
pub(super) fn tool_response(content: &str) -> String {
    format!("<tool_response>\n{content}\n</tool_response>")
}

/// What is added to the system message: the environment's own words and, outside of a template, the tools.
pub(crate) fn instructions(system_prompt: &str, tools: &[Value], tools_in: ToolsIn) -> Option<String> {
    let mut parts = Vec::new();
    if !system_prompt.is_empty() {
        parts.push(system_prompt.to_owned());
    }
    if tools_in == ToolsIn::SystemPrompt && !tools.is_empty() {
        let tools: Vec<_> = tools.iter().map(Value::to_string).collect();
        parts.push(format!(
            "# Tools\n\nYou can call these functions, one JSON object each:\n{}\n\n\
             A call is a JSON object with the name and the arguments, between two tags:\n<tool_call>\n\
             {{\"name\": \"NAME\", \"arguments\": {{}}}}\n</tool_call>\nThe result follows in the next message.",
            tools.join("\n")
        ));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// A conversation for a template without tools: calls stand in the text, and results of tools are messages of the user.
pub(super) fn in_texts(messages: &[Message]) -> Vec<Message> {
    let mut texts: Vec<Message> = Vec::new();
    let mut after_tool = false;
    for message in messages {
        let content = message.fields().get("content").and_then(Value::as_str).unwrap_or_default();
        let is_tool = message.role() == "tool";
        if is_tool {
            let response = tool_response(content);
            match texts.last_mut().filter(|_| after_tool) {
                // One message, since many templates want the roles to alternate.
                Some(last) => last.append(&format!("\n{response}")),
                None => texts.push(Message::text("user", &response)),
            }
        } else if let Some(Value::Array(calls)) = message.fields().get("tool_calls") {
            let calls = calls.iter().map(|call| format!("<tool_call>\n{}\n</tool_call>", call["function"]));
            let parts = Some(content.to_owned()).filter(|text| !text.is_empty()).into_iter().chain(calls);
            texts.push(Message::text("assistant", &parts.collect::<Vec<_>>().join("\n")));
        } else {
            texts.push(message.clone());
        }
        after_tool = is_tool;
    }
    texts
}
