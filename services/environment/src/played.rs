//! Who plays an episode: the program itself, the sandbox, a Python file of the user's own, an OpenEnv server, or an
//! agent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use evenkeel_environment::{Environment, StepResult, Tool, step};
use evenkeel_proto::v1::{EnvironmentMessage, EpisodeFailure, ModelRequest, Verdict};
use tokio::time::{Instant, timeout};

use crate::action::Action;
use crate::agent::AgentEpisode;
use crate::failure::Failure;
#[cfg(feature = "openenv")]
use crate::openenv::OpenEnvEpisode;
use crate::program::ProgramEpisode;
use crate::sandboxed::SandboxEpisode;

/// An episode that is open. Dropping it ends it.
pub(crate) enum Played {
    BuiltIn(Box<dyn Environment>),
    Program(ProgramEpisode),
    #[cfg(feature = "openenv")]
    OpenEnv(OpenEnvEpisode),
    Sandboxed(SandboxEpisode),
    Agent(Box<AgentEpisode>),
}

impl Played {
    /// Carries out a turn.
    ///
    /// # Errors
    /// A step that takes longer than `limit`, an environment that fails. The episode is over then.
    pub(crate) async fn step(
        &mut self,
        tools: &[Tool],
        action: Action,
        limit: Duration,
    ) -> Result<StepResult, Failure> {
        let message = &action.message;
        let finish_reason = action.finish_reason;
        match self {
            Self::BuiltIn(environment) => {
                at_once("the step", limit, || step(environment.as_mut(), message, finish_reason))
            }
            Self::Program(episode) => episode.step(tools, message, finish_reason, limit).await,
            #[cfg(feature = "openenv")]
            Self::OpenEnv(episode) => within("the step", limit, episode.step(tools, message)).await,
            Self::Sandboxed(episode) => within("the step", limit, episode.step(tools, message)).await,
            Self::Agent(episode) => {
                within("what the agent does between two requests", limit, episode.step(action)).await
            }
        }
    }

    /// What the environment makes of the episode; `None` leaves that to the verifier of the task.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub(crate) async fn verdict(&mut self, id: &str, limit: Duration) -> Result<Option<Verdict>, Failure> {
        match self {
            Self::BuiltIn(environment) => at_once("scoring", limit, || environment.verdict(id)),
            Self::Program(episode) => episode.verdict(id, limit).await,
            #[cfg(feature = "openenv")]
            Self::OpenEnv(episode) => episode.verdict(id),
            Self::Sandboxed(_) => Ok(None),
            Self::Agent(episode) => within("the end of the agent", limit, episode.verdict(id)).await,
        }
    }

    /// What the model reads before its first turn, besides the row's prompt.
    pub(crate) fn first_messages(&self) -> Vec<EnvironmentMessage> {
        match self {
            Self::Program(episode) => episode.first_messages(),
            _ => Vec::new(),
        }
    }

    /// What an agent asks first.
    pub(crate) fn request(&self) -> Option<ModelRequest> {
        match self {
            Self::Agent(episode) => Some(episode.first_request()),
            _ => None,
        }
    }
}

/// Does something of an environment that comes with the program, whose defects end the episode alone.
pub(crate) fn at_once<T>(what: &str, limit: Duration, work: impl FnOnce() -> T) -> Result<T, Failure> {
    let began = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        tracing::error!("an environment panicked");
        Failure::new(EpisodeFailure::Internal, "the environment failed unexpectedly")
    })?;
    if began.elapsed() <= limit { Ok(done) } else { Err(Failure::timeout(what, limit)) }
}

/// Waits for something no longer than it may take.
pub(crate) async fn within<T>(
    what: &str,
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(Failure::timeout(what, limit)))
}
