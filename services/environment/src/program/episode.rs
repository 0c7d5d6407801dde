//! One episode of a Python file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_environment::{StepResult, Tool, answered, read_call, user_says};
use evenkeel_proto::v1::{AssistantMessage, EnvironmentMessage, EpisodeFailure, FinishReason, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::process::{In, Place};
use crate::failure::Failure;
use crate::score::Score;

/// Time limit of ending an episode, which nobody waits for.
const CLOSE: Duration = Duration::from_secs(60);

/// An episode of a file of the user's own.
pub(crate) struct ProgramEpisode {
    place: Place,
    /// The start of the process that it is in.
    start: u64,
    /// What the process calls it.
    id: String,
    /// The texts that `reset` gave for the model.
    first: Vec<String>,
}

/// What the file did, or why it did not.
#[derive(Deserialize)]
struct ProgramAnswer<T> {
    #[serde(default)]
    task_error: String,
    #[serde(default)]
    error: String,
    #[serde(flatten)]
    value: Option<T>,
}

#[derive(Deserialize)]
struct Begun {
    first: Vec<String>,
}

#[derive(Deserialize)]
struct Seen {
    observations: Vec<String>,
    done: bool,
    tool_errors: u32,
    reward: Option<f64>,
}

#[derive(Deserialize)]
struct Scored {
    score: Option<Score>,
}

impl<T> ProgramAnswer<T> {
    fn value(self) -> Result<T, Failure> {
        match self.value {
            _ if !self.task_error.is_empty() => Err(Failure::new(EpisodeFailure::TaskInvalid, self.task_error)),
            Some(value) if self.error.is_empty() => Ok(value),
            _ if self.error.is_empty() => Err(Failure::crashed("its process returned an invalid answer")),
            _ => Err(Failure::crashed(self.error)),
        }
    }
}

impl ProgramEpisode {
    pub(super) async fn open(place: Place, task: &[u8], seed: u64, limit: Duration) -> Result<Self, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let task = match task {
            [] => Ok(None),
            // As it is: numbers keep all of their digits.
            task => serde_json::from_slice::<Box<RawValue>>(task).map(Some),
        };
        let task =
            task.map_err(|error| Failure::new(EpisodeFailure::TaskInvalid, format!("the task is not JSON: {error}")))?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let task = task.as_ref().map_or("{}", |task| task.get());
        let request = format!(r#"{{"do": "open", "episode": "{id}", "task": {task}, "seed": {seed}}}"#);
        let (start, answer) = place.ask::<ProgramAnswer<Begun>>(In::Any, request, limit).await?;
        // From here on it is closed when it is dropped, also where it was refused.
        let mut episode = Self { place, start, id, first: Vec::new() };
        episode.first = answer.value()?.first;
        episode.first.retain(|text| !text.is_empty());
        Ok(episode)
    }

    /// What the model reads after the row's prompt.
    pub(crate) fn first_messages(&self) -> Vec<EnvironmentMessage> {
        self.first.iter().cloned().map(user_says).collect()
    }

    /// Carries out a turn. Calls that no tool could take do not reach the file.
    pub(crate) async fn step(
        &mut self,
        tools: &[Tool],
        message: &AssistantMessage,
        finish_reason: FinishReason,
        limit: Duration,
    ) -> Result<StepResult, Failure> {
        let read: Vec<_> = message.tool_calls.iter().map(|call| read_call(tools, call)).collect();
        let valid: Vec<Value> = message
            .tool_calls
            .iter()
            .zip(&read)
            .filter_map(|(call, read)| {
                let arguments = read.as_ref().ok()?;
                Some(json!({"name": call.name, "arguments": arguments, "id": call.id}))
            })
            .collect();
        let mut step = StepResult::default();
        let mut seen = Seen { observations: Vec::new(), done: false, tool_errors: 0, reward: None };
        if !valid.is_empty() || message.tool_calls.is_empty() {
            let finish_reason = if finish_reason == FinishReason::Length { "length" } else { "stop" };
            let request = json!({
                "do": "step", "episode": self.id,
                "text": message.content, "calls": valid, "finish_reason": finish_reason,
            })
            .to_string();
            let (_, answer) = self.place.ask::<ProgramAnswer<Seen>>(In::Start(self.start), request, limit).await?;
            seen = answer.value()?;
        }
        (step.done, step.tool_errors, step.reward) = (seen.done, seen.tool_errors, seen.reward);
        let mut observations = seen.observations.into_iter();
        if message.tool_calls.is_empty() {
            step.messages.extend(observations.map(user_says));
            return Ok(step);
        }
        for (call, read) in message.tool_calls.iter().zip(read) {
            let result = match read {
                Ok(_) if seen.done && observations.len() == 0 => continue,
                Ok(_) => observations.next().ok_or_else(|| Failure::crashed("an observation of a call is missing"))?,
                Err(error) => {
                    step.tool_errors += 1;
                    format!("error: {error}")
                }
            };
            step.messages.push(answered(call, result));
        }
        Ok(step)
    }

    /// What the file makes of the episode.
    pub(crate) async fn verdict(&mut self, id: &str, limit: Duration) -> Result<Option<Verdict>, Failure> {
        let request = json!({"do": "score", "episode": self.id}).to_string();
        let (_, answer) = self.place.ask::<ProgramAnswer<Scored>>(In::Start(self.start), request, limit).await?;
        answer.value()?.score.map(|score| score.verdict(id)).transpose()
    }
}

impl Drop for ProgramEpisode {
    fn drop(&mut self) {
        self.place.close(self.start, json!({"do": "close", "episode": self.id}).to_string(), CLOSE);
    }
}
