//! Messages as a template sees them.

use crate::prompt::Message;
use crate::value::TemplateValue;

/// The list that templates know as `messages`.
pub(crate) fn conversation(messages: &[Message]) -> TemplateValue {
    messages.iter().map(|message| TemplateValue::from(message.fields())).collect()
}
