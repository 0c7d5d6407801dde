//! What the environment of a worker says in a demonstration of several turns: it is played as an episode is.

use evenkeel_environment::episode::EpisodeAttempt;
use evenkeel_proto::v1::{Act, FinishReason, OpenEpisode};
use tokio::time::Instant;

use super::episode_client::{BrokenEpisode, EpisodeClient, EpisodeFault, EpisodeLimits};
use super::play::IDLE;
use crate::clients::Services;
use crate::data::{DemonstrationAnswers, EpisodeText, ToPlay, ends_early, refused};
use crate::error::RunError;
use crate::settings::TurnsSettings;

/// Has a demonstration played, as often as an episode is tried.
///
/// # Errors
/// An environment that cannot play it, by the name of its row.
pub(crate) async fn play_demonstration(
    services: &Services,
    turns: TurnsSettings,
    text: &EpisodeText,
    demonstration: ToPlay<'_>,
) -> Result<DemonstrationAnswers, RunError> {
    let mut backoff = services.retry_policy().with_jitter(demonstration.problem.id.to_string()).backoff();
    let mut number = 0;
    loop {
        number += 1;
        let BrokenEpisode { message, kind, .. } = match attempt(services, turns, text, demonstration).await? {
            Ok(answers) => return Ok(answers),
            Err(broken) => broken,
        };
        if kind == EpisodeFault::Final || number >= turns.attempts {
            let message = message.lines().next().unwrap_or_default().to_owned();
            return Err(refused(&demonstration.problem.id, message, "one that its environment plays"));
        }
        tokio::time::sleep(backoff.next_pause()).await;
    }
}

async fn attempt(
    services: &Services,
    turns: TurnsSettings,
    text: &EpisodeText,
    ToPlay { problem, task, turns: said, .. }: ToPlay<'_>,
) -> Result<Result<DemonstrationAnswers, BrokenEpisode>, RunError> {
    let episode_id = format!("demonstration/{}", problem.id);
    let attempt = EpisodeAttempt::open();
    let link = services.environments()?.open(OpenEpisode {
        episode_id: episode_id.clone(),
        attempt: attempt.number(),
        environment: task.environment.to_string(),
        task: task.payload.to_vec(),
        deadline_ms: Some(turns.step_deadline.as_millis() as u64),
        idle_ms: Some(IDLE.as_millis() as u64),
        ..OpenEpisode::default()
    });
    let limits = EpisodeLimits { step: turns.step_deadline, deadline: Instant::now() + turns.episode_deadline };
    let mut client = EpisodeClient::new(episode_id, link.await, attempt, limits);
    let mut answers = match client.opened().await {
        Ok(opened) => DemonstrationAnswers { first: opened.messages, between: Vec::new() },
        Err(broken) => return Ok(Err(broken)),
    };
    let earlier = said.split_last().map_or(&[][..], |(_, earlier)| earlier);
    for (number, said) in (1..).zip(earlier) {
        let message = Some(text.read_demonstrated(number, said)?.message);
        let act = Act { message, finish_reason: FinishReason::Stop.into(), ..Act::default() };
        match client.step(act).await {
            Ok(observed) if observed.done => return Err(ends_early(&problem.id, number)),
            Ok(observed) => answers.between.push(observed.messages),
            Err(broken) => return Ok(Err(broken)),
        }
    }
    Ok(Ok(answers))
}
