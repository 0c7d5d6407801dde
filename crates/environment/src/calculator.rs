//! `calculator`: exact arithmetic as a tool. A turn without a call ends the episode: it has the final answer, which the
//! verifier of the task judges.

use evenkeel_proto::v1::{AssistantMessage, FinishReason, Verdict};
use serde_json::{Map, Value, json};

use crate::environment::Environment;
use crate::rational::evaluate;
use crate::tool::Tool;

/// An episode with a calculator.
pub(crate) struct Calculator {
    tools: Vec<Tool>,
}

impl Calculator {
    pub(crate) fn new() -> Self {
        Self { tools: Self::tools() }
    }

    pub(crate) fn tools() -> Vec<Tool> {
        let parameters = json!({
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "such as (12 + 3) * 4 / 7"}},
            "required": ["expression"],
        });
        let description =
            "Computes an expression with +, -, *, /, ^ and parentheses exactly. Gives a whole number or a fraction.";
        vec![Tool { name: "calculator".to_owned(), description: description.to_owned(), parameters }]
    }
}

impl Environment for Calculator {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn call(&mut self, _: &str, arguments: &Map<String, Value>) -> Result<String, String> {
        match arguments.get("expression") {
            Some(Value::String(expression)) => evaluate(expression).map_err(|error| error.to_string()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err("`expression` is required, a text".to_owned()),
        }
    }

    fn is_done(&self) -> bool {
        false
    }

    fn reply(&mut self, _: &AssistantMessage, _: FinishReason) -> Option<String> {
        None
    }

    fn verdict(&mut self, _: &str) -> Option<Verdict> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_computed_and_what_is_no_expression_is_an_error_for_the_model() {
        let mut calculator = Calculator::new();
        let mut call = |arguments: Value| calculator.call("calculator", arguments.as_object().unwrap());
        assert_eq!(call(json!({"expression": "123 * 456"})), Ok("56088".to_owned()));
        assert_eq!(call(json!({"expression": 7})), Ok("7".to_owned()));
        assert!(call(json!({"expression": "1 +"})).unwrap_err().contains("ends"));
        assert_eq!(call(json!({})).unwrap_err(), "`expression` is required, a text");
    }
}
