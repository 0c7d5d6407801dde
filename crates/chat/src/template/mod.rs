//! Chat templates: the text of a conversation as `apply_chat_template` of transformers gives it, byte for byte.

mod arguments;
mod continuation;
mod environment;
mod failure;
mod source;

use std::fmt;

use evenkeel_model_folder::{ChatTemplates, Folder, FolderError, SpecialTokens};
use minijinja::Environment;
use minijinja::value::Value;

pub use arguments::TemplateArguments;

use crate::python::{Dict, List, is_exhausted};
use crate::value::TemplateValue;
use arguments::TemplateChoice;
use continuation::Continuation;
use failure::failure;

/// Names under which a message has its reasoning; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
/// Stack of the thread that compiles a template, of which only what is used is ever taken: 2 KiB for each byte of the
/// longest one.
const COMPILER_STACK: usize = 256 << 20;

/// Why a conversation has no text. Where the template itself refused it, the words are the template's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RenderError(pub(crate) String);

impl RenderError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The chat templates of a model folder, compiled once. Shared between threads.
pub struct ChatTemplate {
    environment: Environment<'static>,
    templates: ChatTemplates,
    special: Vec<(String, Value)>,
}

impl ChatTemplate {
    /// Reads and compiles the templates of a folder; `None` where it has none, as the folders of many base models.
    ///
    /// # Errors
    /// A file that cannot be read, or an invalid template.
    pub fn read(folder: &Folder) -> Result<Option<Self>, FolderError> {
        let templates = ChatTemplates::read(folder)?;
        if templates == ChatTemplates::default() {
            return Ok(None);
        }
        let refused = |error: RenderError| {
            FolderError::file(folder.path(), format_args!("its chat template cannot be compiled: {error}"))
        };
        Self::new(templates, SpecialTokens::read(folder)?).map(Some).map_err(refused)
    }

    /// Compiles templates. They see the special tokens as variables (`eos_token`).
    ///
    /// # Errors
    /// A default template, or one for tools, that is not a template; the others are compiled if they are requested.
    pub fn new(templates: ChatTemplates, special: SpecialTokens) -> Result<Self, RenderError> {
        let mut environment = environment::new();
        for (name, text) in [(DEFAULT, templates.default.as_ref()), (TOOL_USE, templates.named.get(TOOL_USE))] {
            if let Some(text) = text {
                let prepared = source::prepared(text)?;
                let added = with_deep_stack(|| environment.add_template_owned(name, prepared));
                added?.map_err(|error| failure(&error))?;
            }
        }
        let special = special.into_iter().map(|(name, token)| (name, Value::from(token))).collect();
        Ok(Self { environment, templates, special })
    }

    /// Whether any of the templates has this word, as one that reads a variable of that name must.
    pub fn mentions(&self, name: &str) -> bool {
        self.templates.default.iter().chain(self.templates.named.values()).any(|text| text.contains(name))
    }

    /// The text of a conversation: `messages` is a list of objects.
    ///
    /// # Errors
    /// What `apply_chat_template` raises as an exception.
    pub fn render(&self, messages: &TemplateValue, arguments: &TemplateArguments) -> Result<String, RenderError> {
        let choice = arguments.choose(&self.templates)?;
        let mut messages = without_nulls(messages.inner())?;
        arguments.validate()?;
        messages.iter_mut().for_each(name_reasoning);
        let continuation = match arguments.continued() {
            Some(field) => Some(Continuation::mark(&mut messages, field, self.text(choice))?),
            None => None,
        };
        let messages = List(messages.into_iter().map(Value::from_object).collect());
        let given = arguments.variables().iter().map(|(name, value)| (name.clone(), value.clone()));
        let own = [
            ("messages", Value::from_object(messages)),
            ("tools", arguments.tools()),
            ("documents", arguments.documents()),
            ("add_generation_prompt", arguments.generation_prompt()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let context = Value::from_pairs(self.special.iter().cloned().chain(given).chain(own));
        let rendered = match run(&self.environment, choice, context.clone())? {
            Ok(rendered) => rendered,
            Err(error) if is_exhausted(&error) => return Err(failure(&error)),
            Err(_) => {
                // Once more, with notes about what is undefined.
                let mut environment = self.environment.clone();
                environment.set_debug(true);
                run(&environment, choice, context)?.map_err(|error| failure(&error))?
            }
        };
        match continuation {
            Some(continuation) => continuation.cut(rendered),
            None => Ok(rendered),
        }
    }
}

impl ChatTemplate {
    fn text<'a>(&'a self, choice: TemplateChoice<'a>) -> &'a str {
        match choice {
            TemplateChoice::Text(text) => text,
            TemplateChoice::Named(DEFAULT) => self.templates.default.as_deref().unwrap_or_default(),
            TemplateChoice::Named(name) => self.templates.named.get(name).map_or("", String::as_str),
        }
    }
}

impl Default for ChatTemplate {
    /// The template of a folder without one: only conversations whose arguments have a template are rendered.
    fn default() -> Self {
        Self { environment: environment::new(), templates: ChatTemplates::default(), special: Vec::new() }
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("templates", &self.templates).finish_non_exhaustive()
    }
}

fn run(
    environment: &Environment,
    choice: TemplateChoice,
    context: Value,
) -> Result<Result<String, minijinja::Error>, RenderError> {
    match choice {
        TemplateChoice::Named(name) => Ok(environment.get_template(name).and_then(|template| template.render(context))),
        TemplateChoice::Text(text) => {
            let prepared = source::prepared(text)?;
            with_deep_stack(|| environment.render_str(&prepared, context))
        }
    }
}

/// Does something that needs a frame of the stack for each operator of a template, however many those are: compiling
/// it.
fn with_deep_stack<T: Send>(compile: impl FnOnce() -> T + Send) -> Result<T, RenderError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(COMPILER_STACK).spawn_scoped(scope, compile);
        let thread = thread.map_err(|error| RenderError::new(format!("no thread for the template: {error}")))?;
        thread.join().map_err(|_| RenderError::new("the template cannot be compiled"))
    })
}

/// The messages without the keys that are null: transformers drops them before a template sees them.
fn without_nulls(messages: &Value) -> Result<Vec<Dict>, RenderError> {
    let no_list = || RenderError::new("the messages are not a list of objects");
    if messages.kind() != minijinja::value::ValueKind::Seq {
        return Err(no_list());
    }
    if messages.len() == Some(0) {
        let message = "Cannot apply chat template to an empty conversation. Provide at least one message.";
        return Err(RenderError::new(message));
    }
    let messages = messages.try_iter().map_err(|_| no_list())?;
    let message = |value: Value| {
        let dict = Dict::of(&value).ok_or_else(no_list)?;
        let present = dict.0.iter().filter(|(_, value)| !value.is_none());
        Ok(Dict(present.map(|(key, value)| (key.clone(), value.clone())).collect()))
    };
    messages.map(message).collect()
}

/// Gives reasoning the names under which templates look for it.
fn name_reasoning(message: &mut Dict) {
    let Some(reasoning) = REASONING.iter().find_map(|name| message.get(name).cloned()) else { return };
    let thinking = message.0.shift_remove("thinking").unwrap_or_else(|| reasoning.clone());
    message.0.shift_insert(0, "thinking".to_owned(), thinking);
    message.0.insert("reasoning_content".to_owned(), reasoning);
}
