//! What evaluations ask, so that training does not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::Problem;
use crate::text::normalized;

/// What decides whether two problems are the same question: the words of the prompt, and whatever else is asked.
pub(crate) type Question = (String, Option<Arc<str>>);

pub(crate) fn question_of(problem: &Problem) -> Question {
    (normalized(&problem.prompt), problem.context.clone())
}

/// The questions of problems.
pub(crate) struct Asked(HashMap<String, HashSet<Option<Arc<str>>>>);

impl Asked {
    pub(crate) fn of(problems: &[Problem]) -> Self {
        let mut asked: HashMap<_, HashSet<_>> = HashMap::new();
        for (words, context) in problems.iter().map(question_of) {
            asked.entry(words).or_default().insert(context);
        }
        Self(asked)
    }

    /// Whether a problem is among them. Where one of two has nothing but its prompt, that decides.
    pub(crate) fn has(&self, problem: &Problem) -> bool {
        let (words, context) = question_of(problem);
        let of_words = self.0.get(&words);
        of_words.is_some_and(|asked| context.is_none() || asked.contains(&None) || asked.contains(&context))
    }
}
