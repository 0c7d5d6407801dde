//! The turns of an attempt at an episode: the model's are sampled, the environment answers, until one of them or a
//! budget ends it.
//!
//! The response is one growing list of tokens. What was sampled stays as it is; what the environment says is added as
//! tokens that nobody sampled. Where the template rewrites earlier turns, each turn may have a prompt of its own
//! instead, and a list of tokens with it; so may the turns of an agent, which makes its prompts itself.

use evenkeel_environment::budget::{Budget, UsedUp};
use evenkeel_environment::tool_calls::Turn;
use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{Act, FinishReason, Opened, Rollout, SampledToken, Scored, WeightsRef};

use super::bare::is_marked;
use super::environment_idle::Place;
use super::episode_client::{BrokenEpisode, EpisodeClient, EpisodeFault};
use super::generated_part::{AcceptedRollout, Generated};
use super::growing_response::{BeforeTurn, GrowingResponse};
use super::in_flight_sample::InFlightSample;
use super::played::{EpisodeRecord, Played};
use super::response_part::ResponsePart;
use super::sample::{AnswerLook, Unscored};
use super::talk::{Stuck, Talk};
use crate::data::{EpisodeText, SampledTurn};
use crate::error::{Halt, RunError};

/// Why an attempt at an episode goes on no more without a result.
pub(super) enum Stop {
    /// A turn could not be sampled: that was tried often enough.
    NotSampled {
        message: String,
    },
    Broken(BrokenEpisode),
    Halt(Halt),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::Halt(error.into())
    }
}

impl From<BrokenEpisode> for Stop {
    fn from(broken: BrokenEpisode) -> Self {
        Self::Broken(broken)
    }
}

/// What becomes of an attempt without a next turn.
fn stop(stuck: Stuck, client: &EpisodeClient) -> Stop {
    match stuck {
        Stuck::Run(error) => error.into(),
        Stuck::Refused(message) => refused(message),
        Stuck::Worker(what) => client.defect(what).into(),
    }
}

/// The model cannot be asked. Another attempt would ask the same.
fn refused(message: String) -> Stop {
    Stop::Broken(BrokenEpisode::new(message, EpisodeFault::Final))
}

/// An attempt at an episode, as far as it is played.
struct EpisodeInPlay<'a> {
    client: EpisodeClient,
    text: &'a EpisodeText,
    /// The weights that sample all of its turns.
    weights: Option<WeightsRef>,
    budget: Budget,
    talk: Talk,
    response: GrowingResponse,
    record: EpisodeRecord,
    /// The engine that sampled the last turn; empty before the first.
    engine: String,
}

/// A turn that the model has taken.
struct TakenTurn {
    /// The last request and its answer, without its tokens.
    rollout: Rollout,
    token_ids: Vec<u32>,
    /// Whether what was before it ends within `<think>`.
    in_thinking: bool,
    /// Tokens that it was sampled after.
    prompt_tokens: u32,
    /// Token ids before the turn, and its own tokens, where an agent wants to know them.
    wanted: (Vec<u32>, Vec<SampledToken>),
    /// The budget that cut it off.
    cut_off: Option<UsedUp>,
}

/// What follows a turn.
enum Next {
    /// The model is asked for another one.
    Ask,
    /// The episode is over.
    Over {
        /// Whether the environment has ended it, and scores it already.
        is_done: bool,
        /// The budget that was used up by then.
        used_up: Option<UsedUp>,
    },
}

