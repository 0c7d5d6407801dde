//! The answers that a warm start imitates: in one turn, or turn by turn with an environment that answers between them.

use std::fmt::Display;

use evenkeel_data::{Cancel, Cancelled, Dataset, Demonstration as Source, EnvironmentTask, Problem};
use evenkeel_environment::{BuiltIn, step};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::FinishReason;
use evenkeel_seeds::{Stream, rng};
use rand::Rng;

use super::renderer::Encoder;
use super::turns::SampledTurn;
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
}

impl Demonstrations {
    /// The demonstrations of a data set.
    ///
    /// # Errors
    /// Files without a single one, where the warm start needs them.
    pub(crate) fn of(dataset: &Dataset, seed: u64, steps: u64) -> Result<Self, RunError> {
        let usable = |problem: &Problem| Some((problem.clone(), problem.demonstration.clone()?));
        let problems: Vec<_> = dataset.train.iter().filter_map(usable).collect();
        if problems.is_empty() {
            let allowed = "0, or rows of data.files with a demonstration (data.demonstration_field)";
            return Err(FieldError::new("warm_start.steps", steps, allowed).into());
        }
        Ok(Self { seed, problems })
    }

    /// Checks that every demonstration fits the context with its prompt, and that one of several turns goes on to its
    /// last one: the learner would refuse the step that draws one that does not.
    ///
    /// # Errors
    /// The first that does not fit, by its row.
    pub(crate) fn check(&self, encoder: &Encoder, context: usize, cancel: Cancel<'_>) -> Result<(), RunError> {
        let tokenizer = &encoder.tokenizer;
        let mut drawn = false;
        for (problem, source) in &self.problems {
            Cancelled::check(cancel)?;
            // Of the built-in sums one problem stands for all: each prompt is as long as the others.
            if matches!(source, Source::Sum(_)) && std::mem::replace(&mut drawn, true) {
                continue;
            }
            let (prompt, answer) = match source {
                Source::Turns(turns) => turn(problem, turns, turns.len() - 1, encoder)?,
                _ => {
                    let mut answer = tokenizer.encode(&source.longest())?;
                    if !answer.is_empty() {
                        answer.extend(tokenizer.end_id());
                    }
                    (prompt_ids(encoder, problem)?, answer)
                }
            };
            let prompt = prompt.len();
            let answer = answer.len();
            if answer == 0 || prompt + answer > context {
                let found = format!("{answer} tokens after {prompt}");
                let allowed =
                    format!("1 or more, and at most the model's context of {context} with what is before them");
                return Err(refused(problem, found, allowed));
            }
        }
        Ok(())
    }

    /// The example in a row of a step: it follows from the seed, the step and the row alone. Of several turns one is
    /// drawn, with the conversation before it as its prompt.
    pub(crate) fn at(&self, step: u64, row: u32, encoder: &Encoder) -> Result<Demonstration, RunError> {
        let tokenizer = &encoder.tokenizer;
        let mut rng = rng(self.seed, Stream::Demonstration { step: step.saturating_sub(1), row: row.into() });
        let (problem, source) = &self.problems[rng.random_range(0..self.problems.len())];
        let (prompt_token_ids, response_token_ids) = match source {
            Source::Turns(turns) => turn(problem, turns, rng.random_range(0..turns.len()), encoder)?,
            _ => {
                let mut response = tokenizer.encode(&source.text(&mut rng))?;
                response.extend(tokenizer.end_id());
                (prompt_ids(encoder, problem)?, response)
            }
        };
        Ok(Demonstration { id: format!("warm/{step}/{row}"), prompt_token_ids, response_token_ids })
    }
}

/// A turn of a demonstration, from 0, and what is before it: the prompt, earlier turns, and what the environment
/// answers to each.
///
/// # Errors
/// An environment that is not built in, or cannot do the task; one that ends the episode before that turn.
fn turn(problem: &Problem, turns: &[String], at: usize, encoder: &Encoder) -> Result<(Vec<u32>, Vec<u32>), RunError> {
    let Some(EnvironmentTask { environment: name, payload }) = &problem.environment else {
        return Err(refused(problem, "several turns", "one, in a row without an environment"));
    };
    let text = encoder.episodes.get(&**name);
    let text = text.ok_or_else(|| RunError::Defect(format!("the environment `{name}` is not prepared")))?;
    let mut environment = BuiltIn::named("the environment of a demonstration of several turns", name)?
        .open(payload, 0)
        .map_err(|error| refused(problem, error, "a task that the environment can do"))?;
    let mut before = prompt_ids(encoder, problem)?;
    for (number, said) in (1..).zip(&turns[..at]) {
        let token_ids = text.said(said)?;
        let sampled = SampledTurn { number, token_ids: &token_ids, is_ended: true, in_thinking: false };
        let (_, read) = text.read(sampled)?;
        let done = step(environment.as_mut(), &read.message, FinishReason::Stop);
        if done.done {
            let allowed = format!("{number}: the environment ends the episode with that turn");
            return Err(refused(problem, format!("{} turns", turns.len()), allowed));
        }
        let last = token_ids.last().copied().unwrap_or_default();
        before.extend(token_ids);
        before.extend(text.observe(done.messages, last)?.1);
    }
    Ok((before, text.said(&turns[at])?))
}

fn refused(problem: &Problem, found: impl Display, allowed: impl Into<String>) -> RunError {
    FieldError::new(format!("demonstration of `{}`", problem.id), found, allowed).into()
}

fn prompt_ids(encoder: &Encoder, problem: &Problem) -> Result<Vec<u32>, RunError> {
    let rendered = encoder.render(problem);
    let rendered =
        rendered.map_err(|error| RunError::Prompt { id: problem.id.to_string(), message: error.to_string() })?;
    Ok(rendered.token_ids)
}
