//! An episode of several turns, played from its opening to its score. One whose environment fails begins again from the
//! start, and no step is repeated.

use std::time::Duration;

use evenkeel_data::EnvironmentTask;
use evenkeel_environment::episode::EpisodeAttempt;
use evenkeel_proto::v1::{OpenEpisode, WeightsRef};
use tokio::time::Instant;

use super::episode_client::{BrokenEpisode, EpisodeClient, EpisodeFault, EpisodeLimits};
use super::generated_part::AcceptedRollout;
use super::in_flight_sample::{InFlightSample, SegmentEnd};
use super::sample::Unscored;
use super::turns::Stop;
use crate::dependency::Dependency;
use crate::error::Halt;
use crate::instruments;

/// How long a worker may hear nothing of an episode; it is told of each every few seconds.
pub(super) const IDLE: Duration = Duration::from_secs(60);

impl InFlightSample {
    /// Plays the whole episode, by these weights.
    ///
    /// # Errors
    /// As [`InFlightSample::sample`].
    pub(super) async fn play(
        &mut self,
        task: &EnvironmentTask,
        weights: Option<WeightsRef>,
    ) -> Result<SegmentEnd, Halt> {
        let turns = self.batch().turns();
        let mut attempt = EpisodeAttempt::open();
        let mut retries = 0;
        let began = Instant::now();
        let mut backoff = self.services().retry_policy().with_jitter(self.id()).backoff();
        loop {
            self.unscored = Some(Unscored::default());
            let broken = match self.attempt(task, weights.clone(), attempt).await {
                Ok(mut accepted) => {
                    accepted.played_again(retries);
                    return Ok(SegmentEnd::Whole(Box::new(accepted)));
                }
                Err(Stop::NotSampled { message }) => {
                    self.unscored = None;
                    return Ok(SegmentEnd::Exhausted { message, late: self.was_late() });
                }
                Err(Stop::Broken(broken)) => broken,
                Err(Stop::Halt(halt)) => return Err(halt),
            };
            let BrokenEpisode { message, late, kind, is_crash } = broken;
            let is_full =
                kind == EpisodeFault::Overloaded && began.elapsed() < self.services().settings().outage_timeout;
            if !is_full {
                retries += 1;
            }
            if kind == EpisodeFault::Final || retries >= turns.attempts {
                self.unscored = self.unscored.map(|unscored| Unscored { is_crash, ..unscored });
                return Ok(SegmentEnd::Exhausted { message: format!("environment: {message}"), late });
            }
            instruments::retry(Dependency::Environment);
            tracing::debug!(message, retries, "playing the episode again from the start");
            // This is the attempt as it began: what became of it is known to its client alone.
            attempt.lose();
            attempt = attempt.again(u32::MAX).unwrap_or_else(EpisodeAttempt::open);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn attempt(
        &mut self,
        task: &EnvironmentTask,
        weights: Option<WeightsRef>,
        attempt: EpisodeAttempt,
    ) -> Result<AcceptedRollout, Stop> {
        let turns = self.batch().turns();
        let text = self.batch().episode_text(&task.environment)?;
        let link = self.services().environments()?.open(OpenEpisode {
            episode_id: self.id(),
            attempt: attempt.number(),
            environment: task.environment.to_string(),
            task: task.payload.to_vec(),
            seed: self.seed(),
            deadline_ms: Some(turns.step_deadline.as_millis() as u64),
            idle_ms: Some(IDLE.as_millis() as u64),
            traceparent: self.span().to_string(),
        });
        let link = self.with_environment(link).await;
        let limits = EpisodeLimits { step: turns.step_deadline, deadline: Instant::now() + turns.episode_deadline };
        let mut client = EpisodeClient::new(self.id(), link, attempt, limits);
        let opened = self.with_environment(client.opened()).await?;
        self.take_turns(client, &text, weights, opened).await
    }
}
