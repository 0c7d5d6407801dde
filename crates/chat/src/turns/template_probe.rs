//! What a chat template does with turns and observations, found by trying a table of fixed conversations.

use evenkeel_errors::FieldError;
use serde_json::{Value, json};

use super::{Observation, PROBE, ToolsIn, TurnRenderer, TurnSettings, no_tools};
use crate::prompt::Message;
use crate::prompt_error::PromptError;

/// Contents of observations that the checks try.
const OBSERVED: [&str; 2] = ["ok", "Line 1\n\n  line 2: 3.5 × é <b> {\"a\": [1]}\n"];

/// The tool of the results that are tried; not the probe itself, which must not stand behind the turn.
const PROBE_TOOL: &str = "tool";

/// A fixed conversation that ends with a turn of the model.
struct Trial {
    /// An earlier turn and its observation; empty for the first turn.
    before: Vec<Message>,
    turn: Message,
}

impl Trial {
    fn is_later(&self) -> bool {
        !self.before.is_empty()
    }
}

/// The text of a trial, alone and with each of the [`OBSERVED`] behind it.
struct Rendered {
    alone: String,
    followed: [String; 2],
}

impl TurnRenderer {
    /// The renderer with what the template was found to do.
    ///
    /// # Errors
    /// What the template does not do, by the name of the setting that helps.
    pub(super) fn checked(self, settings: &TurnSettings) -> Result<Self, FieldError> {
        let asked = [Message::text("user", "?")];
        let broken = |error: PromptError| FieldError::new("chat template", "refused", error.to_string());
        let prompt = self.prompts.turns(&asked, true).map_err(broken)?;
        let mut roles = Vec::new();
        if !settings.tools.is_empty() {
            roles.push(false);
        }
        if settings.user_speaks {
            roles.push(true);
        }
        let mut kept = self;
        // A template that knows no tools leaves calls out: there is nothing behind which a result could stand.
        if settings.is_agent && (kept.tools_in == ToolsIn::SystemPrompt || kept.mentions("tools")) {
            kept.called = match kept.turn_before(false, &prompt, settings) {
                Ok(called) => Some(called),
                // What is to become of earlier turns is for the settings to say.
                Err(error) if error.field == "earlier_turns" => return Err(error),
                Err(_) => None,
            };
        }
        for &by_user in &roles {
            let said = kept.turn_before(by_user, &prompt, settings)?;
            if !by_user || settings.tools.is_empty() {
                kept.said = said;
            }
        }
        if !settings.is_agent {
            kept.called = Some(kept.said.clone());
        } else if kept.called.is_some() {
            roles.push(false);
        }
        if !kept.is_brief(&roles) {
            kept.brief = None;
        }
        Ok(kept)
    }

    /// Checks one kind of observation. Returns a turn that the template takes before it.
    fn turn_before(&self, by_user: bool, prompt: &str, settings: &TurnSettings) -> Result<Message, FieldError> {
        let role = if by_user || self.tools_in == ToolsIn::SystemPrompt { "user" } else { "tool" };
        let mut tails = Vec::new();
        let mut taken = Vec::new();
        let mut refusal = String::new();
        let broken = |error: PromptError| FieldError::new("chat template", "refused", error.to_string());
        for trial in self.trials(by_user, prompt).map_err(broken)? {
            match self.render(&trial, by_user) {
                Ok(rendered) => {
                    tails.push(self.tails(&rendered, role, settings.keeps_turns)?);
                    if !trial.is_later() {
                        taken.push(trial.turn);
                    }
                }
                Err(why) if trial.is_later() && taken.contains(&trial.turn) => {
                    return Err(depends_on(role, &format!("it is refused after the second turn ({why})")));
                }
                Err(why) => refusal = why,
            }
        }
        if tails.iter().any(|tail| *tail != tails[0]) {
            return Err(depends_on(role, "its tokens depend on the turns before it"));
        }
        taken.into_iter().next().ok_or_else(|| match role {
            "tool" => no_tools(&format!("the chat template refuses a message of the role `tool`: {refusal}")),
            _ => {
                FieldError::new("chat template", "refused", format!("one that takes another user message ({refusal})"))
            }
        })
    }

    /// The conversations that are tried: each turn first, then each behind itself and an observation.
    fn trials(&self, by_user: bool, prompt: &str) -> Result<Vec<Trial>, PromptError> {
        let turns = self.turns_to_try(prompt);
        let observed = self.messages(&[observed(by_user, "ok")])?;
        let later = turns.iter().map(|turn| {
            let before = [vec![without_probe(turn)], observed.clone()].concat();
            Trial { before, turn: turn.clone() }
        });
        let later: Vec<_> = later.collect();
        Ok(turns.into_iter().map(|turn| Trial { before: Vec::new(), turn }).chain(later).collect())
    }

