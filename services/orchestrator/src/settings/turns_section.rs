//! Section `turns`: episodes with several turns, of tasks that are done in an environment.

use std::time::Duration;

use evenkeel_chat::ToolsIn;
use evenkeel_config::{HumanDuration, Settings, at_least_1ms, at_least_one};
use evenkeel_environment::tool_calls::CallForm;
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::section;
use super::{LoopSettings, StepOrder};

/// Most turns with a prompt of their own: the learner takes no more sequences of a response.
const MOST_REWRITTEN: u32 = 64;

/// How the model is told of its tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolsSetting {
    /// By the chat template, which has a place for tools and for their results.
    #[default]
    Template,
    /// In the system message; results are messages of the user. For templates without tools.
    SystemPrompt,
}

/// How the model writes calls of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolCallSetting {
    /// As Hermes and Qwen: `<tool_call>{"name": ..., "arguments": ...}</tool_call>`.
    Hermes,
    /// As Llama 3: `{"name": ..., "parameters": ...}`.
    Llama3,
}

/// What happens to earlier turns that the chat template would change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EarlierTurns {
    /// Such a template is refused.
    #[default]
    AsTemplate,
    /// Earlier turns stay in the context as they were sampled, reasoning included.
    Keep,
    /// The template writes them: each turn has a separate prompt, and is trained on after that prompt.
    Rewrite,
}

section! {
    /// Section `turns`: episodes with several turns, of tasks that are done in an environment (`data.environment`).
    /// Without such tasks it has no effect.
    #[derive(Copy)]
    pub struct TurnsSettings {
        /// Turns that an episode may have, at least 1, and at most 64 with `earlier_turns = "rewrite"` and with agents.
        max_turns: u32 = 8,
        /// Tokens that one turn may sample; 0 for no separate limit. `sampling.max_tokens` limits the whole response:
        /// what all turns sample, and what is added between them.
        max_turn_tokens: u32 = 0,
        /// Tokens of one message of an environment, at least 16; what is longer is cut, with a mark. Those of agents
        /// are never cut.
        max_observation_tokens: u32 = 512,
        /// How the model is told of its tools: `template`, or `system-prompt` for chat templates that have no place for
        /// tools.
        tools: ToolsSetting = ToolsSetting::Template,
        /// How the model writes calls of tools: `hermes` (Qwen and many others) or `llama3`. Absent: as its chat
        /// template has it, and `hermes` with `tools = "system-prompt"`.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_calls: Option<ToolCallSetting> = None,
        /// What happens to earlier turns that the chat template would change, such as by stripping reasoning:
        /// `as-template` refuses such a template, `keep` keeps them in the context as they were sampled, and with
        /// `rewrite` each turn has a separate prompt, as the template renders it. An episode then has several
        /// sequences, and counts as one response.
        earlier_turns: EarlierTurns = EarlierTurns::AsTemplate,
        /// Time limit of one answer of an environment. Waiting for a worker does not count.
        #[serde(with = "HumanDuration")]
        step_deadline: Duration = Duration::from_secs(60),
        /// Time limit of an episode from its opening to its score, sampling included. What takes longer is invalid and
        /// counts as late: it is no failure of the model.
        #[serde(with = "HumanDuration")]
        episode_deadline: Duration = Duration::from_secs(3600),
        /// Attempts at an episode whose environment fails, is late or is lost, each from the start; after that it is
        /// dropped as invalid.
        attempts: u32 = 3,
    }
}

impl Settings for TurnsSettings {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_one(&[("max_turns", self.max_turns.into()), ("attempts", self.attempts.into())])?;
        let rewrites = self.earlier_turns == EarlierTurns::Rewrite;
        let allowed = format!("at most {MOST_REWRITTEN} with earlier_turns = \"rewrite\"");
        FieldError::ensure(!rewrites || self.max_turns <= MOST_REWRITTEN, "max_turns", self.max_turns, allowed)?;
        let tokens = self.max_observation_tokens;
        FieldError::ensure(tokens >= 16, "max_observation_tokens", tokens, "at least 16")?;
        at_least_1ms(&[("step_deadline", self.step_deadline), ("episode_deadline", self.episode_deadline)])
    }
}

impl TurnsSettings {
    /// The settings that decide what is sampled; the others as by default.
    pub(super) fn result_affecting(self) -> Self {
        let Self { step_deadline, episode_deadline, attempts, .. } = Self::default();
        Self { step_deadline, episode_deadline, attempts, ..self }
    }

