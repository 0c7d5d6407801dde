//! What a run would ask: prompts by file, counted, with their lengths.

use std::collections::BTreeMap;

use evenkeel_chat::Prompt;
use evenkeel_data::{Problem, Purpose, TaskKind};
use evenkeel_math::Profile;
use evenkeel_orchestrator::{DataSettings, hint_of};
use serde::Serialize;

use super::model::ModelFacts;
use crate::marked_prompts::{MarkedPrompts, plain_text};

/// Prompts that are rendered together, on all cores.
const RENDERED_TOGETHER: usize = 1024;

/// What a run would ask.
#[derive(Debug, Default, Serialize)]
pub(super) struct DataFacts {
    pub(super) sets: Vec<PromptSet>,
}

/// The prompts of one file, or of a data set that the program makes.
#[derive(Debug, Serialize)]
pub(super) struct PromptSet {
    pub(super) name: String,
    pub(super) part: Purpose,
    pub(super) rows: u64,
    pub(super) prompts: u64,
    /// Prompts that leave no room for the longest response.
    pub(super) too_long: u64,
    /// What an evaluation asks of it; absent for training data.
    pub(super) asked: Option<EvaluationVolume>,
    /// Absent where the tokenizer could not be read.
    pub(super) mean_tokens: Option<f64>,
    pub(super) longest_tokens: Option<u64>,
    /// The longest prompt with its hint, in tokens; absent where none has one.
    #[serde(skip)]
    pub(super) longest_hinted: Option<u64>,
    /// How many prompts have which length in tokens, where they are known.
    #[serde(skip)]
    pub(super) lengths: BTreeMap<u64, u64>,
    #[serde(skip)]
    pub(super) kinds: Vec<TaskKind>,
    /// Whether any of its rows has a hint.
    #[serde(skip)]
    pub(super) has_hints: bool,
    #[serde(skip)]
    pub(super) refused: Refused,
    /// Whether its prompts ask for an answer that the verifier finds.
    #[serde(skip)]
    pub(super) marked: MarkedPrompts,
}

/// What an evaluation asks of a set.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct EvaluationVolume {
    pub(super) problems: u64,
    /// Samples for each problem.
    pub(super) samples: u32,
    /// Longest response, in tokens.
    pub(super) answer_tokens: u32,
}

/// Prompts that the chat template refuses.
#[derive(Debug, Default)]
pub(super) struct Refused {
    pub(super) count: u64,
    /// The first one's name, and why.
    pub(super) first: Option<(String, String)>,
}

impl DataFacts {
    /// Prompts of a part, without those that are left out for their length.
    pub(super) fn prompts(&self, part: Purpose) -> u64 {
        self.of(part).map(|set| set.prompts - set.too_long).sum()
    }

    /// The mean length of the prompts of a part, where it is known.
    pub(super) fn mean_tokens(&self, part: Purpose) -> Option<f64> {
        let mut prompts = 0.0;
        let mut tokens = 0.0;
        for set in self.of(part) {
            prompts += set.prompts as f64;
            tokens += set.prompts as f64 * set.mean_tokens?;
        }
        (prompts > 0.0).then(|| tokens / prompts)
    }

    /// The longest prompt, with its hint where it has one, in tokens; 0 where none is known.
    pub(super) fn longest_tokens(&self) -> u64 {
        self.sets.iter().flat_map(|set| [set.longest_tokens, set.longest_hinted]).flatten().max().unwrap_or(0)
    }

    /// How many prompts of a part have which length, where they are known.
    pub(super) fn lengths(&self, part: Purpose) -> BTreeMap<u64, u64> {
        let mut all = BTreeMap::new();
        for (&length, count) in self.of(part).flat_map(|set| &set.lengths) {
            *all.entry(length).or_default() += count;
        }
        all
    }

    /// Whether there are tasks of a kind.
    pub(super) fn has(&self, kind: TaskKind) -> bool {
        self.sets.iter().any(|set| set.kinds.contains(&kind))
    }

    pub(super) fn of(&self, part: Purpose) -> impl Iterator<Item = &PromptSet> {
        self.sets.iter().filter(move |set| set.part == part)
    }
}

