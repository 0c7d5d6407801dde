//! Parses what a model said in a turn: reasoning, text, and calls of tools. Training and evaluation have this one
//! parser.
//!
//! | form | a call |
//! |---|---|
//! | [`CallForm::Hermes`] (Qwen) | `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a turn, text around them |
//! | [`CallForm::Llama3`] | the whole turn is `{"name": ..., "parameters": {...}}`, with or without `<|python_tag|>`; several with `;` between |
//!
//! What stands within `<think>` and `</think>` is no call. What was meant as a call and cannot be read is a call with
//! an error, which the model is told: it is no failed sample.

use evenkeel_proto::v1::{AssistantMessage, ToolCall};
use serde_json::{Deserializer, Value};

use crate::large_numbers::require_exact;

/// Most calls of one turn; one more is an error.
pub const MAX_CALLS: usize = 32;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const PYTHON_TAG: &str = "<|python_tag|>";
const THINK: &str = "<think>";
const END_OF_THINKING: &str = "</think>";

/// How a model writes calls of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// Hermes, Qwen, and many others.
    Hermes,
    /// Llama 3: a JSON object whose arguments may also be called `parameters`.
    Llama3,
}

impl CallForm {
    /// The form that a chat template has in it, which mentions these words; `None` where it has neither.
    pub fn of_template(mentions: impl Fn(&str) -> bool) -> Option<Self> {
        if mentions(OPEN) {
            return Some(Self::Hermes);
        }
        (mentions("python_tag") || mentions("ipython")).then_some(Self::Llama3)
    }

    /// The name of the key with a call's arguments.
    fn takes(self, key: &str) -> bool {
        key == "arguments" || (self == Self::Llama3 && key == "parameters")
    }
}

/// A turn of the model, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// What stands within `<think>` and `</think>`; empty without.
    pub reasoning: String,
    /// The turn behind the reasoning, as it was written.
    pub said: String,
    /// The text and the calls that `said` consists of.
    pub message: AssistantMessage,
}

/// Takes a turn apart, whose text has its special tokens but the one that ended it. `in_thinking`: the prompt of the
/// turn ends within `<think>`. Calls are named after the number of the turn.
pub fn parse(form: CallForm, text: &str, in_thinking: bool, turn: u32) -> Turn {
    let (reasoning, said) = without_reasoning(text, in_thinking);
    let (content, calls) = match form {
        CallForm::Hermes => hermes(said),
        CallForm::Llama3 => llama3(said),
    };
    let named = |(number, call): (usize, Call)| {
        let (name, arguments, error) = match call {
            Ok((name, arguments)) => (name, arguments, String::new()),
            Err(error) => (String::new(), String::new(), error),
        };
        ToolCall { id: format!("call_{turn}_{number}"), name, arguments, error }
    };
    let tool_calls = (1..).zip(calls).map(named).collect();
    Turn {
        reasoning: reasoning.to_owned(),
        said: said.trim().to_owned(),
        message: AssistantMessage {
            content: content.trim().to_owned(),
            tool_calls,
            text: said.trim().to_owned(),
            reasoning: reasoning.to_owned(),
        },
    }
}

/// The name and the arguments of a call, or why it cannot be read.
type Call = Result<(String, String), String>;

fn without_reasoning(text: &str, in_thinking: bool) -> (&str, &str) {
    match text.rsplit_once(END_OF_THINKING) {
        Some((reasoning, said)) => {
            let reasoning = reasoning.trim_start();
            (reasoning.strip_prefix(THINK).unwrap_or(reasoning).trim(), said)
        }
        None if in_thinking => (text.trim(), ""),
        // Thinking that never ends has no answer after it.
        None => text.split_once(THINK).map_or(("", text), |(said, reasoning)| (reasoning.trim(), said)),
    }
}

fn hermes(said: &str) -> (String, Vec<Call>) {
    let mut content = String::new();
    let mut calls = Vec::new();
    let mut rest = said;
    while let Some((before, behind)) = rest.split_once(OPEN) {
        content.push_str(before);
        if calls.len() == MAX_CALLS {
            calls.push(Err(format!("a turn has at most {MAX_CALLS} calls")));
            return (content, calls);
        }
        match behind.split_once(CLOSE) {
            Some((call, after)) => {
                calls.push(read(CallForm::Hermes, call));
                rest = after;
            }
            None => {
                calls.push(Err(format!("{OPEN} is not closed by {CLOSE}")));
                return (content, calls);
            }
        }
    }
    content.push_str(rest);
    (content, calls)
}

