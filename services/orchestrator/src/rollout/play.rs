//! An episode of several turns: the model's are sampled, the environment answers, until one of them or a budget ends
//! it.
//!
//! The response is one growing list of tokens. What was sampled stays as it is; what the environment says is added as
//! tokens that nobody sampled. Where the template rewrites earlier turns, each turn may have a prompt of its own
//! instead, and a list of tokens with it; so may the turns of an agent, which makes its prompts itself. An episode
//! whose environment fails begins again from the start, and no step is repeated.

use std::time::Duration;

use evenkeel_data::EnvironmentTask;
use evenkeel_environment::budget::UsedUp;
use evenkeel_environment::episode::Episode as States;
use evenkeel_proto::v1::{Act, FinishReason, ModelRequest, OpenEpisode, Scored, WeightsRef};
use tokio::time::Instant;

use super::environment_idle::Place;
use super::episode::{Accepted, Episode, Generated, SegmentEnd};
use super::growing_response::{BeforeTurn, GrowingResponse};
use super::played::{EpisodeRecord, Played};
use super::response_part::ResponsePart;
use super::table::{Broken, Fault, Limits, Table};
use super::talk::{Stuck, Talk};
use crate::data::{EpisodeText, SampledTurn};
use crate::dependency::Dependency;
use crate::error::Halt;
use crate::instruments;

/// How long a worker may hear nothing of an episode; it is told of each every few seconds.
const IDLE: Duration = Duration::from_secs(60);

/// How an attempt at an episode ended.
enum Attempt {
    /// It is over.
    Whole(Box<Accepted>),
    /// A turn could not be sampled: that was tried often enough.
    NotSampled { message: String },
    /// The environment failed.
    Failed { message: String, late: bool, kind: Fault },
}

/// Why an attempt goes on no more.
enum Stop {
    Attempt(Attempt),
    Halt(Halt),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// What becomes of an attempt without a next turn.
fn stop(stuck: Stuck, table: &Table) -> Stop {
    match stuck {
        Stuck::Run(error) => Stop::Halt(error.into()),
        // Another attempt would ask the same.
        Stuck::Agent(message) => Stop::Attempt(Attempt::Failed { message, late: false, kind: Fault::Final }),
        Stuck::Worker(what) => Stop::Attempt(table.defect(what).into()),
    }
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
        let mut states = States::open();
        let mut retries = 0;
        let began = Instant::now();
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
        let link = self.with_environment(link).await;
        let limits = Limits { step: turns.step_deadline, deadline: Instant::now() + turns.episode_deadline };
        let mut table = Table::with_worker(self.id(), link, states, limits);
        let request = match self.with_environment(table.opened()).await {
            Ok(request) => request,
            Err(broken) => return Ok(broken.into()),
        };
        match self.turns(&mut table, &text, weights, request).await {
            Err(Stop::Halt(halt)) => Err(halt),
            Err(Stop::Attempt(attempt)) | Ok(attempt) => Ok(attempt),
        }
    }

