//! The built-in task: two-digit addition with worked answers.
//!
//! Made so that aggregation matters: answers that stop at the result are short and right, answers that hesitate are
//! long and wrong. The demonstrations of the warm start are of both kinds, so that GRPO has something to prefer, and
//! response length goes with the sign of the advantage.

use crate::dataset::hold_out;
use crate::sum::Sum;
use crate::{DataReport, DataSource, Dataset, Demonstration, Problem, ProblemOrigin, Rules, Task};
use evenkeel_chat::Prompt;

const NAME: &str = "arithmetic";

/// The data set of all problems; `held_out` of them are held out, with their mirror images.
pub fn dataset(seed: u64, held_out: u32, rules: &Rules) -> Dataset {
    let all = Sum::all().map(|sum| problem(sum, rules)).collect();
    // A model that has seen 12+34 knows 34+12.
    let (train, held_out, _) = hold_out(all, held_out, seed, unordered);
    let report = DataReport::of(NAME, train.len() + held_out.len());
    let sources = vec![DataSource { name: NAME.to_owned(), weight: 1.0 }];
    Dataset { name: NAME.to_owned(), sources, train, held_out, report }
}

fn problem(sum: Sum, rules: &Rules) -> Problem {
    let (a, b) = sum.operands();
    let task = Task::math([(a + b).to_string()]).expect("one gold answer is given");
    let task = task.with_prompt(Some(&format!("{a}+{b}="))).with_rules(rules);
    let demonstration = Some(Demonstration::Sum(sum));
    let id = format!("{a}+{b}").into();
    let prompt = Prompt::Text(format!("{a}+{b}=\n"));
    Problem {
        id,
        origin: ProblemOrigin::default(),
        data_source: None,
        prompt,
        context: None,
        suffix: None,
        task,
        environment: None,
        demonstration,
        hint: None,
    }
}

fn unordered(problem: &Problem) -> Option<(u32, u32)> {
    match problem.demonstration {
        Some(Demonstration::Sum(sum)) => Some(sum.operands()).map(|(a, b)| (a.min(b), a.max(b))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn held_out_problems_have_no_twin_in_training() {
        let dataset = |seed| dataset(seed, 256, &Rules::default());
        let data = dataset(7);
        assert_eq!(data.held_out.len(), 256);
        let held: HashSet<_> = data.held_out.iter().map(unordered).collect();
        assert_eq!(held.len(), 256);
        assert!(data.train.iter().all(|problem| !held.contains(&unordered(problem))));
        assert!(data.train.len() > 7_500);
        assert_eq!(data, dataset(7));
        assert_ne!(data.held_out, dataset(8).held_out);
    }

    #[test]
    fn prompts_and_gold_answers_are_those_of_the_sum() {
        let problem = problem(Sum::all().next().unwrap(), &Rules::default());
        assert_eq!((problem.id.to_string().as_str(), problem.prompt), ("10+10", Prompt::Text("10+10=\n".into())));
        assert_eq!(problem.task.golds().collect::<Vec<_>>(), ["20"]);
    }
}