impl EpisodeInPlay<'_> {
    /// The request for the next turn. It takes the response so far along.
    fn next_part(&mut self, whole: &SamplingSettings) -> ResponsePart {
        let most = self.budget.next_turn(self.response.used()).unwrap_or(1).min(self.talk.max_tokens());
        ResponsePart {
            weights: self.weights.clone(),
            sampling: whole.rest(self.response.position()).at_most(most),
            prompt: self.response.own_prompt(),
            before: self.response.lend(),
            engine: std::mem::take(&mut self.engine),
            is_last: true,
        }
    }

    /// The budget that leaves no room for a turn after `before`. `cut_off` is the one that cut the last turn off.
    fn used_up(&self, cut_off: Option<UsedUp>, before: &BeforeTurn) -> Option<UsedUp> {
        if cut_off == Some(UsedUp::Tokens) {
            cut_off
        } else if self.budget.has_no_turn_after(self.record.sampled_turns) {
            Some(UsedUp::Turns)
        } else {
            (!self.budget.fits(self.response.used_after(before), 0)).then_some(UsedUp::Context)
        }
    }

    /// What the response looks like, right after a turn.
    fn look(&self, turn: &TakenTurn) -> AnswerLook {
        let is_marked = self.record.turns.last().is_some_and(|said| is_marked(&said.text));
        AnswerLook { tokens: self.response.sampled() as usize, is_truncated: turn.cut_off.is_some(), is_marked }
    }

    /// The response with its score.
    fn finish(mut self, turn: TakenTurn, used_up: Option<UsedUp>, scored: Scored) -> AcceptedRollout {
        let TakenTurn { mut rollout, token_ids, in_thinking, .. } = turn;
        let (segments, contexts) = self.response.into_parts();
        self.record.sequences = 1 + contexts.iter().filter(|context| context.segment > 0).count() as u32;
        self.record.used_up = used_up;
        rollout.segments = segments;
        if used_up.is_some() {
            rollout.set_finish_reason(FinishReason::Length);
        }
        let record = self.record;
        let played = Played { record, verdict: scored.verdict, answer: token_ids, in_thinking, contexts };
        AcceptedRollout::of_episode(rollout, played)
    }
}

impl InFlightSample {
    /// Takes turns until the episode is over.
    pub(super) async fn take_turns(
        &mut self,
        client: EpisodeClient,
        text: &EpisodeText,
        weights: Option<WeightsRef>,
        opened: Opened,
    ) -> Result<AcceptedRollout, Stop> {
        let mut episode = self.begin(client, text, weights, opened)?;
        loop {
            let (mut turn, said) = self.sample_turn(&mut episode).await?;
            let mut answer = episode.look(&turn);
            self.unscored = Some(Unscored { answer, is_crash: false });
            if let Next::Over { is_done, used_up } = self.carry_out(&mut episode, &mut turn, said).await? {
                answer.is_truncated = used_up.is_some();
                self.unscored = Some(Unscored { answer, is_crash: false });
                let client = &mut episode.client;
                let scored = async { if is_done { client.scored().await } else { client.end().await } };
                let scored = self.with_environment(scored).await?;
                return Ok(episode.finish(turn, used_up, scored));
            }
        }
    }

