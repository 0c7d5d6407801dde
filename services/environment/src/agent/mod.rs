//! Agents: programs that run a whole episode by themselves and ask the model at a chat endpoint of the worker, as they
//! would ask OpenAI's.
//!
//! | file | |
//! |---|---|
//! | `endpoint` | requests of all agents over HTTP, each held until the model has answered |
//! | `request`, `message` | what a request may ask |
//! | `conversation` | whether it goes on with the conversation before |
//! | `answer` | what it is answered with |
//! | `episode` | an agent's requests as the turns of an episode |
//! | `program` | a program that is started for each episode, and ended with all that it has started |
//! | `taskset`, `host` | tasksets of verifiers: processes that play several episodes at once |
//!
//! What an agent does wrong is no failure of the model: its episode has no reward then.

mod answer;
mod conversation;
mod endpoint;
mod episode;
mod host;
mod message;
mod program;
mod request;
mod run;
mod taskset;

pub(crate) use endpoint::Endpoint;
pub(crate) use episode::AgentEpisode;
pub(crate) use program::AgentProgram;
pub(crate) use taskset::Taskset;
