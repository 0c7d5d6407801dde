//! Environments on servers that speak OpenEnv's protocol (0.10): one WebSocket for each episode.
//!
//! There are no numbers in that protocol: an answer belongs to the request before it. So a socket on which anything was
//! late, or came at the wrong time, is closed and never used again.

mod address;
mod episode;
mod kind;
mod reply;
mod schema;
mod socket;
mod tls;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_environment::{Description, OPENENV};
use evenkeel_proto::v1::EpisodeFailure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::error::EnvironmentError;
use crate::failure::Failure;

pub(crate) use episode::OpenEnvEpisode;
use kind::ActionKind;
use reply::Seen;
use socket::Socket;

/// How long a server may take until it says what its environment is: it may start with the worker.
const FIND: Duration = Duration::from_secs(60);
/// How long one attempt at that may take, and the pause before the next one.
const ATTEMPT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// The largest seed that environments take, some of which hand it to numpy.
const MAX_SEED: u64 = u32::MAX as u64;
/// Longest name of an episode, in characters.
const MAX_ID: usize = 255;

/// A server of one environment.
pub(crate) struct OpenEnvServer {
    address: String,
    kind: Arc<ActionKind>,
    /// The sums of an episode's rewards that count as 0 and 1.
    range: [f64; 2],
}

impl OpenEnvServer {
    /// Asks a server what its environment is.
    ///
    /// # Errors
    /// One that does not answer, or has no actions that a model could take.
    pub(crate) async fn find(address: &str, range: [f64; 2]) -> Result<(Self, Description), EnvironmentError> {
        let until = Instant::now() + FIND;
        loop {
            let asked = timeout(ATTEMPT, ActionKind::ask(address)).await;
            let failure = match asked {
                Ok(Ok(kind)) => {
                    let digest = evenkeel_host::sha256(kind.description().to_string());
                    let description = Description {
                        name: format!("{OPENENV}{address}"),
                        system_prompt: String::new(),
                        user_speaks: kind.user_speaks(),
                        tools: kind.tools().to_vec(),
                        digest,
                        is_agent: false,
                    };
                    let server = Self { address: address.to_owned(), kind: Arc::new(kind), range };
                    return Ok((server, description));
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::timeout("its answer", ATTEMPT),
            };
            if !failure.retryable || Instant::now() > until {
                return Err(EnvironmentError::OpenEnv { address: address.to_owned(), message: failure.message });
            }
            tracing::info!(address, "{}; it is asked again", failure.message);
            sleep(PAUSE).await;
        }
    }

    /// Begins an episode: a socket, and `reset` with the seed and what the row has in its column `reset`.
    ///
    /// # Errors
    /// A server that is full, fails, or refuses the task.
    pub(crate) async fn open(&self, (task, seed): (&[u8], u64), id: &str) -> Result<OpenEnvEpisode, Failure> {
        let invalid = |message: String| Failure::new(EpisodeFailure::TaskInvalid, message);
        let row: Value = match task {
            [] => Value::Null,
            task => serde_json::from_slice(task).map_err(|error| invalid(format!("the task is not JSON: {error}")))?,
        };
        let mut data = match row.get("reset") {
            None | Some(Value::Null) => serde_json::Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(other) => {
                return Err(invalid(format!("`reset` is {other}, allowed: an object with what `reset` takes")));
            }
        };
        data.entry("seed").or_insert_with(|| (seed & MAX_SEED).into());
        data.entry("episode_id").or_insert_with(|| id.chars().take(MAX_ID).collect::<String>().into());
        let mut socket = Socket::connect(&self.address).await?;
        let seen = socket.ask(json!({"type": "reset", "data": data})).await?;
        let first = Seen::of(seen)?;
        if first.done {
            return Err(Failure::crashed("the episode was over when it began"));
        }
        Ok(OpenEnvEpisode::new(socket, Arc::clone(&self.kind), &first, self.range))
    }
}