    /// What the template makes of a trial.
    ///
    /// # Errors
    /// Why it refuses the trial.
    fn render(&self, trial: &Trial, by_user: bool) -> Result<Rendered, String> {
        let mut messages = vec![Message::text("user", "?")];
        messages.extend(trial.before.iter().cloned());
        messages.push(trial.turn.clone());
        let followed = OBSERVED.map(|content| {
            let followed = |observed: Vec<Message>| self.prompts.turns(&[messages.clone(), observed].concat(), true);
            self.messages(&[observed(by_user, content)]).and_then(followed).map_err(|error| error.to_string())
        });
        let alone = self.prompts.turns(&messages, false).map_err(|error| error.to_string());
        let [first, second] = followed;
        Ok(Rendered { followed: [first?, second?], alone: alone? })
    }

    /// The tokens of each observation, once the text in front of it and its own words are as they must be.
    fn tails(&self, rendered: &Rendered, role: &str, keeps_turns: bool) -> Result<[Vec<u32>; 2], FieldError> {
        let [first, second] = &rendered.followed;
        if !keeps_turns {
            let before = self.through_turn(&rendered.alone);
            if before.is_none_or(|before| !first.starts_with(before) || !second.starts_with(before)) {
                return Err(rewrites(role));
            }
        }
        let depends = |error: PromptError| depends_on(role, &error.to_string());
        let tails = [self.behind(first).map_err(depends)?, self.behind(second).map_err(depends)?];
        for (text, content) in [first, second].into_iter().zip(OBSERVED) {
            let before = self.through_turn(text).map_or(0, str::len);
            if !text.get(before..).is_some_and(|behind| behind.contains(content.trim())) {
                return Err(depends_on(role, "it leaves out what is observed"));
            }
        }
        Ok(tails)
    }

    /// Turns that the model could sample after the prompt.
    fn turns_to_try(&self, prompt: &str) -> Vec<Message> {
        let calls = json!([{"id": "call_1_1", "type": "function", "function": {"name": PROBE, "arguments": {"a": 1}}}]);
        let mut turns = vec![
            json!({"role": "assistant", "content": PROBE}),
            json!({"role": "assistant", "content": format!("One line.\n\nAnother: {PROBE}.")}),
        ];
        // A template that knows no tools leaves calls out.
        if self.tools_in == ToolsIn::Template && self.mentions("tools") {
            turns.insert(0, json!({"role": "assistant", "content": "", "tool_calls": calls}));
        }
        let with_reasoning = turns.iter().cloned().map(|mut turn| {
            turn["reasoning_content"] = Value::from("Reasons.");
            turn
        });
        // Where the prompt leaves it to the model to think, it does.
        let thinks = |turn: &Value| {
            let messages = [Message::text("user", "?"), Message::of(turn.clone())];
            let text = self.prompts.turns(&messages, false).unwrap_or_default();
            text.starts_with(prompt) && text.contains("Reasons.")
        };
        let thoughtful: Vec<_> = with_reasoning.filter(thinks).collect();
        let turns = if thoughtful.is_empty() { turns } else { thoughtful };
        turns.into_iter().map(Message::of).collect()
    }

    /// Whether the short way has the tokens of the long one.
    fn is_brief(&self, roles: &[bool]) -> bool {
        let same =
            |observations: &[Observation<'_>]| match (self.between(observations), self.between_in_full(observations)) {
                (Ok(brief), Ok(full)) => brief == full,
                _ => false,
            };
        roles.iter().all(|&by_user| {
            let [first, second] = OBSERVED.map(|content| observed(by_user, content));
            same(&[first]) && same(&[second]) && (by_user || same(&[first, second]))
        })
    }
}

/// An observation of a kind.
fn observed(by_user: bool, content: &str) -> Observation<'_> {
    if by_user { Observation::User(content) } else { Observation::Tool { id: "call_1_1", name: PROBE_TOOL, content } }
}

/// The turn without the word by which a turn is found.
fn without_probe(turn: &Message) -> Message {
    let text = Value::Object(turn.fields().clone()).to_string().replace(PROBE, "earlier");
    serde_json::from_str(&text).map_or_else(|_| turn.clone(), Message::of)
}

fn rewrites(role: &str) -> FieldError {
    let allowed = format!(
        "\"keep\" for this model, with which earlier turns stay in the context as they were sampled, or \"rewrite\", \
         with which each turn has a separate prompt: the chat template writes them differently once a message of the \
         role `{role}` follows, as templates do that strip reasoning"
    );
    FieldError::quoted("earlier_turns", "as-template", allowed)
}

fn depends_on(role: &str, why: &str) -> FieldError {
    let allowed = "a chat template that appends a message with the same tokens whatever the turns before it were";
    FieldError::new(format!("chat template, messages of the role `{role}`"), why, allowed)
}
