//! Episodes of an environment as the model reads them: prompts with tools, turns taken apart, observations as tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_chat::{Observation, PastTurn, Prompt, PromptError, PromptRenderer, TurnRenderer, TurnSettings};
use evenkeel_environment::budget::Budget;
use evenkeel_environment::tool_calls::{CallForm, Turn};
use evenkeel_environment::{Description, Descriptions, EnvironmentOrigin};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{EnvironmentMessage, MessageRole};
use serde_json::Value;

use super::agent::AgentConversation;
use crate::error::RunError;
use crate::settings::{EarlierTurns, LoopSettings};
use crate::text::Tokenizer;

/// Bytes of an observation that are looked at for each token that it may have: no token of a usual vocabulary is
/// longer.
const BYTES_PER_TOKEN: usize = 64;

/// How the episodes of one environment are told to the model.
#[derive(Debug)]
pub(crate) struct EpisodeText {
    pub(super) renderer: TurnRenderer,
    pub(super) form: CallForm,
    pub(super) tokenizer: Tokenizer,
    max_observation_tokens: usize,
    max_turns: u32,
    max_turn_tokens: u32,
    rewrites: bool,
    is_agent: bool,
}

/// Texts of all environments that the settings name.
pub(crate) type EpisodeTexts = Arc<BTreeMap<String, Arc<EpisodeText>>>;

/// What a row asks, from which prompts are rendered that have more than the row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) prompt: Prompt,
    pub(crate) suffix: Option<String>,
}

/// What was said in an episode so far.
#[derive(Debug, Default)]
pub(crate) struct PastTurns {
    /// What the environment said before any turn.
    pub(crate) first: Vec<EnvironmentMessage>,
    /// The turns, each with what the environment said to it.
    turns: Vec<(Turn, Vec<EnvironmentMessage>)>,
}

impl PastTurns {
    /// An episode that begins with these messages.
    pub(crate) fn after(first: Vec<EnvironmentMessage>) -> Self {
        Self { first, turns: Vec::new() }
    }

    /// A turn is over.
    pub(crate) fn push(&mut self, turn: Turn, messages: Vec<EnvironmentMessage>) {
        self.turns.push((turn, messages));
    }
}

impl EpisodeText {
    /// # Errors
    /// A chat template that does not go with turns, by the setting that helps.
    fn new(
        environment: &Description,
        prompts: &PromptRenderer,
        tokenizer: &Tokenizer,
        settings: &LoopSettings,
    ) -> Result<Self, FieldError> {
        let turns = settings.turns;
        let renderer = TurnRenderer::new(
            prompts,
            &TurnSettings {
                system_prompt: environment.system_prompt.clone(),
                tools: environment.tools.iter().map(evenkeel_environment::Tool::function).collect(),
                tools_in: turns.tools_in(),
                user_speaks: environment.user_speaks,
                keeps_turns: turns.earlier_turns != EarlierTurns::AsTemplate,
                is_agent: environment.is_agent,
            },
        )
        .map_err(by_setting)?;
        let by_settings = turns.call_form(CallForm::of_template(|word| renderer.mentions(word)));
        let form = match environment.tools.is_empty() {
            // Its tools are not known beforehand.
            true if environment.is_agent => by_settings.unwrap_or(CallForm::Hermes),
            // Whatever looks like a call is answered that there is no such tool.
            true => CallForm::Hermes,
            false => by_settings.map_err(|error| error.within("turns"))?,
        };
        Ok(Self {
            renderer,
            form,
            tokenizer: tokenizer.clone(),
            max_observation_tokens: turns.max_observation_tokens as usize,
            max_turns: turns.max_turns,
            max_turn_tokens: turns.max_turn_tokens,
            rewrites: turns.earlier_turns == EarlierTurns::Rewrite,
            is_agent: environment.is_agent,
        })
    }

