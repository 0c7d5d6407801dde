//! What an environment is, and what all of them do alike: calls that cannot be carried out become messages, and long
//! messages are cut.

use evenkeel_proto::v1::{
    AssistantMessage, EnvironmentMessage, FinishReason, MessageRole, ModelRequest, ToolCall, Verdict,
};
use serde_json::{Map, Value};

use crate::large_numbers::require_exact;
use crate::tool::Tool;

/// Longest content of a message, in bytes; longer ones are cut, with a mark.
pub const MAX_CONTENT: usize = 1 << 20;

/// Longest part of what the model wrote that a message repeats, in characters.
const MAX_REPEATED: usize = 80;

/// A task that an environment cannot do: a defect of the data set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

/// One episode of an environment.
pub trait Environment: Send {
    /// The tools that the model may call.
    fn tools(&self) -> &[Tool];

    /// Carries out a call of one of its tools. The error is for the model, and counts as an error of a tool.
    fn call(&mut self, tool: &str, arguments: &Map<String, Value>) -> Result<String, String>;

    /// Whether the episode is over after the calls of a turn.
    fn is_done(&self) -> bool;

    /// What the user says to a turn without calls; `None` ends the episode.
    fn reply(&mut self, message: &AssistantMessage, finish_reason: FinishReason) -> Option<String>;

    /// What the environment makes of the episode; `None` leaves that to the verifier of the task.
    fn verdict(&mut self, id: &str) -> Option<Verdict>;
}

/// What a turn led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepResult {
    /// What the model sees next.
    pub messages: Vec<EnvironmentMessage>,
    /// Whether the episode is over.
    pub done: bool,
    /// Calls that could not be carried out.
    pub tool_errors: u32,
    /// What an agent asks of the model next.
    pub request: Option<ModelRequest>,
    /// What the environment gives for the turn.
    pub reward: Option<f64>,
}

/// Carries out a turn: its calls in their order, each answered by a message, or what the user says to it.
pub fn step(environment: &mut dyn Environment, message: &AssistantMessage, finish_reason: FinishReason) -> StepResult {
    let mut step = StepResult::default();
    if message.tool_calls.is_empty() {
        match environment.reply(message, finish_reason) {
            Some(content) => step.messages.push(user_says(content)),
            None => step.done = true,
        }
        return step;
    }
    for call in &message.tool_calls {
        // Whatever the model writes behind the call that ends the episode changes nothing.
        let answer =
            if environment.is_done() { Err("the episode is over".to_owned()) } else { carry_out(environment, call) };
        step.tool_errors += u32::from(answer.is_err());
        step.messages.push(answered(call, answer.unwrap_or_else(|error| format!("error: {error}"))));
    }
    step.done = environment.is_done();
    step
}

/// What the user says, cut where it is too long.
pub fn user_says(content: String) -> EnvironmentMessage {
    EnvironmentMessage { role: MessageRole::User.into(), content: cut(content), ..EnvironmentMessage::default() }
}

/// The answer to a call, cut where it is too long.
pub fn answered(call: &ToolCall, content: String) -> EnvironmentMessage {
    EnvironmentMessage {
        role: MessageRole::Tool.into(),
        content: cut(content),
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
    }
}

fn carry_out(environment: &mut dyn Environment, call: &ToolCall) -> Result<String, String> {
    let arguments = read_call(environment.tools(), call)?;
    environment.call(&call.name, &arguments)
}