fn llama3(said: &str) -> (String, Vec<Call>) {
    let trimmed = said.trim();
    let (tagged, body) = match trimmed.split_once(PYTHON_TAG) {
        Some((before, body)) => (Some(before), body.trim()),
        None => (None, trimmed),
    };
    let is_meant = tagged.is_some() || (body.starts_with('{') && body.contains("\"name\""));
    if !is_meant {
        return (said.to_owned(), Vec::new());
    }
    let mut calls = Vec::new();
    let mut rest = body;
    loop {
        if calls.len() == MAX_CALLS {
            calls.push(Err(format!("a turn has at most {MAX_CALLS} calls")));
            break;
        }
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let written = rest.get(..values.byte_offset()).unwrap_or_default();
                calls.push(require_exact(written).and_then(|()| of_value(CallForm::Llama3, &value)));
                let after = rest.get(values.byte_offset()..).unwrap_or_default().trim();
                match after.strip_prefix(';').map(str::trim) {
                    Some(next) if !next.is_empty() => rest = next,
                    Some(_) => break,
                    None if after.is_empty() => break,
                    None => {
                        calls.push(Err("there is text behind the call".to_owned()));
                        break;
                    }
                }
            }
            Some(Err(error)) => {
                calls.push(Err(format!("the call is not valid JSON: {error}")));
                break;
            }
            None => {
                calls.push(Err("the call is empty".to_owned()));
                break;
            }
        }
    }
    (tagged.unwrap_or_default().to_owned(), calls)
}

fn read(form: CallForm, text: &str) -> Call {
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(value) => require_exact(text).and_then(|()| of_value(form, &value)),
        Err(error) => Err(format!("the call is not valid JSON: {error}")),
    }
}

