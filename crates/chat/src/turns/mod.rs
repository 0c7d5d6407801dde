//! What stands between two turns of a model, in tokens.
//!
//! A conversation is one growing list of tokens: what the model sampled is never decoded and encoded again. What an
//! observation adds is the difference of two renderings of a fixed conversation, with and without it: everything behind
//! the token that ended the turn before. `template_probe` checks once, when a renderer is made, that this does not
//! depend on the conversation, and that the template leaves earlier turns as they are. `without_template` has what the
//! model reads of its tools where the template has no place for them.

mod conversation;
mod template_probe;
mod without_template;

use evenkeel_errors::FieldError;
use evenkeel_model_folder::ControlTokens;
use serde_json::{Value, json};

use crate::prompt::{Message, Prompt};
use crate::prompt_error::PromptError;
use crate::renderer::PromptRenderer;
use crate::template::RenderError;

pub(crate) use without_template::instructions;
use without_template::tool_response;

/// What the model says in the fixed conversations; no template and no task says it.
const PROBE: &str = "evenkeelprobe";

/// How the model is told of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsIn {
    /// By the chat template, which has a place for them and for their results.
    Template,
    /// In the system message; results are messages of the user, within `<tool_response>`.
    SystemPrompt,
}

/// What an environment adds to the prompts of its tasks, and how its observations are rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnSettings {
    /// What the model is told beforehand; may be empty.
    pub system_prompt: String,
    /// The tools, as chat templates take them.
    pub tools: Vec<Value>,
    /// How the model is told about the tools.
    pub tools_in: ToolsIn,
    /// Whether the user may say something between turns, besides tools.
    pub user_speaks: bool,
    /// Leave earlier turns in the context as they were sampled, even where the template would write them otherwise, as
    /// those do that strip reasoning.
    pub keeps_turns: bool,
    /// An agent asks: its conversations and tools are not known beforehand. A template that takes no results of tools
    /// is then no reason to refuse the model.
    pub is_agent: bool,
}

/// A message to the model between two turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation<'a> {
    /// The result of a call.
    Tool { id: &'a str, name: &'a str, content: &'a str },
    /// A message of the user.
    User(&'a str),
}

impl Observation<'_> {
    fn content(&self) -> &str {
        match self {
            Self::Tool { content, .. } | Self::User(content) => content,
        }
    }
}

/// A turn of the model that is over, as templates take it, and what was observed after it.
#[derive(Debug, Clone, PartialEq)]
pub struct PastTurn<'a> {
    /// What stands within `<think>` and `</think>`; empty without.
    pub reasoning: &'a str,
    /// The text besides reasoning and calls.
    pub content: &'a str,
    /// The calls of tools: id, name and arguments.
    pub calls: Vec<(&'a str, &'a str, Value)>,
    /// The turn without its reasoning, as it was written: for templates that know no tools.
    pub said: &'a str,
    pub observations: Vec<Observation<'a>>,
}

/// Renders the prompts of an environment's tasks, and what stands between the turns.
#[derive(Debug, Clone)]
pub struct TurnRenderer {
    prompts: PromptRenderer,
    tools_in: ToolsIn,
    end_of_turn: u32,
    /// The end of a turn, as the template writes it.
    end_text: String,
    /// The fixed turn before an observation.
    said: Message,
    /// The fixed turn before results of tools. `None`: the template takes none, or what it writes depends on the turns
    /// before.
    called: Option<Message>,
    /// Renders what stands between turns without the tools, which are most of the text. `None`: the template writes it
    /// otherwise then.
    brief: Option<PromptRenderer>,
}

