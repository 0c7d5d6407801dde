//! The words of a prompt, for lints and for finding the same question twice.

use evenkeel_chat::{Message, Prompt};
use serde_json::Value;

/// What the user says in a prompt.
pub(crate) fn question(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Messages(messages) | Prompt::Either { messages, .. } => {
            let users = messages.iter().filter(|message| message.role() == "user").map(content);
            users.collect::<Vec<_>>().join("\n")
        }
    }
}

/// The question of a prompt without differences of case and of white space.
pub(crate) fn normalized(prompt: &Prompt) -> String {
    let text = question(prompt).to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a message, whose content may be a list of parts.
fn content(message: &Message) -> String {
    match message.fields().get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_white_space_do_not_tell_two_questions_apart() {
        let messages = serde_json::json!([
            {"role": "system", "content": "Think."},
            {"role": "user", "content": [{"type": "text", "text": "What  is"}, {"type": "text", "text": "1+1?"}]},
            {"role": "assistant", "content": "2"},
            {"role": "user", "content": "Sure?"},
        ]);
        let messages = Prompt::new("prompt", messages).unwrap();
        assert_eq!(question(&messages), "What  is\n1+1?\nSure?");
        assert_eq!(normalized(&messages), normalized(&Prompt::Text(" what is 1+1?\tsure?".into())));
        assert_ne!(normalized(&messages), normalized(&Prompt::Text("what is 11? sure?".into())));
    }
}