/// The arguments of a call.
///
/// # Errors
/// Why it cannot be carried out, for the model: it cannot be read, there is no such tool, or its arguments are no JSON
/// object.
pub fn read_call(tools: &[Tool], call: &ToolCall) -> Result<Map<String, Value>, String> {
    if !call.error.is_empty() {
        return Err(call.error.clone());
    }
    if !tools.iter().any(|tool| tool.name == call.name) {
        let known: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let name: String = call.name.chars().take(MAX_REPEATED).collect();
        return Err(format!("there is no tool `{name}`, allowed: {}", known.join(", ")));
    }
    require_exact(&call.arguments)?;
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("the arguments are not a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

/// A text of at most [`MAX_CONTENT`] bytes; a note says what was cut off.
pub fn cut(mut content: String) -> String {
    if content.len() > MAX_CONTENT {
        let all = content.len();
        content.truncate(content.floor_char_boundary(MAX_CONTENT));
        content.push_str(&format!("\n[cut off: {} of {all} bytes]", content.len()));
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says how often it was called, and ends with the third call.
    struct Counter {
        tools: Vec<Tool>,
        calls: u32,
    }

    impl Environment for Counter {
        fn tools(&self) -> &[Tool] {
            &self.tools
        }

        fn call(&mut self, _: &str, arguments: &Map<String, Value>) -> Result<String, String> {
            self.calls += 1;
            match arguments.get("long") {
                Some(_) => Ok("é".repeat(10 << 20)),
                None => Ok(self.calls.to_string()),
            }
        }

        fn is_done(&self) -> bool {
            self.calls == 3
        }

        fn reply(&mut self, message: &AssistantMessage, _: FinishReason) -> Option<String> {
            (!message.content.is_empty()).then(|| "call the tool".to_owned())
        }

        fn verdict(&mut self, _: &str) -> Option<Verdict> {
            None
        }
    }

    fn counter() -> Counter {
        let tools = vec![Tool { name: "count".into(), description: String::new(), parameters: serde_json::json!({}) }];
        Counter { tools, calls: 0 }
    }

    fn call(name: &str, arguments: &str, error: &str) -> ToolCall {
        ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into(), error: error.into() }
    }

    fn said(tool_calls: Vec<ToolCall>) -> AssistantMessage {
        AssistantMessage { tool_calls, ..AssistantMessage::default() }
    }

    #[test]
    fn every_call_of_a_turn_is_answered_in_its_order() {
        let calls = vec![
            call("count", "{}", ""),
            call("cuont", "{}", ""),
            call("", "", "not valid JSON"),
            call("count", "{", ""),
            call("count", "[]", ""),
            call("count", "{}", ""),
        ];
        let found = step(&mut counter(), &said(calls), FinishReason::Stop);
        let contents: Vec<_> = found.messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!((contents[0], contents[5], found.tool_errors, found.done), ("1", "2", 4, false));
        assert_eq!(contents[1], "error: there is no tool `cuont`, allowed: count");
        assert_eq!(contents[2], "error: not valid JSON");
        assert!(contents[3].starts_with("error: the arguments are not valid JSON"));
        assert!(
            found.messages.iter().all(|message| message.role() == MessageRole::Tool && message.tool_call_id == "c")
        );
    }

    #[test]
    fn nothing_is_carried_out_behind_the_call_that_ends_the_episode() {
        let mut counter = counter();
        let found = step(&mut counter, &said(vec![call("count", "{}", ""); 5]), FinishReason::Stop);
        assert_eq!((counter.calls, found.done, found.tool_errors, found.messages.len()), (3, true, 2, 5));
    }

    #[test]
    fn a_turn_without_calls_is_replied_to_or_ends_the_episode() {
        let text = AssistantMessage { content: "hm".into(), ..AssistantMessage::default() };
        let found = step(&mut counter(), &text, FinishReason::Stop);
        assert_eq!((found.messages[0].role(), found.done), (MessageRole::User, false));
        assert!(step(&mut counter(), &said(vec![]), FinishReason::Stop).done);
    }

    #[test]
    fn ten_megabytes_are_cut_with_a_mark_at_a_whole_character() {
        let found = step(&mut counter(), &said(vec![call("count", "{\"long\": 1}", "")]), FinishReason::Stop);
        let content = &found.messages[0].content;
        assert!(content.len() <= MAX_CONTENT + 64);
        assert!(content.ends_with("[cut off: 1048576 of 20971520 bytes]"), "{}", &content[content.len() - 60..]);
    }
}