fn of_value(form: CallForm, value: &Value) -> Call {
    let Some(object) = value.as_object() else { return Err("the call is not a JSON object".to_owned()) };
    let name = match object.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        _ => return Err("the call has no `name`, a text".to_owned()),
    };
    let wanted = if form == CallForm::Hermes { "arguments" } else { "parameters" };
    match object.iter().find(|(key, _)| form.takes(key)) {
        Some((_, arguments @ Value::Object(_))) => Ok((name, arguments.to_string())),
        Some((key, _)) => Err(format!("`{key}` of the call is not a JSON object")),
        None => Err(format!("the call has no `{wanted}`, a JSON object")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calls(form: CallForm, text: &str) -> (String, Vec<(String, String)>) {
        let message = parse(form, text, false, 3).message;
        let call = |call: ToolCall| {
            if call.error.is_empty() { (call.name, call.arguments) } else { ("error".to_owned(), call.error) }
        };
        (message.content, message.tool_calls.into_iter().map(call).collect())
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn calls_of_hermes_stand_between_tags_with_text_around_them() {
        let text = "I compute.\n<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"1+1\"}}\n\
                    </tool_call>\n\
                    <tool_call>{\"name\":\"b\",\"arguments\":{}}</tool_call>";
        let (content, found) = calls(CallForm::Hermes, text);
        assert_eq!(content, "I compute.");
        assert_eq!(found, [call("calculator", r#"{"expression":"1+1"}"#), call("b", "{}")]);
        let ids: Vec<_> =
            parse(CallForm::Hermes, text, false, 3).message.tool_calls.into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["call_3_1", "call_3_2"]);
        assert_eq!(calls(CallForm::Hermes, "The answer is 2."), ("The answer is 2.".to_owned(), vec![]));
    }

    #[test]
    fn a_turn_of_llama_is_a_call_or_a_text() {
        let one = r#"{"name": "calculator", "parameters": {"expression": "1+1"}}"#;
        let wanted = call("calculator", r#"{"expression":"1+1"}"#);
        assert_eq!(calls(CallForm::Llama3, one), (String::new(), vec![wanted.clone()]));
        let two = format!("{PYTHON_TAG}{one}; {one}");
        assert_eq!(calls(CallForm::Llama3, &two).1, [wanted.clone(), wanted.clone()]);
        assert_eq!(calls(CallForm::Llama3, &format!("{one} as I said")).1.len(), 2);
        assert_eq!(
            calls(CallForm::Llama3, "Sets are written {1, 2}."),
            ("Sets are written {1, 2}.".to_owned(), vec![])
        );
        assert_eq!(calls(CallForm::Llama3, "{1, 2}"), ("{1, 2}".to_owned(), vec![]));
    }

    #[test]
    fn a_call_that_cannot_be_read_says_why() {
        for (text, words) in [
            ("<tool_call>{\"name\": \"a\"", "is not closed by </tool_call>"),
            ("<tool_call>{\"name\": \"a\", }</tool_call>", "not valid JSON"),
            ("<tool_call>[1]</tool_call>", "not a JSON object"),
            ("<tool_call>{\"arguments\": {}}</tool_call>", "no `name`"),
            ("<tool_call>{\"name\": \"a\"}</tool_call>", "no `arguments`"),
            ("<tool_call>{\"name\": \"a\", \"parameters\": {}}</tool_call>", "no `arguments`"),
            ("<tool_call>{\"name\": \"a\", \"arguments\": \"{}\"}</tool_call>", "`arguments` of the call is not"),
            ("<tool_call>{\"name\": \"a\", \"arguments\": {\"b\": 99999999999999999999}}</tool_call>", "is too large"),
        ] {
            let (_, found) = calls(CallForm::Hermes, text);
            assert!(found[0].0 == "error" && found[0].1.contains(words), "{text}: {found:?}");
        }
        for (text, words) in [
            ("<|python_tag|>", "empty"),
            ("<|python_tag|>print(1)", "not valid JSON"),
            ("{\"name\": \"a\", \"parameters\": ", "not valid JSON"),
            ("{\"name\": \"a\"}", "no `parameters`"),
            ("{\"name\": \"a\", \"parameters\": {\"b\": [99999999999999999999]}}", "is too large"),
        ] {
            let (_, found) = calls(CallForm::Llama3, text);
            assert!(found[0].0 == "error" && found[0].1.contains(words), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_only_thought_is_no_call() {
        let call = r#"<tool_call>{"name": "a", "arguments": {}}</tool_call>"#;
        let parsed = |text: &str, in_thinking| {
            let Turn { reasoning, message, .. } = parse(CallForm::Hermes, text, in_thinking, 1);
            (reasoning, message.content, message.tool_calls.len())
        };
        assert_eq!(parsed(&format!("<think>\n{call}\n</think>\n\nDone."), false), (call.into(), "Done.".into(), 0));
        assert_eq!(parsed(&format!("{call}\n</think>\n{call}"), true), (call.into(), String::new(), 1));
        assert_eq!(parsed(&format!("hm {call}"), true), (format!("hm {call}"), String::new(), 0));
        assert_eq!(parsed(&format!("So <think> {call}"), false), (call.into(), "So".into(), 0));
    }

    #[test]
    fn a_turn_has_so_many_calls_and_no_more() {
        let one = r#"<tool_call>{"name": "a", "arguments": {}}</tool_call>"#;
        let (_, found) = calls(CallForm::Hermes, &one.repeat(MAX_CALLS + 5));
        assert_eq!(found.len(), MAX_CALLS + 1);
        assert_eq!(found[MAX_CALLS].0, "error");
    }

    #[test]
    fn templates_show_which_form_they_have() {
        let form = |template: &str| CallForm::of_template(|word| template.contains(word));
        assert_eq!(form("{{ '<tool_call>' }}"), Some(CallForm::Hermes));
        assert_eq!(form("role == 'ipython'"), Some(CallForm::Llama3));
        assert_eq!(form("{{ messages }}"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "(<tool_call>|</tool_call>|<think>|</think>|<\\|python_tag\\|>|[{}\\[\\]\":;,a \
            é]|\"name\"|null){0,40}",
                               in_thinking in any::<bool>()) {
            for form in [CallForm::Hermes, CallForm::Llama3] {
                let Turn { message, .. } = parse(form, &text, in_thinking, 1);
                prop_assert!(message.tool_calls.len() <= MAX_CALLS + 1);
                prop_assert!(message.content.len() <= text.len());
            }
        }
    }
}
