//! The built-in task in which what length implies is configurable: sums of four digits, each answer
//! followed by a trail of filler tokens.
//!
//! A trail comes after the answer and changes nothing about it: it only adds tokens. The number of filler tokens
//! appended after right and after wrong answers in demonstrations decides how much lengths vary after the warm start,
//! and how far the lengths of wrong answers are from those of right ones, each independently: the two quantities by
//! which aggregation rules are told apart. Since a trail of another length gains nothing, both stay while a policy
//! learns; in training a trail may have any length.

use evenkeel_chat::Prompt;

use crate::dataset::hold_out;
use crate::trailing_sum::{TrailingSum, Trails};
use crate::{DataReport, DataSource, Dataset, Demonstration, Problem, ProblemOrigin, Rules, Task};

const NAME: &str = "trails";

/// The data set of all problems; `held_out` of them are held out, with those of the same digits in another order.
pub fn dataset(seed: u64, held_out: u32, trails: Trails, rules: &Rules) -> Dataset {
    let all = TrailingSum::all(trails).map(|sum| problem(sum, rules)).collect();
    let (train, held_out, _) = hold_out(all, held_out, seed, unordered);
    let report = DataReport::of(NAME, train.len() + held_out.len());
    let sources = vec![DataSource { name: NAME.to_owned(), weight: 1.0 }];
    Dataset { name: NAME.to_owned(), sources, train, held_out, report }
}

fn problem(sum: TrailingSum, rules: &Rules) -> Problem {
    let task = Task::math([sum.total().to_string()]).expect("one gold answer is given").with_rules(rules);
    let words = sum.words();
    Problem {
        prompt: Prompt::Text(format!("{words}=\n")),
        id: words.into(),
        origin: ProblemOrigin::default(),
        data_source: None,
        context: None,
        suffix: None,
        environment: None,
        task,
        demonstration: Some(Demonstration::TrailingSum(sum)),
        hint: None,
    }
}

/// The digits in order: a model that has seen 1+2+3+4 knows 4+3+2+1.
fn unordered(problem: &Problem) -> Option<[u32; 4]> {
    match problem.demonstration {
        Some(Demonstration::TrailingSum(sum)) => Some(sum.ascending()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const TRAILS: Trails = Trails { wrong: 0.5, after_right: [0, 4], after_wrong: [8, 12] };

    #[test]
    fn held_out_problems_have_no_twin_in_training() {
        let dataset = |seed| dataset(seed, 128, TRAILS, &Rules::default());
        let data = dataset(7);
        let held: HashSet<_> = data.held_out.iter().map(unordered).collect();
        assert_eq!((data.held_out.len(), held.len()), (128, 128));
        assert!(data.train.iter().all(|problem| !held.contains(&unordered(problem))));
        assert!(data.train.len() > 3_000, "{}", data.train.len());
        assert_eq!(data, dataset(7));
        assert_ne!(data.held_out, dataset(8).held_out);
    }

    #[test]
    fn prompts_and_gold_answers_are_those_of_the_sum() {
        let problem = problem(TrailingSum::all(TRAILS).next().unwrap(), &Rules::default());
        assert_eq!((problem.id.to_string().as_str(), problem.prompt), ("1+1+1+1", Prompt::Text("1+1+1+1=\n".into())));
        assert_eq!(problem.task.golds().collect::<Vec<_>>(), ["4"]);
    }
}
