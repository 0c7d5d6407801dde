//! One episode on an OpenEnv server.

use std::sync::Arc;

use evenkeel_episode::{Step, Tool, answered, read_call, user_says};
use evenkeel_proto::v1::{AssistantMessage, Outcome, Verdict};
use serde_json::{Value, json};

use super::kind::Kind;
use super::reply::Seen;
use super::socket::Socket;
use crate::failure::Failure;

/// An episode with a socket of its own.
pub(crate) struct OpenEnvEpisode {
    socket: Socket,
    kind: Arc<Kind>,
    /// What `reset` let be seen, until the model is told.
    first: String,
    /// The sum of the rewards, once there was one.
    reward: Option<f64>,
    range: [f64; 2],
    done: bool,
}

impl OpenEnvEpisode {
    pub(super) fn new(socket: Socket, kind: Arc<Kind>, first: &Seen, range: [f64; 2]) -> Self {
        // What a model reads before its first turn is the row's prompt.
        let text = if matches!(*kind, Kind::Tools(_)) { String::new() } else { first.text.clone() };
        Self { socket, kind, first: text, reward: first.reward, range, done: false }
    }

    /// Carries out a turn: each call is a step of the environment, or its text is.
    pub(crate) async fn step(&mut self, tools: &[Tool], message: &AssistantMessage) -> Result<Step, Failure> {
        let mut step = Step::default();
        if message.tool_calls.is_empty() {
            let seen = match self.kind.of_text(&message.content) {
                None => return Ok(Step { done: true, ..step }),
                Some(Ok(action)) => self.act(action).await?,
                Some(Err(seen)) => seen,
            };
            step.tool_errors = u32::from(seen.is_error);
            step.messages.push(user_says(self.told(seen)));
            step.done = self.done;
            return Ok(step);
        }
        for call in &message.tool_calls {
            let read = if self.done { Err("the episode is over".to_owned()) } else { read_call(tools, call) };
            let seen = match read {
                Ok(arguments) => self.act(self.kind.of_call(&call.name, arguments)).await?,
                Err(error) => Seen { text: format!("error: {error}"), is_error: true, ..Seen::default() },
            };
            step.tool_errors += u32::from(seen.is_error);
            step.messages.push(answered(call, self.told(seen)));
        }
        step.done = self.done;
        Ok(step)
    }

    async fn act(&mut self, action: Value) -> Result<Seen, Failure> {
        let answer = self.socket.ask(json!({"type": "step", "data": action})).await?;
        let seen = Seen::of(answer)?;
        if let Some(reward) = seen.reward {
            *self.reward.get_or_insert(0.0) += reward;
        }
        self.done |= seen.done;
        Ok(seen)
    }

    /// What is seen, behind what `reset` let be seen the first time.
    fn told(&mut self, seen: Seen) -> String {
        match std::mem::take(&mut self.first) {
            first if first.is_empty() => seen.text,
            first => format!("{first}\n{}", seen.text),
        }
    }

    /// The sum of the rewards. No reward is none, and never 0: the verifier of the task judges then.
    pub(crate) fn verdict(&self, id: &str) -> Result<Option<Verdict>, Failure> {
        let Some(sum) = self.reward else { return Ok(None) };
        let [low, high] = self.range;
        if !(low..=high).contains(&sum) {
            let message =
                format!("the rewards of the episode are {sum} together, allowed: {low} to {high} (openenv_range)");
            return Err(Failure { retryable: false, ..Failure::crashed(message) });
        }
        let reward = (sum - low) / (high - low);
        let outcome = if reward == 1.0 { Outcome::Correct } else { Outcome::Incorrect };
        Ok(Some(Verdict::judged(id, outcome, "environment", reward)))
    }
}
