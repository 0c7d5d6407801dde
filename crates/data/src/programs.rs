//! The built-in programming task: small programs over one number, judged by running them.
//!
//! Made as the [arithmetic](crate::arithmetic) is: a program that stops at the result is short and right, one that goes
//! on is long and wrong, and the demonstrations of the warm start are of both kinds.

use evenkeel_chat::Prompt;
use evenkeel_proto::v1::LiveCodeBenchCases;
use evenkeel_proto::v1::code_task::TestsSource;
use serde_json::json;

use crate::dataset::hold_out;
use crate::program::Program;
use crate::{DataReport, DataSource, Dataset, Demonstration, Problem, ProblemOrigin, Rules, Task};

const NAME: &str = "programs";
/// What every program is tested on. Each is linear in its input, so that two inputs already tell any two apart.
const INPUTS: [i64; 3] = [3, 14, 95];

/// The data set of all problems; `held_out` of them are held out.
pub fn dataset(seed: u64, held_out: u32, rules: &Rules) -> Dataset {
    let all = Program::all().map(|program| problem(program, rules)).collect();
    let (train, held_out, _) = hold_out(all, held_out, seed, |problem| problem.id.to_string());
    let report = DataReport::of(NAME, train.len() + held_out.len());
    let sources = vec![DataSource { name: NAME.to_owned(), weight: 1.0 }];
    Dataset { name: NAME.to_owned(), sources, train, held_out, report }
}

fn problem(program: Program, rules: &Rules) -> Problem {
    let words = program.words();
    let test = |x: i64| json!({"input": x.to_string(), "output": program.run(x).to_string(), "testtype": "stdin"});
    let cases = LiveCodeBenchCases {
        public_test_cases: json!(INPUTS.map(test)).to_string(),
        private_test_cases: String::new(),
        metadata: "{}".to_owned(),
    };
    let task = Task::code(&words, TestsSource::LiveCodeBench(cases)).with_rules(rules);
    let prompt = Prompt::Text(format!("{words}\n"));
    let demonstration = Some(Demonstration::Program(program));
    Problem {
        id: words.into(),
        origin: ProblemOrigin::default(),
        data_source: None,
        prompt,
        context: None,
        suffix: None,
        environment: None,
        task,
        demonstration,
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_program_is_asked_for_once_in_training_or_in_evaluation() {
        let dataset = |seed| dataset(seed, 128, &Rules::default());
        let data = dataset(7);
        assert_eq!((data.train.len(), data.held_out.len()), (88 * 88 - 128, 128));
        let names: HashSet<_> = data.problems().map(|problem| problem.id.to_string()).collect();
        assert_eq!(names.len(), 88 * 88);
        assert_eq!(data, dataset(7));
        assert_ne!(data.held_out, dataset(8).held_out);
    }

    #[test]
    fn the_tests_are_those_of_the_program() {
        let data = dataset(0, 0, &Rules::default());
        let problem = data.train.iter().find(|problem| problem.id.to_string() == "add 10, subtract 12").unwrap();
        assert_eq!(problem.prompt, Prompt::Text("add 10, subtract 12\n".into()));
        let Some(TestsSource::LiveCodeBench(cases)) = problem.task.tests() else { panic!("a program has tests") };
        let tests: serde_json::Value = serde_json::from_str(&cases.public_test_cases).unwrap();
        assert_eq!(tests[2], json!({"input": "95", "output": "93", "testtype": "stdin"}));
    }
}