impl TurnRenderer {
    /// A renderer whose template passed all checks.
    ///
    /// # Errors
    /// By the name of the setting that helps: a model without a chat template, a template that takes no tools, does not
    /// end turns with a special token, rewrites earlier turns, or writes observations that depend on the turns before
    /// them.
    pub fn new(prompts: &PromptRenderer, settings: &TurnSettings) -> Result<Self, FieldError> {
        let no_template = || {
            FieldError::new(
                "chat template",
                "absent",
                "one in the folder of the model, as chat models have: episodes are chats",
            )
        };
        let template = prompts.template().ok_or_else(no_template)?;
        let in_template = settings.tools_in == ToolsIn::Template;
        if in_template && !settings.tools.is_empty() && !template.mentions("tools") {
            return Err(no_tools("the chat template does not read `tools`"));
        }
        let refused = |error: PromptError| FieldError::new("chat template", "refused", error.to_string());
        let with = prompts.told(&settings.system_prompt, &settings.tools, settings.tools_in).map_err(refused)?;
        let end_of_turn = template.end_of_turn(prompts.tokenizer()).ok_or_else(|| {
            let allowed = "a chat template that ends turns with a special token of the tokenizer";
            FieldError::new("chat template", "without an end of turn", allowed)
        })?;
        let end_text = prompts.tokenizer().token(end_of_turn).unwrap_or_default();
        let said = Message::text("assistant", PROBE);
        let tools_in = settings.tools_in;
        let called = None;
        let brief = Some(prompts.clone());
        let renderer = Self { prompts: with, tools_in, end_of_turn, end_text, said, called, brief };
        renderer.checked(settings)
    }

    /// Renders the prompts of the environment's tasks.
    pub fn prompts(&self) -> &PromptRenderer {
        &self.prompts
    }

    /// Whether the chat template has this word.
    pub fn mentions(&self, word: &str) -> bool {
        self.prompts.template().is_some_and(|template| template.mentions(word))
    }

    /// The token that ends a turn. Where a turn ended by its length, it has to be added.
    pub fn end_of_turn(&self) -> u32 {
        self.end_of_turn
    }

