//! An agent's requests as the turns of an episode: each is answered by the next action, and the agent's next one is
//! what is observed.

use evenkeel_environment::StepResult;
use evenkeel_proto::v1::{ModelRequest, Verdict};

use super::answer::ChatAnswer;
use super::conversation::Conversation;
use super::endpoint::{Asked, Desk};
use super::run::Run;
use crate::action::Action;
use crate::failure::Failure;
use crate::score::Score;

/// Requests that are answered with nothing after a budget was used up.
const MAX_USED_UP: u32 = 16;

/// An episode that an agent runs. Dropping it ends the agent.
pub(crate) struct AgentEpisode {
    desk: Desk,
    run: Run,
    /// Waits for its answer. `None`: the agent has ended.
    asked: Option<Asked>,
    first: ModelRequest,
    last: Option<Conversation>,
    /// The answer to the last request, whose client was gone: it may ask again.
    undelivered: Option<ChatAnswer>,
    turn: u32,
    score: Option<Score>,
}

/// What an agent does next.
enum Next {
    Asks(Asked),
    Ends(Option<Score>),
}

impl AgentEpisode {
    /// Waits for the first request of an agent.
    ///
    /// # Errors
    /// An agent that fails, or ends without having asked anything.
    pub(super) async fn begin(desk: Desk, run: Run) -> Result<Self, Failure> {
        let first = ModelRequest::default();
        let turn = 0;
        let mut episode = Self { desk, run, asked: None, first, last: None, undelivered: None, turn, score: None };
        match episode.next().await? {
            Next::Asks(asked) => {
                episode.first = asked.request.ask(asked.request.conversation());
                episode.asked = Some(asked);
                Ok(episode)
            }
            Next::Ends(_) => Err(Failure::crashed("the agent ended without having asked the model anything")),
        }
    }

    /// First request of the agent.
    pub(crate) fn first_request(&self) -> ModelRequest {
        self.first.clone()
    }

    /// Answers the request that waits, and waits for what the agent does next.
    ///
    /// # Errors
    /// An agent that fails.
    pub(crate) async fn step(&mut self, action: Action) -> Result<StepResult, Failure> {
        let asked = self.asked.take().ok_or_else(|| Failure::refused("the agent has asked nothing"))?;
        self.turn = action.turn;
        let answer = ChatAnswer::to(&asked.request, action);
        let Asked { request, reply } = asked;
        self.last = Some(Conversation::new(request, &answer));
        self.undelivered = reply.send(answer).err();
        match self.next().await? {
            Next::Ends(score) => {
                self.score = score;
                Ok(StepResult { done: true, ..StepResult::default() })
            }
            Next::Asks(asked) => {
                let tail = self.last.as_ref().and_then(|last| last.tail(&asked.request));
                let conversation = if tail.is_some() { Vec::new() } else { asked.request.conversation() };
                let request = asked.request.ask(conversation);
                self.asked = Some(asked);
                Ok(StepResult { messages: tail.unwrap_or_default(), request: Some(request), ..StepResult::default() })
            }
        }
    }

    /// What the agent makes of the episode; `None` leaves it to the verifier of the row. An agent that still asks is
    /// told that a budget is used up: its requests are answered with nothing, cut off, and it has to end.
    ///
    /// # Errors
    /// An agent that fails, or asks on and on; a score that is none.
    pub(crate) async fn verdict(&mut self, id: &str) -> Result<Option<Verdict>, Failure> {
        let mut answered = 0;
        while let Some(asked) = self.asked.take() {
            answered += 1;
            if answered > MAX_USED_UP {
                let message = format!("the agent keeps asking after {MAX_USED_UP} answers that were cut off at once");
                return Err(Failure::crashed(message));
            }
            let _ = asked.reply.send(ChatAnswer::used_up(self.turn + answered));
            self.undelivered = None;
            match self.next().await? {
                Next::Asks(asked) => self.asked = Some(asked),
                Next::Ends(score) => self.score = score,
            }
        }
        self.score.take().map(|score| score.verdict(id)).transpose()
    }

    /// What the agent does next. A request whose client went away before it was answered, and asks the same again, is
    /// answered.
    async fn next(&mut self) -> Result<Next, Failure> {
        loop {
            let asked = tokio::select! {
                biased;
                ended = self.run.ended() => return Ok(Next::Ends(ended?)),
                asked = self.desk.next() => asked,
            };
            let is_again = self.last.as_ref().is_some_and(|last| asked.request.is_again(&last.asked));
            match self.undelivered.take() {
                Some(answer) if is_again => self.undelivered = asked.reply.send(answer).err(),
                _ => return Ok(Next::Asks(asked)),
            }
        }
    }
}