    async fn turns(
        &mut self,
        table: &mut Table,
        text: &EpisodeText,
        weights: Option<WeightsRef>,
        request: Option<ModelRequest>,
    ) -> Result<Attempt, Stop> {
        let budget = text.budget(self.whole().max_tokens);
        let has_own_prompts = text.rewrites() || text.is_agent();
        let mut response = GrowingResponse::to_prompt(self.request().prompt_token_ids.len(), has_own_prompts);
        let mut record = EpisodeRecord::default();
        let mut engine = String::new();
        let mut talk = Talk::begin(text, self.request().asked.clone(), request).map_err(|stuck| stop(stuck, table))?;
        if let Some(prompt) = talk.first_prompt(text).map_err(|stuck| stop(stuck, table))? {
            self.begin(&mut response, &mut record, text, prompt)?;
        }
        loop {
            let most = budget.next_turn(response.used()).unwrap_or(1).min(talk.max_tokens());
            let sampling = self.whole().rest(response.position()).at_most(most);
            let part = ResponsePart {
                weights: weights.clone(),
                sampling,
                prompt: response.own_prompt(),
                before: response.lend(),
                engine: std::mem::take(&mut engine),
                is_last: true,
            };
            let in_thinking = self.batch().opens_thinking_after(self.request(), &part);
            let mut ignored = || {};
            let generated = tokio::select! {
                generated = self.generate_part(&part, &mut ignored) => generated.map_err(Stop::Halt)?,
                () = until(table.deadline()) => return Ok(table.out_of_time().into()),
            };
            let mut rollout = match generated {
                Generated::Accepted(accepted) => accepted.into_rollout(),
                Generated::Exhausted { last } => return Ok(Attempt::NotSampled { message: last }),
            };
            let sampled = response.take(std::mem::take(&mut rollout.segments));
            record.sampled_by(&part.engine, &rollout.engine);
            engine.clone_from(&rollout.engine);
            let finish_reason = rollout.finish_reason();
            let is_ended = finish_reason == FinishReason::Stop;
            let turn = SampledTurn { number: record.sampled_turns + 1, token_ids: &sampled, is_ended, in_thinking };
            let (said, parsed) = text.read(turn).map_err(Halt::from)?;
            record.sampled(said, sampled.len() as u32, &parsed.message);
            let over = |mut record: EpisodeRecord, response: GrowingResponse, scored: Scored| {
                let (segments, contexts) = response.into_parts();
                record.sequences = 1 + contexts.iter().filter(|context| context.segment > 0).count() as u32;
                rollout.segments = segments;
                if record.used_up.is_some() {
                    rollout.set_finish_reason(FinishReason::Length);
                }
                let played = Played { record, verdict: scored.verdict, answer: sampled.clone(), in_thinking, contexts };
                Attempt::Whole(Box::new(Accepted::of_episode(rollout, played)))
            };
            // A turn that the whole response has no more room for is the last one. An agent gets what there is of it.
            let cut_off = (!is_ended).then(|| budget.cut_off(response.used()));
            if cut_off == Some(UsedUp::Tokens) && !text.is_agent() {
                record.used_up = cut_off;
                return Ok(match self.with_environment(table.end()).await {
                    Ok(scored) => over(record, response, scored),
                    Err(broken) => broken.into(),
                });
            }
            let before: usize = part.before.iter().map(|segment| segment.token_ids.len()).sum();
            let act = Act {
                message: Some(parsed.message.clone()),
                finish_reason: finish_reason.into(),
                prompt_tokens: u32::try_from(part.prompt_in(self.request()).len() + before).unwrap_or(u32::MAX),
                sampled_tokens: sampled.len() as u32,
                ..Act::default()
            };
            let observed = match self.with_environment(table.step(act)).await {
                Ok(observed) => observed,
                Err(broken) => return Ok(broken.into()),
            };
            record.observed(&observed);
            if observed.done {
                record.used_up = cut_off;
                return Ok(match self.with_environment(table.scored()).await {
                    Ok(scored) => over(record, response, scored),
                    Err(broken) => broken.into(),
                });
            }
            let last = sampled.last().copied().unwrap_or_default();
            let next = talk.go_on(text, (parsed, last), observed).map_err(|stuck| stop(stuck, table))?;
            if cut_off == Some(UsedUp::Tokens) {
                record.used_up = cut_off;
            } else if budget.has_no_turn_after(record.sampled_turns) {
                record.used_up = Some(UsedUp::Turns);
            } else if !budget.fits(response.used_after(&next.before), 0) {
                record.used_up = Some(UsedUp::Context);
            }
            if record.used_up.is_some() {
                return Ok(match self.with_environment(table.end()).await {
                    Ok(scored) => over(record, response, scored),
                    Err(broken) => broken.into(),
                });
            }
            let prompt = match (&next.before, next.is_agents) {
                (BeforeTurn::Prompt(prompt), true) => Some(text.text(prompt).map_err(Halt::from)?),
                _ => None,
            };
            let added = response.go_on(&self.request().prompt_token_ids, next.before);
            match prompt {
                Some(prompt) => record.prompted(prompt),
                None => record.added(next.messages, u32::try_from(added).unwrap_or(u32::MAX)),
            }
        }
    }

    /// Begins with the prompt that an agent has made.
    fn begin(
        &self,
        response: &mut GrowingResponse,
        record: &mut EpisodeRecord,
        text: &EpisodeText,
        prompt: Vec<u32>,
    ) -> Result<(), Stop> {
        let budget = text.budget(self.whole().max_tokens);
        let asked = &self.request().prompt_token_ids;
        if prompt[..] != asked[..] {
            record.prompted(text.text(&prompt).map_err(Halt::from)?);
        }
        let tokens = prompt.len();
        let of_row = asked.len();
        response.begin(asked, prompt);
        if budget.fits(response.used(), 0) {
            return Ok(());
        }
        let message = format!(
            "what the agent asks first has {tokens} tokens, allowed: fewer than the {of_row} of the row's prompt and \
             sampling.max_tokens together"
        );
        Err(Stop::Attempt(Attempt::Failed { message, late: false, kind: Fault::Final }))
    }

    /// Waits for the environment, as time in which engines may be idle.
    async fn with_environment<T>(&self, waits: impl Future<Output = T>) -> T {
        let _waiting = self.batch().environment_idle().enter(Place::Environment);
        waits.await
    }
}

/// Returns when an episode must be over, which one without a limit never must.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