    /// The tokens behind the end of a turn: the observations, and what the template puts before the next turn.
    ///
    /// # Errors
    /// A template that does not render these observations, or whose tokens run together with those before.
    pub fn between(&self, observations: &[Observation<'_>]) -> Result<Vec<u32>, PromptError> {
        match &self.brief {
            Some(brief) => self.behind_turn(&brief.turns(&self.fixed(observations)?, true)?),
            None => self.between_in_full(observations),
        }
    }

    fn between_in_full(&self, observations: &[Observation<'_>]) -> Result<Vec<u32>, PromptError> {
        self.behind(&self.prompts.turns(&self.fixed(observations)?, true)?)
    }

    /// The fixed conversation with observations at its end.
    fn fixed(&self, observations: &[Observation<'_>]) -> Result<Vec<Message>, PromptError> {
        let by_tool = observations.iter().any(|observation| matches!(observation, Observation::Tool { .. }));
        let said = if by_tool { self.called.as_ref() } else { Some(&self.said) };
        let unclear = || RenderError("it takes no tool results after a turn".to_owned());
        let mut messages = vec![Message::text("user", "?"), said.ok_or_else(unclear)?.clone()];
        messages.extend(self.messages(observations)?);
        Ok(messages)
    }

    /// The prompt of a turn as the template renders the whole conversation, which may write earlier turns otherwise
    /// than they were sampled: what is observed `first`, before any turn, follows the prompt of the row.
    ///
    /// # Errors
    /// Messages that the template does not render, or leaves out.
    pub fn whole_prompt(
        &self,
        prompt: &Prompt,
        suffix: Option<&str>,
        first: &[Observation<'_>],
        turns: &[PastTurn<'_>],
    ) -> Result<Vec<u32>, PromptError> {
        let mut followed_by = if first.is_empty() { Vec::new() } else { self.messages(first)? };
        followed_by.extend(self.past_turns(turns)?);
        let rendered = self.prompts.render_followed(prompt, suffix, &followed_by)?;
        let is_shown = |observation: &Observation<'_>| rendered.text.contains(observation.content().trim());
        if !first.iter().all(is_shown) {
            return Err(PromptError::Template(RenderError("it leaves out what is observed first".to_owned())));
        }
        Ok(rendered.token_ids)
    }

    /// Turns as messages, each with what followed.
    fn past_turns(&self, turns: &[PastTurn<'_>]) -> Result<Vec<Message>, PromptError> {
        let mut messages = Vec::new();
        for turn in turns {
            messages.push(self.past(turn));
            messages.extend(self.messages(&turn.observations)?);
        }
        Ok(messages)
    }

    fn past(&self, turn: &PastTurn<'_>) -> Message {
        let in_template = self.tools_in == ToolsIn::Template;
        let content = if in_template { turn.content } else { turn.said };
        let mut message = json!({"role": "assistant", "content": content});
        if !turn.reasoning.is_empty() {
            message["reasoning_content"] = Value::from(turn.reasoning);
        }
        if in_template && !turn.calls.is_empty() {
            let call = |(id, name, arguments): &(&str, &str, Value)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            message["tool_calls"] = turn.calls.iter().map(call).collect();
        }
        Message::of(message)
    }

    /// The tokens of a text behind the end of the fixed turn in it.
    fn behind(&self, text: &str) -> Result<Vec<u32>, PromptError> {
        let (control, tokenizer) = (self.prompts.control(), self.prompts.tokenizer());
        let unclear = |what: &str| PromptError::Template(RenderError(what.to_owned()));
        let before =
            self.through_turn(text).ok_or_else(|| unclear("the turn before an observation is not in the text"))?;
        let before = control.encode(tokenizer, before)?;
        let mut all = control.encode(tokenizer, text)?;
        if !all.starts_with(&before) {
            return Err(unclear("the tokens of an observation run together with those of the turn before"));
        }
        Ok(all.split_off(before.len()))
    }

    /// The tokens that [`behind`](Self::behind) gives, from the end of the turn alone: a special token, at which
    /// tokenizers split texts.
    fn behind_turn(&self, text: &str) -> Result<Vec<u32>, PromptError> {
        let end = self.through_turn(text).map_or(0, str::len).saturating_sub(self.end_text.len());
        let behind = text.get(end..).unwrap_or_default();
        let mut tokens = self.prompts.control().encode(self.prompts.tokenizer(), behind)?;
        match tokens.first() {
            Some(&first) if first == self.end_of_turn => Ok(tokens.split_off(1)),
            _ => Err(PromptError::Template(RenderError("the turn before an observation has no end".to_owned()))),
        }
    }

    /// A text up to the end of the fixed turn in it.
    fn through_turn<'a>(&self, text: &'a str) -> Option<&'a str> {
        let probe = text.find(PROBE)?;
        let end = probe + text.get(probe..)?.find(&self.end_text)? + self.end_text.len();
        text.get(..end)
    }

    /// Observations as messages, whose control text is text.
    fn messages(&self, observations: &[Observation<'_>]) -> Result<Vec<Message>, PromptError> {
        let foreign = |text: &str| self.prompts.foreign(text, ControlTokens::All);
        let message = |observation: &Observation<'_>| match *observation {
            Observation::User(content) => Ok(Message::text("user", &foreign(content)?)),
            Observation::Tool { id, name, content } => Ok(Message::of(json!({
                "role": "tool", "content": foreign(content)?, "tool_call_id": foreign(id)?, "name": foreign(name)?
            }))),
        };
        if self.tools_in == ToolsIn::Template {
            return observations.iter().map(message).collect();
        }
        // One message, since many templates want the roles to alternate.
        let text = |observation: &Observation<'_>| match *observation {
            Observation::User(content) => foreign(content),
            Observation::Tool { content, .. } => Ok(tool_response(&foreign(content)?)),
        };
        let texts: Vec<_> = observations.iter().map(text).collect::<Result<_, PromptError>>()?;
        Ok(vec![Message::text("user", &texts.join("\n"))])
    }
}

fn no_tools(why: &str) -> FieldError {
    let allowed = format!("\"system-prompt\" for this model, with which the system message names the tools: {why}");
    FieldError::quoted("tools", "template", allowed)
}
