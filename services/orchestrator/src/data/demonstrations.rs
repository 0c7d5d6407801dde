//! The answers that a warm start imitates: in one turn, or turn by turn with an environment that answers between them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::OnceLock;

use evenkeel_data::{Cancel, Cancelled, Dataset, Demonstration as Source, EnvironmentTask, Problem};
use evenkeel_environment::{BuiltIn, step};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{EnvironmentMessage, FinishReason};
use evenkeel_seeds::{Stream, rng};
use rand::Rng;

use super::renderer::Encoder;
use super::turns::{EpisodeText, PastTurns};
use crate::error::RunError;

/// A prompt and an answer to imitate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Demonstration {
    pub(crate) id: String,
    pub(crate) prompt_token_ids: Vec<u32>,
    pub(crate) response_token_ids: Vec<u32>,
}

/// The problems whose answers the warm start imitates.
#[derive(Debug)]
pub(crate) struct Demonstrations {
    seed: u64,
    problems: Vec<(Problem, Source)>,
    /// Tokens that the model can take at once.
    context: usize,
    /// What the environments of workers say, by the index of the problem, once they were asked.
    played: OnceLock<BTreeMap<usize, DemonstrationAnswers>>,
}

/// What an environment says in a demonstration: before the first turn, and after each but the last.
#[derive(Debug, Clone, Default)]
pub(crate) struct DemonstrationAnswers {
    pub(crate) first: Vec<EnvironmentMessage>,
    pub(crate) between: Vec<Vec<EnvironmentMessage>>,
}

/// A demonstration that the worker of its environment has to play.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToPlay<'a> {
    pub(crate) index: usize,
    pub(crate) problem: &'a Problem,
    pub(crate) task: &'a EnvironmentTask,
    pub(crate) turns: &'a [String],
}

impl Demonstrations {
    /// The demonstrations of a data set.
    ///
    /// # Errors
    /// Files without a single one, where the warm start needs them.
    pub(crate) fn of(dataset: &Dataset, seed: u64, steps: u64, context: usize) -> Result<Self, RunError> {
        let usable = |problem: &Problem| Some((problem.clone(), problem.demonstration.clone()?));
        let problems: Vec<_> = dataset.train.iter().filter_map(usable).collect();
        if problems.is_empty() {
            let allowed = "0, or rows of data.files with a demonstration (data.demonstration_field)";
            return Err(FieldError::new("warm_start.steps", steps, allowed).into());
        }
        Ok(Self { seed, problems, context, played: OnceLock::new() })
    }

