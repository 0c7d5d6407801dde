//! `continue_final_message`: a conversation whose last message stays open.

use minijinja::value::{Value, ValueKind};

use super::{REASONING, RenderError};
use crate::python::{Dict, List, strip, strip_end};

/// What transformers appends to the last message, to find the place where the text ends.
const TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The text of the last message, which now ends in the tag.
pub(super) struct Continuation {
    text: String,
}

impl Continuation {
    /// Appends the tag to `field` of the last message. `template` must name the field.
    pub(super) fn mark(messages: &mut [Dict], field: &str, template: &str) -> Result<Self, RenderError> {
        let refused = |reason: String| RenderError(format!("continue_final_message is set {reason}"));
        let Some(last) = messages.last_mut() else { return Err(refused("but the conversation is empty!".into())) };
        let Some(value) = last.get(field).cloned() else {
            return Err(refused(format!("but the final message has no \"{field}\" to continue!")));
        };
        // Reasoning has several names: a template may read any of them.
        let is_reasoning = REASONING.contains(&field);
        let same = |name: &&str| last.get(name).is_some_and(|other| *other == value);
        let fields: Vec<&str> = if is_reasoning { REASONING.into_iter().filter(same).collect() } else { vec![field] };
        if !fields.iter().any(|field| template.contains(field)) {
            return Err(refused(format!("to \"{field}\" but this is not an accepted field in the chat_template")));
        }
        let no_text = || refused("but we could not find any text to continue in the final message!".into());
        let (text, marked) = match value.kind() {
            ValueKind::String => {
                let text = value.as_str().unwrap_or_default().to_owned();
                let marked = Value::from(format!("{text}{TAG}"));
                (text, marked)
            }
            ValueKind::Seq => mark_part(&value).ok_or_else(no_text)?,
            _ => return Err(no_text()),
        };
        for field in fields {
            last.0.insert(field.to_owned(), marked.clone());
        }
        Ok(Self { text })
    }

    /// The rendered text up to the end of the message.
    pub(super) fn cut(self, mut rendered: String) -> Result<String, RenderError> {
        let text = strip(&self.text);
        let tag = strip(TAG);
        let at = rendered.rfind(tag).filter(|_| rendered.contains(text));
        let Some(at) = at else {
            return Err(RenderError(format!(
                "continue_final_message is set but the final message does not appear in the chat after applying the \
                 chat template! This can happen if the chat template deletes portions of the final message. Please \
                 verify the chat template and final message in your chat to ensure they are compatible.Final message \
                 to continue: {text}\nRendered chat:\n{rendered}"
            )));
        };
        let is_whole = rendered[at..].starts_with(TAG);
        rendered.truncate(at);
        if !is_whole {
            // The template has trimmed the message.
            rendered.truncate(strip_end(&rendered).len());
        }
        Ok(rendered)
    }
}

/// Appends the tag to the last part that has a text; gives that text and all parts.
fn mark_part(parts: &Value) -> Option<(String, Value)> {
    let mut parts: Vec<Value> = parts.try_iter().ok()?.collect();
    let (index, dict) = parts.iter().enumerate().rev().find_map(|(index, part)| {
        let dict = Dict::of(part)?;
        dict.get("text").is_some().then_some((index, dict))
    })?;
    let text = dict.get("text")?.as_str()?.to_owned();
    let mut marked = Dict::clone(&dict);
    marked.0.insert("text".to_owned(), Value::from(format!("{text}{TAG}")));
    parts[index] = Value::from_object(marked);
    Some((text, Value::from_object(List(parts))))
}