/// Counts prompts and their tokens. A fresh model has one token for each character.
pub(super) fn prompt_set(
    name: String,
    part: Purpose,
    problems: &[Problem],
    model: &ModelFacts,
    data: &DataSettings,
    room: Option<u64>,
    profile: Profile,
) -> PromptSet {
    let mut lengths = Vec::with_capacity(problems.len());
    let mut longest_hinted = None::<u64>;
    let mut too_long = 0_u64;
    let mut add = |tokens: usize, hinted: Option<usize>| {
        let (tokens, hinted) = (tokens as u64, hinted.map(|hinted| hinted as u64));
        lengths.push(tokens);
        longest_hinted = longest_hinted.max(hinted);
        too_long += u64::from(room.is_some_and(|room| tokens.max(hinted.unwrap_or(0)) > room));
    };
    // The teacher reads what is trained on alone.
    let hint = data.hint.as_deref().filter(|_| part == Purpose::Training);
    let mut refused = Refused::default();
    let mut marked = MarkedPrompts::default();
    for problems in problems.chunks(RENDERED_TOGETHER) {
        match (&model.encoder, &model.folder) {
            (Some(encoder), _) => {
                for (problem, rendered) in problems.iter().zip(encoder.render_all(problems)) {
                    let rendered = rendered.and_then(|rendered| {
                        let hinted = hint.map(|_| encoder.render_hinted(problem)).transpose()?.flatten();
                        Ok((rendered, hinted))
                    });
                    match rendered {
                        Ok((rendered, hinted)) => {
                            marked.add(problem, &rendered.text, profile);
                            add(rendered.token_ids.len(), hinted.map(|hinted| hinted.token_ids.len()));
                        }
                        Err(error) => {
                            refused.count += 1;
                            refused.first.get_or_insert_with(|| (problem.id.to_string(), error.to_string()));
                        }
                    }
                }
            }
            (None, None) => {
                for problem in problems {
                    let text = plain_text(&problem.prompt, problem.suffix.as_deref().unwrap_or(&data.suffix));
                    marked.add(problem, &text, profile);
                    if !matches!(problem.prompt, Prompt::Messages(_)) {
                        let characters = text.chars().count();
                        add(characters, hint_of(hint, problem).map(|hint| characters + hint.chars().count()));
                    }
                }
            }
            (None, Some(_)) => {}
        }
    }
    let mut kinds: Vec<_> = problems.iter().map(|problem| problem.task.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sum: u64 = lengths.iter().sum();
    let mut counts = BTreeMap::new();
    lengths.iter().for_each(|&length| *counts.entry(length).or_default() += 1);
    PromptSet {
        name,
        part,
        rows: problems.len() as u64,
        prompts: problems.len() as u64,
        asked: None,
        too_long,
        mean_tokens: (!lengths.is_empty()).then(|| sum as f64 / lengths.len() as f64),
        longest_tokens: lengths.iter().max().copied(),
        longest_hinted,
        lengths: counts,
        kinds,
        has_hints: problems.iter().any(|problem| problem.hint.is_some()),
        refused,
        marked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prompt_is_one_with_its_hint_where_that_is_trained_on() {
        let data = DataSettings { hint: Some(" Hint: {hint}".to_owned()), ..DataSettings::default() };
        let mut problems = data.built_in(1, 0).unwrap().train;
        problems.truncate(9);
        let model = ModelFacts {
            folder: None,
            parameters: None,
            context_tokens: None,
            chat_template: false,
            config: None,
            encoder: None,
        };
        let facts = |problems: &[Problem], part, room| DataFacts {
            sets: vec![prompt_set("a".to_owned(), part, problems, &model, &data, room, Profile::default())],
        };
        let plain = facts(&problems, Purpose::Training, None).longest_tokens();
        problems[0].hint = Some("x".repeat(100).into());
        let hinted = facts(&problems, Purpose::Training, Some(plain));
        assert!(hinted.longest_tokens() > plain + 50, "{}", hinted.longest_tokens());
        assert_eq!((hinted.sets[0].longest_tokens, hinted.sets[0].too_long), (Some(plain), 1));
        assert_eq!(facts(&problems, Purpose::Evaluation, None).longest_tokens(), plain, "no teacher reads it");
    }
}
