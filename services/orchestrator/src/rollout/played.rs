//! What is known of an episode that was played with an environment, besides its response.

use evenkeel_environment::budget::UsedUp;
use evenkeel_proto::v1::{AssistantMessage, EnvironmentMessage, MessageRole, Observed, TurnContext, Verdict};
use evenkeel_run::RolloutTurn;

/// The role of turns that the model sampled.
const ASSISTANT: &str = "assistant";
/// The role of a prompt that an agent has made.
const PROMPT: &str = "prompt";

/// An episode as a record of its turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EpisodeRecord {
    /// What was said, in its order.
    pub(crate) turns: Vec<RolloutTurn>,
    /// Turns that the model sampled.
    pub(crate) sampled_turns: u32,
    pub(crate) tool_calls: u32,
    /// Tool calls that could not be carried out.
    pub(crate) tool_errors: u32,
    /// Time of the environment's steps.
    pub(crate) environment_us: u64,
    /// The budget that ended it.
    pub(crate) used_up: Option<UsedUp>,
    /// Attempts after the first.
    pub(crate) retries: u32,
    /// Sequences that carry it: one, and one more for each turn with a prompt of its own.
    pub(crate) sequences: u32,
    /// Turns after the first, and those of them that the engine of the turn before sampled.
    pub(crate) later_turns: u32,
    pub(crate) same_engine: u32,
}

impl EpisodeRecord {
    /// An engine has sampled a turn, where the turn before was sampled by another one or the same; empty for the first
    /// turn.
    pub(super) fn sampled_by(&mut self, before: &str, engine: &str) {
        if !before.is_empty() {
            self.later_turns += 1;
            self.same_engine += u32::from(before == engine);
        }
    }

    /// The model has said something.
    pub(super) fn sampled(&mut self, text: String, tokens: u32, message: &AssistantMessage) {
        self.sampled_turns += 1;
        self.tool_calls += message.tool_calls.len() as u32;
        self.turns.push(RolloutTurn { role: ASSISTANT.to_owned(), text, tokens, trained: true, reward: None });
    }

    /// The environment has carried out a turn, which is the last thing that was said.
    pub(super) fn observed(&mut self, observed: &Observed) {
        self.tool_errors = self.tool_errors.saturating_add(observed.tool_errors);
        self.environment_us = self.environment_us.saturating_add(observed.work_us);
        if let Some(turn) = self.turns.last_mut() {
            turn.reward = observed.reward;
        }
    }

    /// The next turn follows a prompt of its own, which has this text.
    pub(super) fn prompted(&mut self, text: String) {
        self.turns.push(RolloutTurn { role: PROMPT.to_owned(), text, tokens: 0, trained: false, reward: None });
    }

    /// Adds messages that the model reads next, as `tokens` tokens together with the boundaries.
    pub(super) fn added(&mut self, messages: Vec<EnvironmentMessage>, tokens: u32) {
        let last = messages.len().saturating_sub(1);
        for (index, message) in messages.into_iter().enumerate() {
            let role = if message.role() == MessageRole::Tool { "tool" } else { "user" };
            // Tokens are of all of them together.
            let tokens = if index == last { tokens } else { 0 };
            let role = role.to_owned();
            let text = message.content;
            self.turns.push(RolloutTurn { role, text, tokens, trained: false, reward: None });
        }
    }
}

/// An episode that is over.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) record: EpisodeRecord,
    /// What the environment makes of it; `None` leaves that to the verifier of the task.
    pub(super) verdict: Option<Verdict>,
    /// The tokens of the last turn, which is the answer.
    pub(super) answer: Vec<u32>,
    /// Whether what was before it ends within `<think>`.
    pub(super) in_thinking: bool,
    /// The prompts of turns that have their own.
    pub(super) contexts: Vec<TurnContext>,
}
