//! One episode on an OpenEnv server.

use std::sync::Arc;

use evenkeel_environment::{StepResult, Tool, answered, read_call, user_says};
use evenkeel_proto::v1::{AssistantMessage, Verdict};
use serde_json::{Value, json};

use super::kind::ActionKind;
use super::reply::Seen;
use super::socket::Socket;
use crate::failure::Failure;
use crate::rewards::Rewards;

/// An episode with a socket of its own.
pub(crate) struct OpenEnvEpisode {
    socket: Socket,
    kind: Arc<ActionKind>,
    /// What `reset` let be seen, until the model is told.
    first: String,
    /// Rewards of `reset` and all steps.
    rewards: Rewards,
    range: [f64; 2],
    done: bool,
}

impl OpenEnvEpisode {
    pub(super) fn new(socket: Socket, kind: Arc<ActionKind>, first: &Seen, range: [f64; 2]) -> Self {
        // Beside tools it describes no state: the task of the model is the row's prompt.
        let text = if matches!(*kind, ActionKind::Tools(_)) { String::new() } else { first.text.clone() };
        let mut rewards = Rewards::default();
        rewards.add(first.reward);
        Self { socket, kind, first: text, rewards, range, done: false }
    }

    /// Carries out a turn: each call is a step of the environment, or its text is.
    pub(crate) async fn step(&mut self, tools: &[Tool], message: &AssistantMessage) -> Result<StepResult, Failure> {
        let mut step = StepResult::default();
        let mut rewards = Rewards::default();
        if message.tool_calls.is_empty() {
            let seen = match self.kind.of_text(&message.content) {
                None => return Ok(StepResult { done: true, ..step }),
                Some(Ok(action)) => self.act(action).await?,
                Some(Err(seen)) => seen,
            };
            step.tool_errors = u32::from(seen.is_error);
            step.reward = seen.reward;
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
            rewards.add(seen.reward);
            step.messages.push(answered(call, self.told(seen)));
        }
        (step.done, step.reward) = (self.done, rewards.sum());
        Ok(step)
    }

    async fn act(&mut self, action: Value) -> Result<Seen, Failure> {
        let answer = self.socket.ask(json!({"type": "step", "data": action})).await?;
        let seen = Seen::of(answer)?;
        self.rewards.add(seen.reward);
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

    /// The sum of the rewards. Without any the verifier of the task judges.
    pub(crate) fn verdict(&self, id: &str) -> Result<Option<Verdict>, Failure> {
        self.rewards.verdict(id, self.range, "environment.openenv_range")
    }
}
