//! Problems as the model reads them: token ids, checked once, before anything starts.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_seeds::{Stream, rng};
use evenkeel_tasks::{Cancel, Dataset, Demonstration as Source, Problem, Task, TaskKind};
use rand::Rng;

use crate::error::RunError;
use crate::settings::Overlong;
use crate::text::Tokenizer;

/// A problem with its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    /// What answers are judged against.
    pub(crate) task: Task,
    pub(crate) token_ids: Arc<[u32]>,
}

/// All problems of a run, encoded.
#[derive(Debug)]
pub(crate) struct Prompts {
    /// Name of the data in metrics.
    pub(crate) source: String,
    pub(crate) train: Vec<Prompt>,
    pub(crate) held_out: Vec<Prompt>,
}

impl Prompts {
    /// The kinds of tasks in it, in the order of kinds.
    pub(crate) fn kinds(&self) -> Vec<TaskKind> {
        let kinds: BTreeSet<_> = self.train.iter().chain(&self.held_out).map(|prompt| prompt.task.kind()).collect();
        kinds.into_iter().collect()
    }

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
                    prompts.push(Prompt { task: problem.task.clone(), token_ids: token_ids.into() });
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
        Ok(Self { source: dataset.name.clone(), train, held_out })
    }
}

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
    /// Those of a data set.
    ///
    /// # Errors
    /// Files without a single one, where the warm start needs them.
    pub(crate) fn of(dataset: &Dataset, seed: u64) -> Result<Self, RunError> {
        let usable = |problem: &Problem| Some((problem.clone(), problem.demonstration.clone()?));
        let problems: Vec<_> = dataset.train.iter().filter_map(usable).collect();
        if problems.is_empty() {
            let allowed = "0, or rows of data.path with a demonstration (data.demonstration_field)";
            return Err(evenkeel_proto::FieldError::new("warm_start.steps", "above 0", allowed).into());
        }
        Ok(Self { seed, problems })
    }

    /// Checks that every demonstration fits the context with its prompt: the learner would refuse the step that draws one
    /// that does not.
    ///
    /// # Errors
    /// The first that does not fit, by its row.
    pub(crate) fn check(&self, tokenizer: &Tokenizer, context: usize, cancel: &Cancel) -> Result<(), RunError> {
        let mut drawn = false;
        for (problem, source) in &self.problems {
            cancel.check()?;
            // Of the built-in task one problem stands for all: each prompt is as long as the others.
            if matches!(source, Source::Drawn(_)) && std::mem::replace(&mut drawn, true) {
                continue;
            }
            let (prompt, answer) = (tokenizer.encode(&problem.prompt)?, tokenizer.encode(&source.longest())?);
            let (prompt, answer) = (prompt.len(), answer.len());
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

    /// The example in a row of a step: it follows from the seed, the step and the row alone.
    pub(crate) fn at(&self, step: u64, row: u32, tokenizer: &Tokenizer) -> Result<Demonstration, RunError> {
        let mut rng = rng(self.seed, Stream::Demonstration { step, row: row.into() });
        let (problem, source) = &self.problems[rng.random_range(0..self.problems.len())];
        let mut response_token_ids = tokenizer.encode(&source.text(&mut rng))?;
        response_token_ids.extend(tokenizer.end_id());
        Ok(Demonstration {
            id: format!("warm/{step}/{row}"),
            prompt_token_ids: tokenizer.encode(&problem.prompt)?,
            response_token_ids,
        })
    }
}
