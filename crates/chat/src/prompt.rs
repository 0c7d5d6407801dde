//! Prompts as data sets have them, before a template has seen them.

use evenkeel_errors::FieldError;
use serde_json::{Map, Value};

/// Roles that a message may have. How each is written is up to the template.
const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool", "function"];

/// What a row asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// A text: one user message if the model has a template, raw otherwise.
    Text(String),
    /// A conversation, with at least one user message.
    Messages(Vec<Message>),
    /// A conversation where the model has a template, a text where it has none or prompts go in raw.
    Either { messages: Vec<Message>, text: String },
}

impl Prompt {
    /// The messages, or none for a prompt that is a text; and the text, if it is one.
    pub(crate) fn parts(&self) -> (&[Message], Option<&str>) {
        match self {
            Self::Text(text) => (&[], Some(text)),
            Self::Messages(messages) => (messages, None),
            Self::Either { messages, text } => (messages, Some(text)),
        }
    }

    /// The prompt in a field of a row: a text, or a list of messages.
    ///
    /// # Errors
    /// A blank text; messages without one of the user; a message that [`Message::new`] refuses, by its index.
    pub fn new(field: &str, value: Value) -> Result<Self, FieldError> {
        match value {
            Value::String(text) if text.trim().is_empty() => Err(FieldError::new(field, "empty", "a text")),
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(values) => {
                let message = |(index, value)| Message::new(&format!("{field}[{index}]"), value);
                let messages = values.into_iter().enumerate().map(message).collect::<Result<Vec<_>, _>>()?;
                if !messages.iter().any(|message| message.role() == "user") {
                    let roles: Vec<_> = messages.iter().map(Message::role).collect();
                    let found = format!("messages of [{}]", roles.join(", "));
                    return Err(FieldError::new(field, found, "messages with at least one of the role `user`"));
                }
                Ok(Self::Messages(messages))
            }
            other => Err(FieldError::new(field, other, "a text or a list of messages")),
        }
    }
}

/// A message of a conversation: an object with the text `role` and, mostly, `content`. Other keys (`tool_calls`,
/// `name`, `reasoning_content`) are for the template.
#[derive(Debug, Clone, PartialEq)]
pub struct Message(Map<String, Value>);

impl Message {
    /// The message at `field` of a row.
    ///
    /// # Errors
    /// A value that is not an object, one without a known role, one with neither a content nor tool calls.
    pub fn new(field: &str, value: Value) -> Result<Self, FieldError> {
        let Value::Object(message) = value else {
            return Err(FieldError::new(field, value, "an object with `role` and `content`"));
        };
        match message.get("role") {
            Some(Value::String(role)) if ROLES.contains(&role.as_str()) => {}
            role => {
                let found = role.cloned().unwrap_or_default();
                return Err(FieldError::new(format!("{field}.role"), found, format!("one of {}", ROLES.join(", "))));
            }
        }
        let present = |key: &str| message.get(key).is_some_and(|value| !value.is_null());
        if !present("content") && !present("tool_calls") {
            return Err(FieldError::missing(format!("{field}.content"), "a text"));
        }
        Ok(Self(message))
    }

    /// A message with a text.
    pub fn text(role: &str, content: &str) -> Self {
        let pair = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        Self([pair("role", role), pair("content", content)].into_iter().collect())
    }

    /// A message of these fields, which the caller has made.
    pub(crate) fn of(fields: Value) -> Self {
        match fields {
            Value::Object(fields) => Self(fields),
            _ => Self(Map::new()),
        }
    }

    /// Role of the message's author.
    pub fn role(&self) -> &str {
        self.0.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// Appends to the content: to its text, or to the last text among its parts. A content without any text gets a
    /// part.
    pub(crate) fn append(&mut self, text: &str) {
        match self.0.get_mut("content") {
            Some(Value::String(content)) => content.push_str(text),
            Some(Value::Array(parts)) => {
                let last = parts.iter_mut().rev().find_map(|part| match part.get_mut("text") {
                    Some(Value::String(content)) => Some(content),
                    _ => None,
                });
                match last {
                    Some(content) => content.push_str(text),
                    None => parts.push(serde_json::json!({"type": "text", "text": text})),
                }
            }
            _ => {
                self.0.insert("content".to_owned(), Value::from(text));
            }
        }
    }

    /// All texts in its fields, and the names in them.
    pub(crate) fn texts(&self) -> Vec<&str> {
        fn of<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
            match value {
                Value::String(text) => texts.push(text),
                Value::Array(values) => values.iter().for_each(|value| of(value, texts)),
                Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                    texts.push(name);
                    of(value, texts);
                }),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        let mut texts = Vec::new();
        self.0.values().for_each(|value| of(value, &mut texts));
        texts
    }

    /// The message as templates see it.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }
}
