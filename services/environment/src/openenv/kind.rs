//! What a model does in an environment: call its tools, say a text, or take an action that has several fields.

use evenkeel_environment::Tool;
use evenkeel_proto::v1::EpisodeFailure;
use serde_json::{Value, json};

use super::reply::Seen;
use super::schema;
use super::socket::{Socket, SocketAnswer};
use crate::failure::Failure;
use crate::program::require_name;

/// The tool that takes an action with several fields.
const ACT: &str = "act";
/// Most tools of an environment.
const MAX_TOOLS: usize = 128;

/// How a turn becomes an action.
#[derive(Debug, PartialEq)]
pub(super) enum ActionKind {
    /// Each call of a tool is one; a turn without a call ends the episode.
    Tools(Vec<Tool>),
    /// The text of the turn is one, in this field.
    Text(String),
    /// A call of the one tool `act` is one, with its arguments as fields.
    Act([Tool; 1]),
}

impl ActionKind {
    /// Asks a server for its tools, and for the fields of its actions where it has none.
    pub(super) async fn ask(address: &str) -> Result<Self, Failure> {
        let mut socket = Socket::connect(address).await?;
        let listed = socket.ask(json!({"type": "step", "data": {"type": "list_tools"}})).await;
        if let Ok(SocketAnswer::Observation(data)) = &listed
            && let Some(tools) = data["observation"]["tools"].as_array()
        {
            return Self::of_tools(tools);
        }
        // An environment of the other kind refuses that, each in its own way; a server that is full has said nothing.
        drop(socket);
        if let Err(failure) = listed
            && failure.kind == EpisodeFailure::Overloaded
        {
            return Err(failure);
        }
        Self::of_schema(&schema::get(address).await?)
    }

    fn of_tools(tools: &[Value]) -> Result<Self, Failure> {
        let unusable = |what: String| Failure { retryable: false, ..Failure::crashed(what) };
        if tools.len() > MAX_TOOLS {
            return Err(unusable(format!("it has {} tools, allowed: at most {MAX_TOOLS}", tools.len())));
        }
        let tool = |tool: &Value| {
            let name = tool["name"].as_str().unwrap_or_default();
            require_name(name).map_err(|error| unusable(error.to_string()))?;
            let parameters = tool["input_schema"].clone();
            let parameters =
                if parameters.is_object() { parameters } else { json!({"type": "object", "properties": {}}) };
            let description = tool["description"].as_str().unwrap_or_default().to_owned();
            Ok::<_, Failure>(Tool { name: name.to_owned(), description, parameters })
        };
        Ok(Self::Tools(tools.iter().map(tool).collect::<Result<_, _>>()?))
    }

    fn of_schema(schema: &Value) -> Result<Self, Failure> {
        let unusable = || Failure { retryable: false, ..Failure::crashed("its schema names no fields of an action") };
        let mut action = schema.get("action").cloned().ok_or_else(unusable)?;
        let fields = action.get_mut("properties").and_then(Value::as_object_mut).ok_or_else(unusable)?;
        fields.shift_remove("metadata");
        if fields.is_empty() {
            return Err(unusable());
        }
        if let (1, Some((name, field))) = (fields.len(), fields.iter().next())
            && field["type"] == "string"
        {
            return Ok(Self::Text(name.clone()));
        }
        let description = action["description"].as_str().unwrap_or("Takes an action in the environment.").to_owned();
        Ok(Self::Act([Tool { name: ACT.to_owned(), description, parameters: action }]))
    }

    /// The tools that the model may call.
    pub(super) fn tools(&self) -> &[Tool] {
        match self {
            Self::Tools(tools) => tools,
            Self::Text(_) => &[],
            Self::Act(tool) => tool,
        }
    }

    /// Whether something is said to turns without calls.
    pub(super) fn user_speaks(&self) -> bool {
        !matches!(self, Self::Tools(_))
    }

    /// All that a server says of it.
    pub(super) fn description(&self) -> Value {
        let field = if let Self::Text(field) = self { field.as_str() } else { "" };
        json!({"field": field, "tools": self.tools().iter().map(Tool::function).collect::<Vec<_>>()})
    }

    /// The action of a call.
    pub(super) fn of_call(&self, name: &str, arguments: serde_json::Map<String, Value>) -> Value {
        match self {
            Self::Tools(_) => json!({"type": "call_tool", "tool_name": name, "arguments": arguments}),
            Self::Text(_) | Self::Act(_) => Value::Object(arguments),
        }
    }

    /// The action of a turn without calls; `None` ends the episode.
    pub(super) fn of_text(&self, text: &str) -> Option<Result<Value, Seen>> {
        match self {
            Self::Tools(_) => None,
            Self::Text(field) => Some(Ok(json!({field: text}))),
            Self::Act(_) => {
                let text = format!("Call the tool `{ACT}`.");
                Some(Err(Seen { text, ..Seen::default() }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_texts_calls_or_fields_as_the_server_says() {
        let kind_of = |properties: Value| ActionKind::of_schema(&json!({"action": {"properties": properties}}));
        let metadata = json!({"type": "object"});
        let text = kind_of(json!({"metadata": metadata, "message": {"type": "string"}})).unwrap();
        assert_eq!(text, ActionKind::Text("message".into()));
        assert_eq!(text.of_text("hi"), Some(Ok(json!({"message": "hi"}))));
        let act =
            kind_of(json!({"metadata": metadata, "row": {"type": "integer"}, "column": {"type": "integer"}})).unwrap();
        assert_eq!((act.tools()[0].name.as_str(), act.user_speaks()), ("act", true));
        assert!(act.tools()[0].parameters["properties"].get("metadata").is_none());
        assert!(kind_of(json!({"metadata": metadata})).is_err());
        let tools = json!([{"name": "echo", "description": "Says it.", "input_schema": {"type": "object"}}]);
        let tools = ActionKind::of_tools(tools.as_array().unwrap()).unwrap();
        assert_eq!((tools.of_text("hi"), tools.user_speaks()), (None, false));
        let call = tools.of_call("echo", json!({"a": 1}).as_object().unwrap().clone());
        assert_eq!(call, json!({"type": "call_tool", "tool_name": "echo", "arguments": {"a": 1}}));
        assert!(ActionKind::of_tools(json!([{"name": "a b"}]).as_array().unwrap()).is_err());
    }
}
