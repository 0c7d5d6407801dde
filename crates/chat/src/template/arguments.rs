//! The arguments of `apply_chat_template`.

use evenkeel_model_folder::ChatTemplates;
use minijinja::value::{Value, ValueKind};

use super::{DEFAULT, RenderError, TOOL_USE};
use crate::python::Dict;
use crate::value::TemplateValue;

/// Arguments that change neither the text nor its tokens.
const WITHOUT_EFFECT: &[&str] =
    &["tokenize", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask"];
/// Arguments that would change the tokens, which nothing here does.
const UNSUPPORTED: &[&str] = &["sanitize_control_tokens", "padding", "truncation", "tokenizer_kwargs"];

/// What a conversation is rendered with: the arguments of transformers' `apply_chat_template`, and variables of the
/// template.
#[derive(Debug, Clone, Default)]
pub struct TemplateArguments {
    tools: Option<Value>,
    documents: Option<Value>,
    template: Option<String>,
    generation_prompt: Option<Value>,
    /// The field of the last message that is continued, or that none is.
    continued: Option<Option<String>>,
    variables: Vec<(String, Value)>,
}

/// Which template is rendered.
#[derive(Debug, Clone, Copy)]
pub(super) enum TemplateChoice<'a> {
    Named(&'a str),
    Text(&'a str),
}

impl TemplateArguments {
    /// The arguments in an object.
    ///
    /// # Errors
    /// Not an object, or an argument that asks for something that is not supported: other tokens than those of the
    /// text.
    pub fn new(arguments: &TemplateValue) -> Result<Self, RenderError> {
        let object = arguments.fields().ok_or_else(|| RenderError::new("`arguments` is not an object"))?;
        let mut read = Self::default();
        for (name, value) in &object.0 {
            read.set(name, value.clone())?;
        }
        Ok(read)
    }

    /// Adds an argument, or replaces its value.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(mut self, name: &str, value: &TemplateValue) -> Result<Self, RenderError> {
        self.set(name, value.inner().clone())?;
        Ok(self)
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), RenderError> {
        let given = Some(value.clone()).filter(|value| !value.is_none());
        match name {
            "tools" => self.tools = given,
            "documents" => self.documents = given,
            "chat_template" => {
                self.template = given
                    .map(|value| crate::python::str_of(&value))
                    .transpose()
                    .map_err(|error| super::failure(&error))?
            }
            "add_generation_prompt" => self.generation_prompt = Some(value),
            // A text is the field of the message that is continued.
            "continue_final_message" => {
                let field = value.as_str().unwrap_or("content").to_owned();
                self.continued = Some(value.is_true().then_some(field));
            }
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ if UNSUPPORTED.contains(&name) => {
                if value.is_true() {
                    let message = format!("`{name}` is not supported: the tokens are those of the text");
                    return Err(RenderError::new(message));
                }
            }
            _ => {
                self.variables.retain(|(other, _)| other != name);
                self.variables.push((name.to_owned(), value));
            }
        }
        Ok(())
    }

    /// The names of the variables of the template that are given.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// Whether the argument is given.
    pub(crate) fn sets(&self, name: &str) -> bool {
        match name {
            "add_generation_prompt" => self.generation_prompt.is_some(),
            "continue_final_message" => self.continued.is_some(),
            _ => self.variables.iter().any(|(other, _)| other == name),
        }
    }

    /// The template that transformers would take.
    pub(super) fn choose<'a>(&'a self, templates: &'a ChatTemplates) -> Result<TemplateChoice<'a>, RenderError> {
        if let Some(template) = &self.template {
            return Ok(match templates.named.get(template) {
                Some(_) if template == TOOL_USE => TemplateChoice::Named(TOOL_USE),
                Some(text) => TemplateChoice::Text(text),
                None if template == DEFAULT && templates.default.is_some() => TemplateChoice::Named(DEFAULT),
                None => TemplateChoice::Text(template),
            });
        }
        if self.tools.is_some() && templates.named.contains_key(TOOL_USE) {
            return Ok(TemplateChoice::Named(TOOL_USE));
        }
        if templates.default.is_some() {
            return Ok(TemplateChoice::Named(DEFAULT));
        }
        if templates.named.is_empty() {
            return Err(RenderError::new("the tokenizer has no chat template, and `arguments` has no `chat_template`"));
        }
        let names: Vec<_> = templates.named.keys().map(|name| format!("'{name}'")).collect();
        Err(RenderError::new(format!(
            "This model has multiple chat templates with no default specified! Please either pass a chat template or \
             the name of the template you wish to use to the `chat_template` argument. Available template names are \
             [{}].",
            names.join(", ")
        )))
    }

    /// Refuses what transformers refuses before it renders.
    pub(super) fn validate(&self) -> Result<(), RenderError> {
        if self.continued().is_some() && self.generation_prompt().is_true() {
            return Err(RenderError::new(
                "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when \
                 you want the model to continue the final message, and add_generation_prompt when you want to add a \
                 header that will prompt it to start a new assistant message instead.",
            ));
        }
        let are_objects = |list: &Value| {
            list.kind() == ValueKind::Seq
                && list.try_iter().is_ok_and(|mut items| items.all(|item| Dict::of(&item).is_some()))
        };
        if !self.tools.as_ref().is_none_or(are_objects) {
            return Err(RenderError::new(
                "Tools should either be a JSON schema, or a callable function with type hints and a docstring suitable \
                 for auto-conversion to a schema.",
            ));
        }
        if !self.documents.as_ref().is_none_or(are_objects) {
            return Err(RenderError::new("Documents should be a list of dicts with 'title' and 'text' keys!"));
        }
        Ok(())
    }

    /// The field of the last message that is continued.
    pub(super) fn continued(&self) -> Option<&str> {
        self.continued.as_ref()?.as_deref()
    }

    pub(super) fn tools(&self) -> Value {
        self.tools.clone().unwrap_or_else(|| Value::from(()))
    }

    pub(super) fn documents(&self) -> Value {
        self.documents.clone().unwrap_or_else(|| Value::from(()))
    }

    pub(super) fn generation_prompt(&self) -> Value {
        self.generation_prompt.clone().unwrap_or_else(|| Value::from(false))
    }

    pub(super) fn variables(&self) -> &[(String, Value)] {
        &self.variables
    }
}
