//! A tool that a model may call.

use evenkeel_errors::FieldError;
use evenkeel_proto::v1::ToolInfo;
use serde_json::{Value, json};

/// A tool, as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON schema of the arguments, an object.
    pub parameters: Value,
}

impl Tool {
    /// The tool as chat templates take it: an object of type `function`.
    pub fn function(&self) -> Value {
        let Self { name, description, parameters } = self;
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    }

    /// What a worker says of it.
    ///
    /// # Errors
    /// Parameters that are not a JSON object.
    pub fn of_info(info: &ToolInfo) -> Result<Self, FieldError> {
        let parameters = serde_json::from_str(&info.parameters).ok().filter(Value::is_object);
        let refused =
            || FieldError::quoted(format!("tools.{}.parameters", info.name), &info.parameters, "a JSON schema");
        Ok(Self {
            name: info.name.clone(),
            description: info.description.clone(),
            parameters: parameters.ok_or_else(refused)?,
        })
    }
}

impl From<&Tool> for ToolInfo {
    fn from(tool: &Tool) -> Self {
        let Tool { name, description, parameters } = tool;
        Self { name: name.clone(), description: description.clone(), parameters: parameters.to_string() }
    }
}
