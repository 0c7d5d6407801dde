//! What is said in an episode, as far as the prompt of its next turn follows from it: a row, what an environment
//! answers, or what an agent asks.

use std::sync::Arc;

use evenkeel_environment::tool_calls::Turn;
use evenkeel_proto::v1::{EnvironmentMessage, ModelRequest, Observed};

use super::growing_response::BeforeTurn;
use crate::data::{AgentConversation, Asked, EpisodeText, PastTurns};
use crate::error::RunError;

/// What is said so far.
pub(super) enum Talk {
    /// A row asks, and its environment answers the turns.
    Row {
        asked: Option<Arc<Asked>>,
        past: PastTurns,
    },
    Agent {
        conversation: AgentConversation,
        max_tokens: Option<u32>,
    },
}

/// What precedes the next turn.
pub(super) struct NextTurn {
    pub(super) before: BeforeTurn,
    /// What is said, for the record.
    pub(super) messages: Vec<EnvironmentMessage>,
    /// Whether it is a prompt that an agent has made.
    pub(super) is_agents: bool,
}

/// Why there is no next turn.
pub(super) enum Stuck {
    /// A defect of the run, or of the model.
    Run(RunError),
    /// The agent asks what no prompt can be made of.
    Agent(String),
    /// The worker breaks the protocol.
    Worker(&'static str),
}

impl From<RunError> for Stuck {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Talk {
    /// The beginning: `request` is what an agent asks first.
    ///
    /// # Errors
    /// An agent that asks nothing, or what is no conversation.
    pub(super) fn begin(
        text: &EpisodeText,
        asked: Option<Arc<Asked>>,
        request: Option<ModelRequest>,
    ) -> Result<Self, Stuck> {
        if !text.is_agent() {
            return Ok(Self::Row { asked, past: PastTurns::default() });
        }
        let request = request.ok_or(Stuck::Worker("an agent that asks nothing"))?;
        Ok(Self::Agent { conversation: read(&request)?, max_tokens: request.max_tokens })
    }

    /// The prompt of the first turn, where it is not that of the row.
    ///
    /// # Errors
    /// What the template does not take.
    pub(super) fn first_prompt(&self, text: &EpisodeText) -> Result<Option<Vec<u32>>, Stuck> {
        match self {
            Self::Row { .. } => Ok(None),
            Self::Agent { conversation, .. } => prompt_of(text, conversation).map(Some),
        }
    }

    /// The most tokens that an agent wants for its answer.
    pub(super) fn max_tokens(&self) -> u32 {
        match self {
            Self::Agent { max_tokens: Some(tokens), .. } => *tokens,
            _ => u32::MAX,
        }
    }

    /// Goes on with what was observed after a turn, whose last token is `last`.
    ///
    /// # Errors
    /// What the template does not take; a worker that breaks the protocol.
    pub(super) fn go_on(
        &mut self,
        text: &EpisodeText,
        (turn, last): (Turn, u32),
        observed: Observed,
    ) -> Result<NextTurn, Stuck> {
        match self {
            Self::Row { asked, past } if text.rewrites() => {
                let messages = text.cut_all(observed.messages)?;
                past.push(turn, messages.clone());
                let asked = asked.as_deref();
                let asked = asked.ok_or_else(|| RunError::Defect("a prompt without what the row asks".to_owned()))?;
                let before = BeforeTurn::Prompt(text.later_prompt(asked, past)?);
                Ok(NextTurn { before, messages, is_agents: false })
            }
            Self::Row { .. } => {
                let (messages, added) = text.observe(observed.messages, last)?;
                Ok(NextTurn { before: BeforeTurn::Added(added), messages, is_agents: false })
            }
            Self::Agent { conversation, max_tokens } => {
                let request = observed.request.ok_or(Stuck::Worker("an agent that asks nothing"))?;
                *max_tokens = request.max_tokens;
                if !request.conversation.is_empty() {
                    *conversation = read(&request)?;
                    let before = BeforeTurn::Prompt(prompt_of(text, conversation)?);
                    return Ok(NextTurn { before, messages: Vec::new(), is_agents: true });
                }
                let messages = observed.messages;
                conversation.push(turn, messages.clone());
                let before = match text.appended(&messages, last) {
                    Some(added) => BeforeTurn::Added(added),
                    None => BeforeTurn::Prompt(prompt_of(text, conversation)?),
                };
                Ok(NextTurn { before, messages, is_agents: false })
            }
        }
    }
}

fn read(request: &ModelRequest) -> Result<AgentConversation, Stuck> {
    AgentConversation::read(&request.conversation).map_err(|error| Stuck::Agent(error.to_string()))
}

fn prompt_of(text: &EpisodeText, conversation: &AgentConversation) -> Result<Vec<u32>, Stuck> {
    match text.prompt_of(conversation) {
        Ok(prompt) if prompt.is_empty() => Err(Stuck::Agent("what the agent asks has no tokens".to_owned())),
        Ok(prompt) => Ok(prompt),
        Err(error) => Err(Stuck::Agent(format!("what the agent asks cannot be rendered: {error}"))),
    }
}
