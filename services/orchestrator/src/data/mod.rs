//! Problems: what is trained on, what is held out, and in which order.

mod arithmetic;
mod golds;
mod jsonl;
mod order;
mod prompts;

use std::collections::HashSet;

use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

use crate::error::RunError;
use crate::load::Loading;
use crate::recipe::Recipe;
use crate::settings::Task;

pub(crate) use golds::unsound;
pub(crate) use order::Order;
pub(crate) use prompts::{Demonstrations, Prompt, Prompts};

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its name in messages.
    pub id: String,
    /// What is asked, as the model reads it.
    pub prompt: String,
    /// The gold answer, as the verifier reads it.
    pub gold: String,
    /// An answer to imitate, where the data has one.
    pub demonstration: Option<String>,
}

/// Problems of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Its name in metrics.
    pub source: String,
    /// Which task it is: it decides where demonstrations come from.
    pub task: Task,
    /// What is trained on.
    pub train: Vec<Problem>,
    /// What is asked in evaluations and never trained on: no prompt of `train` is among them.
    pub held_out: Vec<Problem>,
}

impl Dataset {
    /// The data set of a recipe. The same recipe gives the same problems in the same order.
    ///
    /// # Errors
    /// A file that cannot be read, a row that is no problem (by file and line), nothing left to train on.
    pub fn load<L, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<Self, RunError> {
        Self::load_within(recipe, &Loading::default())
    }

    /// The same within limits.
    pub(crate) fn load_within<L, E, G, R>(recipe: &Recipe<L, E, G, R>, loading: &Loading) -> Result<Self, RunError> {
        let dataset = match recipe.data.task {
            Task::Arithmetic => arithmetic::dataset(recipe.run.seed, recipe.evaluation.problems),
            Task::Jsonl => jsonl::dataset(&recipe.data, recipe.run.seed, recipe.evaluation.problems, loading)?,
        };
        if dataset.train.is_empty() {
            let allowed = "at least one problem to train on besides those that are held out";
            return Err(evenkeel_proto::FieldError::new("data", "0 problems", allowed).into());
        }
        Ok(Self {
            source: if recipe.data.source.is_empty() { dataset.source } else { recipe.data.source.clone() },
            ..dataset
        })
    }
}

/// Takes `count` problems out by the seed. Problems of one `key` stay together: what is held out has no twin that is trained on.
fn hold_out<K: std::hash::Hash + Eq>(
    problems: Vec<Problem>,
    count: u32,
    seed: u64,
    key: impl Fn(&Problem) -> K,
) -> (Vec<Problem>, Vec<Problem>) {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.shuffle(&mut rng(seed, Stream::HeldOut));
    let (mut keys, mut held) = (HashSet::new(), Vec::new());
    for index in order {
        if held.len() >= count as usize {
            break;
        }
        // One of each key is asked; its twins are in neither part.
        if keys.insert(key(&problems[index])) {
            held.push(problems[index].clone());
        }
    }
    let train = problems.into_iter().filter(|problem| !keys.contains(&key(problem))).collect();
    (train, held)
}