    /// Whether nothing is set.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How the model is told of its tools.
    pub(crate) fn tools_in(self) -> ToolsIn {
        match self.tools {
            ToolsSetting::Template => ToolsIn::Template,
            ToolsSetting::SystemPrompt => ToolsIn::SystemPrompt,
        }
    }

    /// How the model writes calls, whose chat template has that text.
    ///
    /// # Errors
    /// A template that shows none, where nothing else says so.
    pub(crate) fn call_form(self, template: Option<CallForm>) -> Result<CallForm, FieldError> {
        let allowed = "hermes or llama3, since the chat template does not show how the model writes calls of tools";
        match (self.tool_calls, self.tools) {
            (Some(ToolCallSetting::Hermes), _) | (None, ToolsSetting::SystemPrompt) => Ok(CallForm::Hermes),
            (Some(ToolCallSetting::Llama3), _) => Ok(CallForm::Llama3),
            (None, ToolsSetting::Template) => template.ok_or_else(|| FieldError::missing("tool_calls", allowed)),
        }
    }
}

impl LoopSettings {
    /// Refuses what does not go with episodes of several turns, whose versions follow from the schedule alone.
    pub(super) fn validate_turns(&self) -> Result<(), FieldError> {
        let named = self.data.environment.iter().chain(&self.data.environments);
        for name in named.clone() {
            if evenkeel_environment::EnvironmentOrigin::of("data.environment", name)?.is_agent() {
                let turns = self.turns.max_turns;
                let allowed = format!("at most {MOST_REWRITTEN} with `{name}`");
                FieldError::ensure(turns <= MOST_REWRITTEN, "turns.max_turns", turns, allowed)?;
            }
        }
        if named.count() == 0 {
            return Ok(());
        }
        let allowed = "with data.environment: every turn of an episode is sampled by the version of its step";
        if self.pipeline.order == StepOrder::Completion {
            return Err(FieldError::quoted("pipeline.order", "completion", format!("\"data\" {allowed}")));
        }
        FieldError::ensure(!self.pipeline.partial, "pipeline.partial", true, format!("false {allowed}"))?;
        FieldError::ensure(!self.data.raw, "data.raw", true, "false with data.environment, whose episodes are chats")
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::tests::load;

    #[test]
    fn what_does_not_go_with_turns_is_refused_by_name() {
        let with = |text: &str| load(&format!("[data]\nenvironment = \"calculator\"\n{text}"));
        assert!(with("").is_ok());
        for (text, words) in [
            ("environments = [\"x\"]", "`data.environment` is \"x\" in"),
            ("raw = true", "`data.raw` is true in test, allowed: false with data.environment"),
            ("[turns]\nmax_turns = 0", "`turns.max_turns` is 0 in test, allowed: at least 1"),
            (
                "[turns]\nmax_turns = 65\nearlier_turns = \"rewrite\"",
                "`turns.max_turns` is 65 in test, allowed: at most 64 with earlier_turns",
            ),
            (
                "environments = [\"agent:a.py\"]\n[turns]\nmax_turns = 65",
                "`turns.max_turns` is 65 in test, allowed: at most 64 with `agent:a.py`",
            ),
            ("[turns]\nmax_observation_tokens = 3", "`turns.max_observation_tokens` is 3 in test"),
            ("[turns]\nstep_deadline = \"0s\"", "`turns.step_deadline` is 0s in test"),
            ("[turns]\ntools = \"none\"", "`turns.tools` is \"none\" in test, allowed: "),
            (
                "[pipeline]\nmax_lag = 1\norder = \"completion\"",
                "`pipeline.order` is \"completion\" in test, allowed: \"data\" with data.environment",
            ),
            ("[pipeline]\nmax_lag = 1\npartial = true", "`pipeline.partial` is true in test, allowed: false with"),
        ] {
            let error = with(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn deadlines_may_change_when_a_run_is_resumed_and_budgets_may_not() {
        let affecting = |text: &str| load(text).unwrap().result_affecting();
        assert_eq!(
            affecting(""),
            affecting("[turns]\nstep_deadline = \"1s\"\nepisode_deadline = \"9s\"\nattempts = 9")
        );
        assert_ne!(affecting(""), affecting("[turns]\nmax_turns = 2"));
        assert_ne!(affecting(""), affecting("[data]\nenvironment = \"calculator\""));
    }
}
