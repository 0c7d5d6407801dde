//! What not every template reads: messages of unusual roles, and calls of tools. None of it may vanish.

use std::ops::Range;

use serde_json::Value;

use crate::conversation::conversation;
use crate::prompt::Message;
use crate::template::{ChatTemplate, RenderError, TemplateArguments};

const DEVELOPER: &str = "developer";
const TOOL_CALLS: &str = "tool_calls";
/// A content that no template has of itself.
const PROBE: &str = "zqx-developer-zqx";
/// Messages of a row whose calls are tried.
const MAX_TRIED_CALLS: usize = 8;

/// Has messages of a `developer` as those of the system where the template does not read that role.
pub(crate) fn rename_developer(messages: &mut [Message], template: &ChatTemplate, arguments: &TemplateArguments) {
    if !messages.iter().any(|message| message.role() == DEVELOPER) {
        return;
    }
    let tried = [Message::text(DEVELOPER, PROBE), Message::text("user", "?")];
    let is_read = rendered(&tried, template, arguments).is_ok_and(|text| text.contains(PROBE));
    for message in messages.iter_mut().filter(|message| !is_read && message.role() == DEVELOPER) {
        let mut fields = message.fields().clone();
        fields.insert("role".to_owned(), "system".into());
        *message = Message::of(Value::Object(fields));
    }
}

/// Whether a role is one that every template reads.
pub(crate) fn is_usual(role: &str) -> bool {
    matches!(role, "system" | "user" | "assistant" | "tool")
}

/// Refuses a text that lacks the content of a message whose role is `checked`.
///
/// # Errors
/// The message and its role.
pub(crate) fn require_shown(
    messages: &[Message],
    text: &str,
    checked: impl Fn(&str) -> bool,
) -> Result<(), RenderError> {
    let is_left_out = |message: &Message| checked(message.role()) && !is_shown(message, text);
    match messages.iter().position(is_left_out) {
        None => Ok(()),
        Some(index) => {
            let role = messages[index].role();
            let what = format!("it leaves out messages[{index}], of the role `{role}`");
            Err(RenderError(what))
        }
    }
}

/// Refuses a conversation where a template does not write the calls of tools of a row, as those of models without tools
/// do not. The first messages with calls are tried, not all of a long row: each takes another rendering.
///
/// # Errors
/// The first message of the `row` whose calls change nothing in the text, by its place in the row.
pub(crate) fn require_calls_shown(
    messages: &[Message],
    row: Range<usize>,
    text: &str,
    template: &ChatTemplate,
    arguments: &TemplateArguments,
) -> Result<(), RenderError> {
    let has_calls = |message: &Message| {
        let calls = message.fields().get(TOOL_CALLS).and_then(Value::as_array);
        calls.is_some_and(|calls| !calls.is_empty())
    };
    let first = row.start;
    for index in row.filter(|index| has_calls(&messages[*index])).take(MAX_TRIED_CALLS) {
        let mut without = messages.to_vec();
        let mut fields = without[index].fields().clone();
        fields.remove(TOOL_CALLS);
        without[index] = Message::of(Value::Object(fields));
        if rendered(&without, template, arguments).is_ok_and(|other| other == text) {
            return Err(RenderError(format!("it leaves out the {TOOL_CALLS} of messages[{}]", index - first)));
        }
    }
    Ok(())
}

fn rendered(
    messages: &[Message],
    template: &ChatTemplate,
    arguments: &TemplateArguments,
) -> Result<String, RenderError> {
    template.render(&conversation(messages), arguments)
}

/// Whether a text has the content of a message, as it is or as JSON.
fn is_shown(message: &Message, text: &str) -> bool {
    let content = message.fields().get("content").and_then(Value::as_str).unwrap_or_default().trim();
    let json = Value::from(content).to_string();
    text.contains(content) || text.contains(json.trim_matches('"'))
}
