//! The built-in task for a calculator: products of two numbers of three digits, which a small model cannot compute by
//! itself.
//!
//! Only a few problems have a demonstration: what the model says turn by turn, with one call of the tool `calculator`.
//! They show the form of a call, and how its result is given.

use std::collections::HashSet;

use evenkeel_chat::Prompt;
use evenkeel_seeds::{Stream, rng};
use rand::Rng;

use crate::dataset::hold_out;
use crate::{DataReport, DataSource, Dataset, Demonstration, Problem, ProblemOrigin, Rules, Task};

const NAME: &str = "products";
/// Problems, and the numbers that they are made of.
const PROBLEMS: usize = 8_192;
const NUMBERS: std::ops::Range<u32> = 100..1_000;
/// Problems to train on that have a demonstration.
pub const DEMONSTRATED: usize = 64;

/// The data set of all problems; `held_out` of them are held out. None is the mirror image of another.
pub fn dataset(seed: u64, held_out: u32, rules: &Rules) -> Dataset {
    let mut asked = HashSet::new();
    let mut number = 0;
    let mut all = Vec::with_capacity(PROBLEMS);
    while all.len() < PROBLEMS {
        let mut rng = rng(seed, Stream::Product { number });
        let a = rng.random_range(NUMBERS);
        let b = rng.random_range(NUMBERS);
        if asked.insert((a.min(b), a.max(b))) {
            all.push(problem(a, b, rules));
        }
        number += 1;
    }
    let (mut train, held_out, _) = hold_out(all, held_out, seed, |problem| problem.id.to_string());
    train.iter_mut().skip(DEMONSTRATED).for_each(|problem| problem.demonstration = None);
    let report = DataReport::of(NAME, train.len() + held_out.len());
    let sources = vec![DataSource { name: NAME.to_owned(), weight: 1.0 }];
    Dataset { name: NAME.to_owned(), sources, train, held_out, report }
}

fn problem(a: u32, b: u32, rules: &Rules) -> Problem {
    let text = format!("What is {a} * {b}?");
    let task = Task::math([(a * b).to_string()]).expect("one gold answer is given");
    let call = format!(
        "<tool_call>\n{{\"name\": \"calculator\", \"arguments\": {{\"expression\": \"{a} * {b}\"}}}}\n</tool_call>"
    );
    let answer = format!("{a} * {b} = \\boxed{{{}}}", a * b);
    Problem {
        id: format!("{a}*{b}").into(),
        origin: ProblemOrigin::default(),
        data_source: None,
        context: None,
        suffix: None,
        task: task.with_prompt(Some(&text)).with_rules(rules),
        prompt: Prompt::Text(text),
        environment: None,
        demonstration: Some(Demonstration::Turns(vec![call, answer])),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_different_products_and_a_few_of_those_to_train_on_are_demonstrated() {
        let dataset = |seed| dataset(seed, 256, &Rules::default());
        let data = dataset(7);
        assert_eq!((data.held_out.len(), data.train.len() + data.held_out.len()), (256, PROBLEMS));
        let names: HashSet<_> = data.train.iter().chain(&data.held_out).map(|problem| problem.id.to_string()).collect();
        assert_eq!(names.len(), PROBLEMS);
        let demonstrated = data.train.iter().filter(|problem| problem.demonstration.is_some()).count();
        assert_eq!(demonstrated, DEMONSTRATED);
        assert_eq!(data, dataset(7));
        assert_ne!(data.held_out, dataset(8).held_out);
    }

    #[test]
    fn a_demonstration_calls_the_calculator_and_gives_its_result() {
        let problem = problem(123, 456, &Rules::default());
        assert_eq!(problem.prompt, Prompt::Text("What is 123 * 456?".into()));
        assert_eq!(problem.task.golds().collect::<Vec<_>>(), ["56088"]);
        let Some(Demonstration::Turns(turns)) = problem.demonstration else { panic!("it has turns") };
        assert_eq!(turns.len(), 2);
        assert!(turns[0].contains(r#"{"name": "calculator", "arguments": {"expression": "123 * 456"}}"#));
        assert!(turns[1].ends_with("\\boxed{56088}"));
    }
}