    /// Texts of all environments of the settings; `described` are those that do not come with the program.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn all(
        prompts: &PromptRenderer,
        tokenizer: &Tokenizer,
        settings: &LoopSettings,
        described: &Descriptions,
    ) -> Result<EpisodeTexts, RunError> {
        let mut texts = BTreeMap::new();
        for name in settings.data.environment.iter().chain(&settings.data.environments) {
            if !texts.contains_key(name) {
                let environment = match EnvironmentOrigin::of("data.environment", name)? {
                    EnvironmentOrigin::BuiltIn(built_in) => Description::from(built_in),
                    _ => described.get(name).cloned().ok_or_else(|| {
                        let allowed = "an environment that a worker has described (endpoints.environment)";
                        FieldError::quoted("data.environment", name, allowed)
                    })?,
                };
                texts.insert(name.clone(), Arc::new(Self::new(&environment, prompts, tokenizer, settings)?));
            }
        }
        Ok(Arc::new(texts))
    }

    /// Renders prompts of the environment's tasks.
    pub(super) fn prompts(&self) -> &PromptRenderer {
        self.renderer.prompts()
    }

    /// Budget of an episode whose whole response may have `tokens` tokens.
    pub(crate) fn budget(&self, tokens: u32) -> Budget {
        let turn_tokens = if self.max_turn_tokens == 0 { tokens } else { self.max_turn_tokens };
        Budget { turns: self.max_turns, turn_tokens, tokens }
    }

    /// Whether each turn has a prompt of its own.
    pub(crate) fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Whether an agent asks, with prompts and tools of its own.
    pub(crate) fn is_agent(&self) -> bool {
        self.is_agent
    }

    /// The prompt of what an agent asks, as the template renders it.
    ///
    /// # Errors
    /// Messages or tools that the template does not take.
    pub(crate) fn prompt_of(&self, asked: &AgentConversation) -> Result<Vec<u32>, PromptError> {
        let turns: Vec<_> = asked.turns().map(|(turn, messages)| past_turn(turn, messages)).collect();
        self.renderer.conversation(asked.messages(), asked.tools(), &turns)
    }

    /// The tokens between a turn of an agent's conversation and the next one. `None`: its prompt has to be rendered as
    /// a whole, since the settings say so, or the template does not append such messages.
    pub(crate) fn appended(&self, messages: &[EnvironmentMessage], last: u32) -> Option<Vec<u32>> {
        let is_alike = messages.windows(2).all(|pair| pair[0].role == pair[1].role);
        if self.rewrites || !is_alike {
            return None;
        }
        let observations: Vec<_> = messages.iter().map(observation).collect();
        let between = self.renderer.between(&observations).ok()?;
        Some(self.ended(last, between))
    }

    /// Tokens behind a turn, whose last token is `last`: where that does not end it, the end is added.
    fn ended(&self, last: u32, between: Vec<u32>) -> Vec<u32> {
        let end = self.renderer.end_of_turn();
        (last != end).then_some(end).into_iter().chain(between).collect()
    }

    /// Text of tokens, special ones included.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn text(&self, token_ids: &[u32]) -> Result<String, RunError> {
        self.tokenizer.decode_all(token_ids)
    }

    /// The prompt of the turn after these, as the template renders the conversation.
    ///
    /// # Errors
    /// What the tokenizer or the template says.
    pub(crate) fn whole_prompt(&self, asked: &Asked, past: &PastTurns) -> Result<Vec<u32>, PromptError> {
        let first: Vec<_> = past.first.iter().map(observation).collect();
        let turns: Vec<_> = past.turns.iter().map(|(turn, messages)| past_turn(turn, messages)).collect();
        self.renderer.whole_prompt(&asked.prompt, asked.suffix.as_deref(), &first, &turns)
    }

    /// The messages of an environment with what is too long cut.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(crate) fn cut_all(&self, mut messages: Vec<EnvironmentMessage>) -> Result<Vec<EnvironmentMessage>, RunError> {
        for message in &mut messages {
            message.content = self.cut(std::mem::take(&mut message.content))?;
        }
        Ok(messages)
    }

    /// The messages of an environment with what is too long cut, and the tokens between a turn and the next one. `last`
    /// is the last token of the turn: where that does not end it, the end is added.
    ///
    /// # Errors
    /// What the tokenizer or the template says.
    pub(crate) fn observe(
        &self,
        messages: Vec<EnvironmentMessage>,
        last: u32,
    ) -> Result<(Vec<EnvironmentMessage>, Vec<u32>), RunError> {
        let messages = self.cut_all(messages)?;
        let observations: Vec<_> = messages.iter().map(observation).collect();
        let between = self.renderer.between(&observations);
        let between = between.map_err(|error| RunError::model(std::path::Path::new("chat template"), error))?;
        Ok((messages, self.ended(last, between)))
    }

    /// Cuts a text to `turns.max_observation_tokens`, with a mark where it was cut.
    fn cut(&self, content: String) -> Result<String, RunError> {
        let most = self.max_observation_tokens;
        let mut looked_at = content.as_str();
        if let Some(start) = looked_at.get(..looked_at.floor_char_boundary(most.saturating_mul(BYTES_PER_TOKEN))) {
            looked_at = start;
        }
        let ids = self.tokenizer.encode(looked_at)?;
        if ids.len() <= most && looked_at.len() == content.len() {
            return Ok(content);
        }
        let kept = self.tokenizer.decode_all(&ids[..ids.len().min(most)])?;
        // A token may end within a character.
        let kept = kept.trim_end_matches(char::REPLACEMENT_CHARACTER);
        Ok(format!("{kept}\n[cut off: {} of {} bytes]", kept.len(), content.len()))
    }
}

/// An error by the setting that helps, where one does.
fn by_setting(error: FieldError) -> FieldError {
    let is_setting = matches!(error.field.as_str(), "tools" | "earlier_turns");
    if is_setting { error.within("turns") } else { error }
}

/// A turn as templates take it. One with a call that cannot be read is a text, as it was written.
fn past_turn<'a>(turn: &'a Turn, messages: &'a [EnvironmentMessage]) -> PastTurn<'a> {
    let calls = turn.message.tool_calls.iter().map(|call| {
        let arguments = serde_json::from_str::<Value>(&call.arguments).ok().filter(|_| call.error.is_empty())?;
        Some((call.id.as_str(), call.name.as_str(), arguments))
    });
    let (calls, is_read) = match calls.collect::<Option<Vec<_>>>() {
        Some(calls) => (calls, true),
        None => (Vec::new(), false),
    };
    PastTurn {
        reasoning: &turn.reasoning,
        content: if is_read { &turn.message.content } else { &turn.said },
        calls,
        said: &turn.said,
        observations: messages.iter().map(observation).collect(),
    }
}

fn observation(message: &EnvironmentMessage) -> Observation<'_> {
    match message.role() {
        MessageRole::Tool => {
            Observation::Tool { id: &message.tool_call_id, name: &message.name, content: &message.content }
        }
        MessageRole::User | MessageRole::Unspecified => Observation::User(&message.content),
    }
}
