//! What is said in an episode, as far as the prompt of its next turn follows from it: a row, what an environment
//! answers, or what an agent asks.

use std::sync::Arc;

use evenkeel_environment::tool_calls::Turn;
use evenkeel_proto::v1::{EnvironmentMessage, MessageRole, ModelRequest, Observed, Opened};

use super::growing_response::BeforeTurn;
use crate::data::{AgentConversation, Asked, EpisodeText, PastTurns};
use crate::error::RunError;

/// What is said so far.
pub(super) enum Talk {
    /// A row asks, and its environment answers the turns.
    Row { asked: Option<Arc<Asked>>, past: PastTurns },
    Agent {
        conversation: AgentConversation,
        /// What it asks of the next turn besides.
        request: ModelRequest,
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
    /// No prompt can be made of what an agent asks, or the environment says. Another attempt would end alike.
    Refused(String),
    /// The worker breaks the protocol.
    Worker(&'static str),
}

impl From<RunError> for Stuck {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Talk {
    /// The beginning: an agent has asked something, or the environment may have said something.
    ///
    /// # Errors
    /// An agent that asks nothing, or what is no conversation; a first message that is not of the user.
    pub(super) fn begin(text: &EpisodeText, asked: Option<Arc<Asked>>, opened: Opened) -> Result<Self, Stuck> {
        if !text.is_agent() {
            if opened.messages.iter().any(|message| message.role() != MessageRole::User) {
                return Err(Stuck::Worker("a message before the first turn that is not of the user"));
            }
            return Ok(Self::Row { asked, past: PastTurns::after(text.cut_all(opened.messages)?) });
        }
        let request = opened.request.ok_or(Stuck::Worker("an agent that asks nothing"))?;
        Ok(Self::Agent { conversation: read(&request)?, request })
    }

    /// The prompt of the first turn, where it is not that of the row.
    ///
    /// # Errors
    /// What the template does not take.
    pub(super) fn first_prompt(&self, text: &EpisodeText) -> Result<Option<Vec<u32>>, Stuck> {
        match self {
            Self::Row { past, .. } if past.first.is_empty() => Ok(None),
            Self::Row { asked, past } => match text.whole_prompt(require(asked.as_deref())?, past) {
                Ok(prompt) => Ok(Some(prompt)),
                Err(error) => Err(Stuck::Refused(format!("what the environment says first cannot be read: {error}"))),
            },
            Self::Agent { conversation, .. } => prompt_of(text, conversation).map(Some),
        }
    }

    /// What the environment said before the first turn; nothing of an agent.
    pub(super) fn first_messages(&self) -> &[EnvironmentMessage] {
        match self {
            Self::Row { past, .. } => &past.first,
            Self::Agent { .. } => &[],
        }
    }

    /// The most tokens that an agent wants for its answer.
    pub(super) fn max_tokens(&self) -> u32 {
        self.request().and_then(|request| request.max_tokens).unwrap_or(u32::MAX)
    }

    /// The texts at which an agent wants its answer to end.
    pub(super) fn stop(&self) -> &[String] {
        self.request().map_or(&[], |request| &request.stop)
    }

    /// Whether an agent wants to know the tokens of its answer.
    pub(super) fn wants_tokens(&self) -> bool {
        self.request().is_some_and(|request| request.wants_tokens)
    }

    fn request(&self) -> Option<&ModelRequest> {
        match self {
            Self::Row { .. } => None,
            Self::Agent { request, .. } => Some(request),
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
                let prompt = text.whole_prompt(require(asked.as_deref())?, past);
                let prompt = prompt.map_err(|error| RunError::model(std::path::Path::new("chat template"), error))?;
                Ok(NextTurn { before: BeforeTurn::Prompt(prompt), messages, is_agents: false })
            }
            Self::Row { .. } => {
                let (messages, added) = text.observe(observed.messages, last)?;
                Ok(NextTurn { before: BeforeTurn::Added(added), messages, is_agents: false })
            }
            Self::Agent { conversation, request } => {
                *request = observed.request.ok_or(Stuck::Worker("an agent that asks nothing"))?;
                if !request.conversation.is_empty() {
                    *conversation = read(request)?;
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

fn require(asked: Option<&Asked>) -> Result<&Asked, RunError> {
    asked.ok_or_else(|| RunError::Defect("a prompt without what the row asks".to_owned()))
}

fn read(request: &ModelRequest) -> Result<AgentConversation, Stuck> {
    AgentConversation::read(&request.conversation).map_err(|error| Stuck::Refused(error.to_string()))
}

fn prompt_of(text: &EpisodeText, conversation: &AgentConversation) -> Result<Vec<u32>, Stuck> {
    match text.prompt_of(conversation) {
        Ok(prompt) if prompt.is_empty() => Err(Stuck::Refused("what the agent asks has no tokens".to_owned())),
        Ok(prompt) => Ok(prompt),
        Err(error) => Err(Stuck::Refused(format!("what the agent asks cannot be rendered: {error}"))),
    }
}
