//! Roles that not every template reads: a message of such a role must not vanish.

use serde_json::Value;

use crate::prompt::Message;
use crate::template::{ChatTemplate, RenderError, TemplateArguments};
use crate::value::TemplateValue;

const DEVELOPER: &str = "developer";
/// A content that no template has of itself.
const PROBE: &str = "zqx-developer-zqx";

/// Has messages of a `developer` as those of the system where the template does not read that role.
pub(crate) fn rename_developer(messages: &mut [Message], template: &ChatTemplate, arguments: &TemplateArguments) {
    if !messages.iter().any(|message| message.role() == DEVELOPER) {
        return;
    }
    let tried = [Message::text(DEVELOPER, PROBE), Message::text("user", "?")];
    let tried = tried.iter().map(|message| TemplateValue::from(message.fields())).collect();
    let is_read = template.render(&tried, arguments).is_ok_and(|text| text.contains(PROBE));
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

/// Whether a text has the content of a message, as it is or as JSON.
fn is_shown(message: &Message, text: &str) -> bool {
    let content = message.fields().get("content").and_then(Value::as_str).unwrap_or_default().trim();
    let json = Value::from(content).to_string();
    text.contains(content) || text.contains(json.trim_matches('"'))
}