    /// The episode before its first turn. It may follow a prompt that an agent has made, or one that goes on with what
    /// the environment says first: a sample whose prompt is not the row's has it for itself, also within a group.
    fn begin<'a>(
        &self,
        client: EpisodeClient,
        text: &'a EpisodeText,
        weights: Option<WeightsRef>,
        opened: Opened,
    ) -> Result<EpisodeInPlay<'a>, Stop> {
        let asked = &self.request().prompt_token_ids;
        let failed = |stuck| stop(stuck, &client);
        let talk = Talk::begin(text, self.request().asked.clone(), opened).map_err(failed)?;
        let first_prompt = talk.first_prompt(text).map_err(failed)?;
        let mut episode = EpisodeInPlay {
            client,
            text,
            weights,
            budget: text.budget(self.whole().max_tokens),
            talk,
            response: GrowingResponse::to_prompt(asked.len(), text.rewrites() || text.is_agent()),
            record: EpisodeRecord::default(),
            engine: String::new(),
        };
        let Some(prompt) = first_prompt else { return Ok(episode) };
        let first = episode.talk.first_messages().to_vec();
        let tokens = prompt.len();
        let of_row = asked.len();
        let who = if first.is_empty() { "what the agent asks first" } else { "the prompt with what `reset` gives" };
        if !first.is_empty() {
            episode.record.added(first, u32::try_from(tokens.saturating_sub(of_row)).unwrap_or(u32::MAX));
        } else if prompt[..] != asked[..] {
            episode.record.prompted(text.text(&prompt)?);
        }
        episode.response.begin(asked, prompt);
        if episode.budget.fits(episode.response.used(), 0) {
            return Ok(episode);
        }
        let max_tokens = self.whole().max_tokens;
        let room = of_row + max_tokens as usize;
        let message = format!(
            "{who} has {tokens} tokens, allowed: fewer than {room}, the {of_row} of the row's prompt and \
             sampling.max_tokens = {max_tokens}"
        );
        Err(refused(message))
    }

    /// Samples a turn of the model.
    async fn sample_turn(&mut self, episode: &mut EpisodeInPlay<'_>) -> Result<(TakenTurn, Turn), Stop> {
        let part = episode.next_part(self.whole());
        let in_thinking = self.batch().opens_thinking_after(self.request(), &part);
        let mut ignored = || {};
        let generated = tokio::select! {
            generated = self.generate_part(&part, &mut ignored) => generated?,
            () = tokio::time::sleep_until(episode.client.deadline()) => return Err(episode.client.out_of_time().into()),
        };
        let mut rollout = match generated {
            Generated::Accepted(accepted) => accepted.rollout,
            Generated::Exhausted { last } => return Err(Stop::NotSampled { message: last }),
        };
        let mut token_ids = episode.response.take(std::mem::take(&mut rollout.segments));
        let stop = episode.talk.stop().to_vec();
        let stops = episode.text.stops_after(&token_ids, &stop)?;
        let is_ended = rollout.finish_reason() == FinishReason::Stop && stops.is_none_or(|end| end == token_ids.len());
        if let Some(end) = stops {
            episode.response.shorten(token_ids.len() - end);
            token_ids.truncate(end);
            rollout.set_finish_reason(FinishReason::Stop);
        }
        episode.record.sampled_by(&part.engine, &rollout.engine);
        episode.engine.clone_from(&rollout.engine);
        let number = episode.record.sampled_turns + 1;
        let turn = SampledTurn { number, token_ids: &token_ids, is_ended, in_thinking, stop: &stop };
        let (text, said) = episode.text.read(turn)?;
        episode.record.sampled(text, token_ids.len() as u32, &said.message);
        let before = part.before.iter().flat_map(|segment| &segment.token_ids);
        let prompt = part.prompt_in(self.request()).iter().chain(before);
        let prompt_tokens = u32::try_from(prompt.clone().count()).unwrap_or(u32::MAX);
        let wanted = if episode.talk.wants_tokens() {
            let log_probabilities = episode.response.last_log_probabilities(token_ids.len());
            (prompt.copied().collect(), episode.text.sampled_tokens(&token_ids, &log_probabilities)?)
        } else {
            Default::default()
        };
        let is_cut = !is_ended && stops.is_none();
        let cut_off = is_cut.then(|| episode.budget.cut_off(episode.response.used()));
        Ok((TakenTurn { rollout, token_ids, in_thinking, prompt_tokens, wanted, cut_off }, said))
    }

    /// Sends a turn to the environment, and continues with the observation.
    async fn carry_out(&self, episode: &mut EpisodeInPlay<'_>, turn: &mut TakenTurn, said: Turn) -> Result<Next, Stop> {
        // A turn that the whole response has no more room for is the last one. An agent gets what there is of it.
        if turn.cut_off == Some(UsedUp::Tokens) && !episode.text.is_agent() {
            return Ok(Next::Over { is_done: false, used_up: turn.cut_off });
        }
        let (prompt_token_ids, tokens) = std::mem::take(&mut turn.wanted);
        let act = Act {
            message: Some(said.message.clone()),
            finish_reason: turn.rollout.finish_reason().into(),
            prompt_tokens: turn.prompt_tokens,
            sampled_tokens: turn.token_ids.len() as u32,
            prompt_token_ids,
            tokens,
            ..Act::default()
        };
        let observed = self.with_environment(episode.client.step(act)).await?;
        episode.record.observed(&observed);
        if observed.done {
            return Ok(Next::Over { is_done: true, used_up: turn.cut_off });
        }
        let last = turn.token_ids.last().copied().unwrap_or_default();
        let next = episode.talk.go_on(episode.text, (said, last), observed);
        let next = next.map_err(|stuck| stop(stuck, &episode.client))?;
        let used_up = episode.used_up(turn.cut_off, &next.before);
        if used_up.is_some() {
            return Ok(Next::Over { is_done: false, used_up });
        }
        let prompt = match (&next.before, next.is_agents) {
            (BeforeTurn::Prompt(prompt), true) => Some(episode.text.text(prompt)?),
            _ => None,
        };
        let added = episode.response.go_on(&self.request().prompt_token_ids, next.before);
        match prompt {
            Some(prompt) => episode.record.prompted(prompt),
            None => episode.record.added(next.messages, u32::try_from(added).unwrap_or(u32::MAX)),
        }
        Ok(Next::Ask)
    }

    /// Waits for the environment, as time in which engines may be idle.
    pub(super) async fn with_environment<T>(&self, waits: impl Future<Output = T>) -> T {
        let _waiting = self.batch().environment_idle().enter(Place::Environment);
        waits.await
    }
}
