//! An episode of several turns: the model's are sampled, the environment answers, until one of them or a budget ends it.
//!
//! The response is one growing list of tokens. What was sampled stays as it is; what the environment says is added as tokens that nobody
//! sampled. An episode whose environment fails begins again from the start, and no step is repeated.

use std::time::Duration;

use evenkeel_episode::budget::UsedUp;
use evenkeel_episode::episode::{Episode as States, Received, Said};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, CloseEpisode, CloseReason, EpisodeFailure, FinishReason, Observed, OpenEpisode, Scored, Segment, WeightsRef,
};
use evenkeel_tasks::EnvironmentTask;
use tokio::time::{Instant, timeout_at};

use super::episode::{Accepted, Episode, Generated, SegmentEnd};
use super::played::{EpisodeRecord, Played};
use super::response_part::ResponsePart;
use crate::clients::EpisodeLink;
use crate::data::{EpisodeText, SampledTurn};
use crate::dependency::Dependency;
use crate::error::Halt;
use crate::instruments;

/// How long a worker may hear nothing of an episode; it is told of each every few seconds.
const IDLE: Duration = Duration::from_secs(60);
/// How much longer than the worker this side waits for an answer.
const GRACE: Duration = Duration::from_secs(2);

/// How an attempt at an episode ended.
enum Attempt {
    /// It is over.
    Whole(Box<Accepted>),
    /// A turn could not be sampled: that was tried often enough.
    NotSampled { message: String },
    /// The environment failed.
    Failed { message: String, late: bool, kind: Fault },
}

/// What a failure of an environment means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Another attempt may succeed.
    Retryable,
    /// The worker is full, which is no attempt.
    Overloaded,
    /// Every other attempt ends the same way.
    Final,
}

/// Why nothing more is heard of an episode.
struct Broken {
    message: String,
    late: bool,
    kind: Fault,
}

impl From<Broken> for Attempt {
    fn from(Broken { message, late, kind }: Broken) -> Self {
        Self::Failed { message, late, kind }
    }
}

