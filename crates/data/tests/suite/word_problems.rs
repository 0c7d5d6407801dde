//! Generated problems as a run gets them: the same for a seed on every machine and in every version.

use evenkeel_chat::Prompt;
use evenkeel_data::{Dataset, Problem, ProblemDifficulty, ProblemKind, Rules, word_problems};

fn of_all_kinds(seed: u64) -> Dataset {
    word_problems::dataset(seed, 0, &ProblemKind::ALL, ProblemDifficulty::Easy, &Rules::default())
}

fn text(problem: &Problem) -> &str {
    match &problem.prompt {
        Prompt::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The first problem of each kind of seed 0 with its answer: a change changes what every recipe with generated problems
/// trains on.
const KNOWN: [(&str, &str); 8] = [
    ("What is 5 + 7?", "12"),
    ("What is 22 - 13?", "9"),
    ("What is 7 * 3?", "21"),
    ("Anna has 4 books and gets 7 more. How many books does Anna have now?", "11"),
    ("Grace has 25 marbles and gives away 12. How many marbles are left?", "13"),
    ("Liam has 10 boxes with 5 buttons each. How many buttons are there in all?", "50"),
    ("Which is the largest of the numbers 31, 87 and 22?", "87"),
    (
        "David has 10 marbles. First David buys 3 packs of 2 marbles. Then David buys 2 packs of 4 marbles. Then David \
         gives away 10. How many marbles does David have in the end?",
        "14",
    ),
];

#[test]
fn the_problems_of_a_seed_never_change() {
    let data = of_all_kinds(0);
    let first = |source: usize| data.train.iter().find(|problem| problem.origin.source == source).unwrap();
    let found: Vec<_> =
        (0..8).map(first).map(|problem| (text(problem), problem.task.golds().next().unwrap())).collect();
    assert_eq!(found, KNOWN);
}

#[test]
fn every_problem_says_what_it_is_called_and_where_it_belongs() {
    let data = of_all_kinds(1);
    for problem in &data.train {
        let kind = problem.data_source.as_deref().unwrap();
        assert!(problem.id.to_string().starts_with(kind), "{}", problem.id);
        assert_eq!(data.sources[problem.origin.source].name, kind);
        assert!(problem.task.golds().all(|gold| gold.parse::<u32>().is_ok()) && problem.demonstration.is_none());
    }
}