    /// Demonstrations whose environments are with workers.
    pub(crate) fn to_play(&self) -> impl Iterator<Item = ToPlay<'_>> {
        self.problems.iter().enumerate().filter_map(|(index, (problem, source))| {
            let (Source::Turns(turns), Some(task)) = (source, &problem.environment) else { return None };
            let is_built_in = BuiltIn::named("", &task.environment).is_ok();
            (!is_built_in).then_some(ToPlay { index, problem, task, turns })
        })
    }

    /// Notes what the environments of workers say, and checks those demonstrations.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn played(
        &self,
        answers: BTreeMap<usize, DemonstrationAnswers>,
        encoder: &Encoder,
    ) -> Result<(), RunError> {
        let answers = self.played.get_or_init(|| answers);
        answers.keys().try_for_each(|&index| self.check_one(index, encoder))
    }

    /// Checks that every demonstration fits the context with its prompt, and that one of several turns goes on to its
    /// last one: the learner would refuse the step that draws one that does not. Those that a worker has to play are
    /// checked when it has.
    ///
    /// # Errors
    /// The first that does not fit, by its row.
    pub(crate) fn check(&self, encoder: &Encoder, cancel: Cancel<'_>) -> Result<(), RunError> {
        let mut drawn = false;
        let to_play: Vec<_> = self.to_play().map(|demonstration| demonstration.index).collect();
        for (index, (problem, source)) in self.problems.iter().enumerate() {
            Cancelled::check(cancel)?;
            if let Source::Turns(_) = source {
                episode_text(problem, encoder)?;
            }
            if to_play.binary_search(&index).is_ok() {
                continue;
            }
            // Of the built-in sums one problem stands for all: each prompt is as long as the others.
            if matches!(source, Source::Sum(_)) && std::mem::replace(&mut drawn, true) {
                continue;
            }
            self.check_one(index, encoder)?;
        }
        Ok(())
    }

    fn check_one(&self, index: usize, encoder: &Encoder) -> Result<(), RunError> {
        let tokenizer = &encoder.tokenizer;
        let (problem, source) = &self.problems[index];
        let (prompt, answer) = match source {
            Source::Turns(turns) => self.turn(index, turns, turns.len() - 1, encoder)?,
            _ => {
                let mut answer = tokenizer.encode(&source.longest())?;
                if !answer.is_empty() {
                    answer.extend(tokenizer.end_id());
                }
                (prompt_ids(encoder, problem)?, answer)
            }
        };
        let context = self.context;
        let prompt = prompt.len();
        let answer = answer.len();
        if answer == 0 || prompt + answer > context {
            let found = format!("{answer} tokens after {prompt}");
            let allowed = format!("1 or more, and at most the model's context of {context} with what is before them");
            return Err(refused(&problem.id, found, allowed));
        }
        Ok(())
    }

    /// A turn of a demonstration, from 0, and what is before it: the prompt, earlier turns, and what the environment
    /// answers to each.
    ///
    /// # Errors
    /// An environment that cannot do the task, or ends the episode before that turn.
    fn turn(
        &self,
        index: usize,
        turns: &[String],
        at: usize,
        encoder: &Encoder,
    ) -> Result<(Vec<u32>, Vec<u32>), RunError> {
        let (problem, _) = &self.problems[index];
        let (text, task) = episode_text(problem, encoder)?;
        let answers = match self.played.get().and_then(|played| played.get(&index)) {
            Some(played) => Cow::Borrowed(played),
            None => {
                let task = (&*task.environment, &*task.payload);
                Cow::Owned(answers_of_built_in(problem, task, text, &turns[..at])?)
            }
        };
        let mut before = match (answers.first.is_empty(), encoder.asked(problem)) {
            (false, Some(asked)) => {
                let past = PastTurns::after(text.cut_all(answers.first.clone())?);
                let prompt = text.whole_prompt(&asked, &past);
                prompt.map_err(|error| refused(&problem.id, error, "what the chat template renders"))?
            }
            _ => prompt_ids(encoder, problem)?,
        };
        for (said, messages) in turns[..at].iter().zip(&answers.between) {
            let token_ids = text.said(said)?;
            let last = token_ids.last().copied().unwrap_or_default();
            before.extend(token_ids);
            before.extend(text.observe(messages.clone(), last)?.1);
        }
        Ok((before, text.said(&turns[at])?))
    }

    /// The example in a row of a step: it follows from the seed, the step and the row alone. One of several turns is
    /// drawn, with the conversation before it as its prompt.
    pub(crate) fn at(&self, step: u64, row: u32, encoder: &Encoder) -> Result<Demonstration, RunError> {
        let tokenizer = &encoder.tokenizer;
        let mut rng = rng(self.seed, Stream::Demonstration { step: step.saturating_sub(1), row: row.into() });
        let index = rng.random_range(0..self.problems.len());
        let (problem, source) = &self.problems[index];
        let (prompt_token_ids, response_token_ids) = match source {
            Source::Turns(turns) => self.turn(index, turns, rng.random_range(0..turns.len()), encoder)?,
            _ => {
                let mut response = tokenizer.encode(&source.text(&mut rng))?;
                response.extend(tokenizer.end_id());
                (prompt_ids(encoder, problem)?, response)
            }
        };
        Ok(Demonstration { id: format!("warm/{step}/{row}"), prompt_token_ids, response_token_ids })
    }
}

/// How the episodes of a demonstration of several turns are told to the model, and its task.
///
/// # Errors
/// A row without an environment; an agent.
fn episode_text<'a>(
    problem: &'a Problem,
    encoder: &'a Encoder,
) -> Result<(&'a EpisodeText, &'a EnvironmentTask), RunError> {
    let Some(task) = &problem.environment else {
        return Err(refused(&problem.id, "several turns", "one, in a row without an environment"));
    };
    let name = &*task.environment;
    let text = encoder.episodes.get(name);
    let text = text.ok_or_else(|| RunError::Defect(format!("the environment `{name}` is not prepared")))?;
    if text.is_agent() {
        return Err(refused(&problem.id, "several turns", "one, since an agent has prompts of its own"));
    }
    Ok((text, task))
}

/// What an environment that comes with the program says to the first turns of a demonstration.
///
/// # Errors
/// A task that it cannot do; a turn that ends the episode.
fn answers_of_built_in(
    problem: &Problem,
    (name, payload): (&str, &[u8]),
    text: &EpisodeText,
    turns: &[String],
) -> Result<DemonstrationAnswers, RunError> {
    let mut environment = BuiltIn::named("the environment of a demonstration of several turns", name)?
        .open(payload, 0)
        .map_err(|error| refused(&problem.id, error, "a task that the environment can do"))?;
    let mut answers = DemonstrationAnswers::default();
    for (number, said) in (1..).zip(turns) {
        let read = text.read_demonstrated(number, said)?;
        let done = step(environment.as_mut(), &read.message, FinishReason::Stop);
        if done.done {
            return Err(ends_early(&problem.id, number));
        }
        answers.between.push(done.messages);
    }
    Ok(answers)
}

/// A demonstration goes on after a turn that ends the episode.
pub(crate) fn ends_early(id: &impl Display, number: u32) -> RunError {
    refused(id, "more turns", format!("{number}: the environment ends the episode with that turn"))
}

/// A demonstration of a problem cannot be imitated.
pub(crate) fn refused(id: &impl Display, found: impl Display, allowed: impl Into<String>) -> RunError {
    FieldError::new(format!("demonstration of `{id}`"), found, allowed).into()
}

fn prompt_ids(encoder: &Encoder, problem: &Problem) -> Result<Vec<u32>, RunError> {
    let rendered = encoder.render(problem);
    let rendered =
        rendered.map_err(|error| RunError::Prompt { id: problem.id.to_string(), message: error.to_string() })?;
    Ok(rendered.token_ids)
}