impl Episode {
    /// Plays the whole episode, by these weights.
    ///
    /// # Errors
    /// As [`Episode::sample`].
    pub(super) async fn play(
        &mut self,
        task: &EnvironmentTask,
        weights: Option<WeightsRef>,
    ) -> Result<SegmentEnd, Halt> {
        let turns = self.batch().turns();
        let (mut states, mut retries, began) = (States::open(), 0, Instant::now());
        let mut backoff = self.services().retry_policy().with_jitter(self.id()).backoff();
        loop {
            let attempt = self.attempt(task, weights.clone(), states).await?;
            let (message, late, kind) = match attempt {
                Attempt::Whole(mut accepted) => {
                    accepted.played_again(retries);
                    return Ok(SegmentEnd::Whole(accepted));
                }
                Attempt::NotSampled { message } => {
                    return Ok(SegmentEnd::Exhausted { message, late: self.was_late() });
                }
                Attempt::Failed { message, late, kind } => (message, late, kind),
            };
            let is_full = kind == Fault::Overloaded && began.elapsed() < self.services().settings().outage_timeout;
            if !is_full {
                retries += 1;
            }
            if kind == Fault::Final || retries >= turns.attempts {
                return Ok(SegmentEnd::Exhausted { message: format!("environment: {message}"), late });
            }
            instruments::retry(Dependency::Environment);
            tracing::debug!(message, retries, "playing the episode again from the start");
            // The states are those of the first attempt as long as it was not opened.
            states.lose();
            states = states.again(u32::MAX).unwrap_or_else(States::open);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn attempt(
        &mut self,
        task: &EnvironmentTask,
        weights: Option<WeightsRef>,
        states: States,
    ) -> Result<Attempt, Halt> {
        let turns = self.batch().turns();
        let text = self.batch().episode_text(&task.environment)?;
        let link = self.services().environments()?.open(OpenEpisode {
            episode_id: self.id(),
            attempt: states.attempt(),
            environment: task.environment.to_string(),
            task: task.payload.to_vec(),
            seed: self.seed(),
            deadline_ms: Some(turns.step_deadline.as_millis() as u64),
            idle_ms: Some(IDLE.as_millis() as u64),
            traceparent: self.span().to_string(),
        });
        let link = link.await;
        let deadline = Instant::now() + turns.episode_deadline;
        let mut table = Table { link, states, step: turns.step_deadline, deadline, id: self.id() };
        let attempt = match table.opened().await {
            Ok(()) => self.turns(&mut table, &text, weights).await?,
            Err(broken) => broken.into(),
        };
        Ok(attempt)
    }

    async fn turns(
        &mut self,
        table: &mut Table,
        text: &EpisodeText,
        weights: Option<WeightsRef>,
    ) -> Result<Attempt, Halt> {
        let budget = text.budget(self.whole().max_tokens);
        let (mut response, mut used) = (Vec::<Segment>::new(), 0_u32);
        let mut record = EpisodeRecord::default();
        loop {
            let most = budget.next_turn(used).unwrap_or(1);
            let part = ResponsePart {
                weights: weights.clone(),
                sampling: self.whole().rest(used).at_most(most),
                before: std::mem::take(&mut response),
                is_last: true,
            };
            let in_thinking = self.batch().opens_thinking_after(self.request(), &part.before);
            let mut ignored = || {};
            let generated = tokio::select! {
                generated = self.generate_part(&part, &mut ignored) => generated?,
                () = tokio::time::sleep_until(table.deadline) => return Ok(table.out_of_time().into()),
            };
            let mut rollout = match generated {
                Generated::Accepted(accepted) => accepted.into_rollout(),
                Generated::Exhausted { last } => return Ok(Attempt::NotSampled { message: last }),
            };
            response = std::mem::take(&mut rollout.segments);
            let sampled: Vec<u32> = tokens_from(&response, used as usize);
            used += sampled.len() as u32;
            let finish_reason = rollout.finish_reason();
            let is_ended = finish_reason == FinishReason::Stop;
            let turn = SampledTurn { number: record.sampled_turns + 1, token_ids: &sampled, is_ended, in_thinking };
            let (said, parsed) = text.read(turn)?;
            record.sampled(said, sampled.len() as u32, &parsed.message);
            let mut over = |record: EpisodeRecord, response: Vec<Segment>, scored: Scored| {
                rollout.segments = response;
                if record.used_up.is_some() {
                    rollout.set_finish_reason(FinishReason::Length);
                }
                let played = Played { record, verdict: scored.verdict, answer: sampled.clone(), in_thinking };
                Attempt::Whole(Box::new(Accepted::of_episode(std::mem::take(&mut rollout), played)))
            };
            // A turn that the whole response has no more room for is the last one.
            let cut_off = (!is_ended).then(|| budget.cut_off(used));
            if cut_off == Some(UsedUp::Tokens) {
                record.used_up = cut_off;
                return Ok(match table.end().await {
                    Ok(scored) => over(record, response, scored),
                    Err(broken) => broken.into(),
                });
            }
            let act = Act { message: Some(parsed.message), finish_reason: finish_reason.into(), ..Act::default() };
            let observed = match table.step(act).await {
                Ok(observed) => observed,
                Err(broken) => return Ok(broken.into()),
            };
            record.observed(&observed);
            if observed.done {
                record.used_up = cut_off;
                return Ok(match table.scored().await {
                    Ok(scored) => over(record, response, scored),
                    Err(broken) => broken.into(),
                });
            }
            let last = sampled.last().copied().unwrap_or_default();
            let (messages, added) = text.observe(observed.messages, last)?;
            let tokens = u32::try_from(added.len()).unwrap_or(u32::MAX);
            if budget.has_no_turn_after(record.sampled_turns) {
                record.used_up = Some(UsedUp::Turns);
            } else if !budget.fits(used, tokens) {
                record.used_up = Some(UsedUp::Context);
            }
            if record.used_up.is_some() {
                return Ok(match table.end().await {
                    Ok(scored) => over(record, response, scored),
                    Err(broken) => broken.into(),
                });
            }
            record.added(messages, tokens);
            response.push(Segment::injected(added));
            used += tokens;
        }
    }
}

/// The tokens of a response from an index on.
fn tokens_from(response: &[Segment], from: usize) -> Vec<u32> {
    response.iter().flat_map(|segment| segment.token_ids.iter().copied()).skip(from).collect()
}

/// An episode with its worker.
struct Table {
    link: EpisodeLink,
    states: States,
    /// Time limit of one answer.
    step: Duration,
    /// When the episode must be over.
    deadline: Instant,
    id: String,
}

impl Table {
    async fn opened(&mut self) -> Result<(), Broken> {
        self.answer().await.map(drop)
    }

    /// Has a turn carried out.
    async fn step(&mut self, act: Act) -> Result<Observed, Broken> {
        let turn = self.states.act().map_err(|error| self.defect(&error.to_string()))?;
        let (episode_id, attempt) = (self.id.clone(), self.states.attempt());
        let deadline_ms = Some(self.step.as_millis() as u64);
        self.link.send(Kind::Act(Act { episode_id, attempt, turn, deadline_ms, ..act })).await;
        match self.answer().await? {
            Event::Observed(observed) if observed.done || !observed.messages.is_empty() => Ok(observed),
            _ => Err(self.defect("an observation without a message")),
        }
    }

    /// Has what was reached scored.
    async fn end(&mut self) -> Result<Scored, Broken> {
        self.states.end().map_err(|error| self.defect(&error.to_string()))?;
        let (episode_id, attempt) = (self.id.clone(), self.states.attempt());
        let (reason, deadline_ms) = (CloseReason::Budget.into(), Some(self.step.as_millis() as u64));
        self.link.send(Kind::Close(CloseEpisode { episode_id, attempt, reason, deadline_ms })).await;
        self.scored().await
    }

    async fn scored(&mut self) -> Result<Scored, Broken> {
        let Event::Scored(scored) = self.answer().await? else {
            return Err(self.defect("no score"));
        };
        self.link.ended();
        if let Some(verdict) = &scored.verdict {
            let checked = verdict.validate().map_err(|error| error.to_string());
            checked.map_err(|error| self.defect(&format!("the score violates the protocol: {error}")))?;
            if !verdict.is_valid() {
                let message = verdict.reason_with_detail();
                return Err(Broken { message, late: false, kind: Fault::Retryable });
            }
        }
        Ok(scored)
    }

    /// The event with which the episode leaves the state that it is in.
    async fn answer(&mut self) -> Result<Event, Broken> {
        let limit = (Instant::now() + self.step + GRACE).min(self.deadline);
        loop {
            let event = match timeout_at(limit, self.link.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    self.states.lose();
                    let message = format!("the worker {} was lost", self.link.worker());
                    return Err(Broken { message, late: false, kind: Fault::Retryable });
                }
                Err(_) if Instant::now() >= self.deadline => return Err(self.out_of_time()),
                Err(_) => {
                    self.states.lose();
                    let message =
                        format!("no answer of {} within {}", self.link.worker(), evenkeel_config::human(self.step));
                    return Err(Broken { message, late: true, kind: Fault::Retryable });
                }
            };
            let Some(kind) = event.kind else {
                return Err(self.defect("an event without a kind"));
            };
            match self.states.receive(event.attempt, said(&kind)) {
                Received::Late => instruments::late_event(),
                Received::Violation(what) => return Err(self.defect(what)),
                Received::Taken => match kind {
                    Event::Failed(failed) => {
                        self.link.ended();
                        let kind = match (failed.failure(), failed.retryable) {
                            (EpisodeFailure::Overloaded, true) => Fault::Overloaded,
                            (_, true) => Fault::Retryable,
                            (_, false) => Fault::Final,
                        };
                        let late = failed.failure() == EpisodeFailure::Timeout;
                        let label = evenkeel_proto::Label::label(failed.failure());
                        return Err(Broken { message: format!("{label}: {}", failed.message), late, kind });
                    }
                    other => return Ok(other),
                },
            }
        }
    }

    fn defect(&self, what: &str) -> Broken {
        let message = format!("the worker {} breaks the protocol: {what}", self.link.worker());
        Broken { message, late: false, kind: Fault::Retryable }
    }

    /// The wall clock of the episode has run out. Another attempt would take as long.
    fn out_of_time(&self) -> Broken {
        let message = "the episode took longer than turns.episode_deadline".to_owned();
        Broken { message, late: true, kind: Fault::Final }
    }
}

fn said(kind: &Event) -> Said {
    match kind {
        Event::Opened(_) => Said::Opened,
        Event::Observed(observed) => Said::Observed { turn: observed.turn, done: observed.done },
        Event::Scored(_) => Said::Scored,
        Event::Failed(failed) => Said::Failed { retryable: failed.retryable },
    }
}
