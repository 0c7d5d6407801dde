//! One row through an environment: opened, one call of a tool, an answer, and the score.

use evenkeel_data::EnvironmentTask;
use evenkeel_environment::Description;
use evenkeel_environment::episode::EpisodeAttempt;
use evenkeel_proto::v1::{Act, AssistantMessage, FinishReason, OpenEpisode, ToolCall};
use tokio::time::{Instant, timeout};

use super::arguments::arguments;
use super::{TrialFinding, TrialRow};
use crate::clients::EnvironmentClient;
use crate::rollout::{BrokenEpisode, EpisodeClient, EpisodeLimits};
use crate::settings::TurnsSettings;

const ID: &str = "trial";

/// Exceptions that no argument explains.
const OF_CODE: [&str; 6] =
    ["NameError", "UnboundLocalError", "AttributeError", "TypeError", "ImportError", "ModuleNotFoundError"];

/// Plays an episode of the row without a model.
pub(super) async fn play(
    environments: &EnvironmentClient,
    row: &TrialRow,
    task: &EnvironmentTask,
    description: Option<&Description>,
    turns: TurnsSettings,
) -> Option<TrialFinding> {
    let limit = turns.step_deadline.as_millis() as u64;
    let attempt = EpisodeAttempt::open();
    let open = environments.open(OpenEpisode {
        episode_id: ID.to_owned(),
        attempt: attempt.number(),
        environment: task.environment.to_string(),
        task: task.payload.to_vec(),
        deadline_ms: Some(limit),
        idle_ms: Some(limit),
        ..OpenEpisode::default()
    });
    let said = |what: &str, why: &str| format!("environment {}: row `{}`: {what}: {why}", task.environment, row.id);
    let Ok(link) = timeout(turns.step_deadline, open).await else {
        return Some(TrialFinding::Problem(said("it is not opened", "no worker has room for it")));
    };
    let limits = EpisodeLimits { step: turns.step_deadline, deadline: Instant::now() + turns.episode_deadline };
    let client = EpisodeClient::new(ID.to_owned(), link, attempt, limits);
    let call = description.and_then(call);
    let answer = row.answer().unwrap_or_default();
    match episode(client, call, &answer).await {
        Ok(()) => None,
        Err(Failed { what, broken, may_be_odd }) => {
            // A traceback is for the run.
            let why = broken.message.lines().next().unwrap_or_default();
            let words = said(&what, why);
            let is_of_code = OF_CODE.iter().any(|kind| why.contains(kind));
            Some(if may_be_odd && !is_of_code {
                TrialFinding::Note(format!(
                    "{words}. An exception ends the episode, which is then left out: answer a call that makes no sense \
                     with a text"
                ))
            } else {
                TrialFinding::Problem(words)
            })
        }
    }
}

/// What an environment did not do.
struct Failed {
    what: String,
    broken: BrokenEpisode,
    /// Whether what it was given was made up.
    may_be_odd: bool,
}

async fn episode(mut client: EpisodeClient, call: Option<ToolCall>, answer: &str) -> Result<(), Failed> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |broken| Failed { what, broken, may_be_odd: false }
    };
    client.opened().await.map_err(failed("reset"))?;
    let mut is_done = false;
    if let Some(call) = call {
        let what = format!("a call of the tool `{}` with {}", call.name, call.arguments);
        let message =
            AssistantMessage { text: call.arguments.clone(), tool_calls: vec![call], ..AssistantMessage::default() };
        let observed = client.step(act(message)).await;
        is_done = observed.map_err(|broken| Failed { what, broken, may_be_odd: true })?.done;
    }
    if !is_done {
        let text = answer.to_owned();
        let message = AssistantMessage { content: text.clone(), text, ..AssistantMessage::default() };
        let what = format!("the turn `{answer}`, the row's answer");
        is_done = client.step(act(message)).await.map_err(failed(&what))?.done;
    }
    let scored = if is_done { client.scored().await } else { client.end().await };
    scored.map_err(failed("score")).map(|_| ())
}

fn act(message: AssistantMessage) -> Act {
    Act { message: Some(message), finish_reason: FinishReason::Stop.into(), ..Act::default() }
}

/// A call of the first tool whose schema says enough to make its arguments.
fn call(description: &Description) -> Option<ToolCall> {
    description.tools.iter().find_map(|tool| {
        let arguments = arguments(&tool.parameters)?.to_string();
        let name = tool.name.clone();
        Some(ToolCall { id: "call_1_1".to_owned(), name, arguments, error: String::new() })
    })
}
