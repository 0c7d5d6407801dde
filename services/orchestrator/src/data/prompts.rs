//! Problems as the model reads them: token ids, checked once, before anything starts.

use std::sync::Arc;

use evenkeel_seeds::{Stream, rng};
use rand::Rng;

use crate::data::{Dataset, Problem, arithmetic};
use crate::error::RunError;
use crate::load::Cancel;
use crate::settings::{Overlong, Task};
use crate::text::Tokenizer;

/// A problem with its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) gold: String,
    pub(crate) token_ids: Arc<[u32]>,
}

/// All problems of a run, encoded.
#[derive(Debug)]
pub(crate) struct Prompts {
    pub(crate) source: String,
    pub(crate) train: Vec<Prompt>,
    pub(crate) held_out: Vec<Prompt>,
}

impl Prompts {
    /// Encodes a data set for a model of that context.
    ///
    /// # Errors
    /// A prompt without tokens; one that leaves no room for `max_tokens`, where such are refused.
    pub(crate) fn encode(
        dataset: &Dataset,
        tokenizer: &Tokenizer,
        context: usize,
        max_tokens: usize,
        overlong: Overlong,
        cancel: &Cancel,
    ) -> Result<Self, RunError> {
        let allowed = context.saturating_sub(max_tokens);
        let encode = |problems: &[Problem]| {
            let mut prompts = Vec::with_capacity(problems.len());
            for problem in problems {
                cancel.check()?;
                let token_ids = tokenizer.encode(&problem.prompt)?;
                let (id, tokens) = (problem.id.clone(), token_ids.len());
                if tokens == 0 {
                    return Err(evenkeel_proto::FieldError::new(
                        format!("prompt `{id}`"),
                        "0 tokens",
                        "at least one token",
                    )
                    .into());
                }
                if tokens <= allowed {
                    prompts.push(Prompt { gold: problem.gold.clone(), token_ids: token_ids.into() });
                } else if overlong == Overlong::Refuse {
                    return Err(RunError::PromptTooLong { id, tokens, allowed, context, max_tokens });
                }
            }
            if prompts.len() < problems.len() {
                let (left_out, of) = (problems.len() - prompts.len(), problems.len());
                tracing::warn!(left_out, of, allowed, "prompts leave no room for an answer and are left out");
            }
            Ok(prompts)
        };
        let (train, held_out) = (encode(&dataset.train)?, encode(&dataset.held_out)?);
        if train.is_empty() {
            let what = format!("at least one prompt of at most {allowed} tokens");
            return Err(evenkeel_proto::FieldError::new("data", "no prompt that fits the context", what).into());
        }
        Ok(Self { source: dataset.source.clone(), train, held_out })
    }
}

/// A prompt and an answer to imitate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Demonstration {
    pub(crate) id: String,
    pub(crate) prompt_token_ids: Vec<u32>,
    pub(crate) response_token_ids: Vec<u32>,
}

/// Where the examples of the warm start come from.
#[derive(Debug)]
pub(crate) struct Demonstrations {
    seed: u64,
    task: Task,
    problems: Vec<Problem>,
}

impl Demonstrations {
    /// Those of a data set.
    ///
    /// # Errors
    /// Files without a single one, where the warm start needs them.
    pub(crate) fn of(dataset: &Dataset, seed: u64, field: &str) -> Result<Self, RunError> {
        let usable = |problem: &&Problem| dataset.task == Task::Arithmetic || problem.demonstration.is_some();
        let problems: Vec<Problem> = dataset.train.iter().filter(usable).cloned().collect();
        if problems.is_empty() {
            let allowed = format!("0, or rows of data.path with the field `{field}` (data.demonstration_field)");
            return Err(evenkeel_proto::FieldError::new("warm_start.steps", "above 0", allowed).into());
        }
        Ok(Self { seed, task: dataset.task, problems })
    }

    /// Checks that every demonstration fits the context with its prompt: the learner would refuse the step that draws one
    /// that does not.
    ///
    /// # Errors
    /// The first that does not fit, by its row.
    pub(crate) fn check(&self, tokenizer: &Tokenizer, context: usize, cancel: &Cancel) -> Result<(), RunError> {
        let longest = arithmetic::longest_demonstration();
        // Of the built-in task one problem stands for all: each prompt is as long as the others.
        let distinct = if self.task == Task::Arithmetic { 1 } else { self.problems.len() };
        for problem in &self.problems[..distinct] {
            cancel.check()?;
            let text = match &problem.demonstration {
                Some(text) => text,
                None => &longest,
            };
            let (prompt, answer) = (tokenizer.encode(&problem.prompt)?.len(), tokenizer.encode(text)?.len());
            let tokens = prompt + answer + usize::from(tokenizer.end_id().is_some());
            if answer == 0 || tokens > context {
                let field = format!("demonstration of `{}`", problem.id);
                let found = format!("{answer} tokens behind a prompt of {prompt}");
                let allowed = format!("1 or more, and at most the model's context of {context} with prompt and end");
                return Err(evenkeel_proto::FieldError::new(field, found, allowed).into());
            }
        }
        Ok(())
    }

    /// The example of a row of a step: it follows from the seed, the step and the row alone.
    pub(crate) fn at(&self, step: u64, row: u32, tokenizer: &Tokenizer) -> Result<Demonstration, RunError> {
        let mut rng = rng(self.seed, Stream::Demonstration { step, row: row.into() });
        let problem = &self.problems[rng.random_range(0..self.problems.len())];
        let text = match (self.task, &problem.demonstration) {
            (Task::Jsonl, Some(text)) => text.clone(),
            _ => {
                let (a, b) = arithmetic::operands(&problem.prompt);
                arithmetic::demonstration(&mut rng, a, b)
            }
        };
        let mut response_token_ids = tokenizer.encode(&text)?;
        response_token_ids.extend(tokenizer.end_id());
        Ok(Demonstration {
            id: format!("warm/{step}/{row}"),
            prompt_token_ids: tokenizer.encode(&problem.prompt)?,
            response_token_ids,
        })
    }
}
