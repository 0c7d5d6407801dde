//! No wrong reward, on answers whose truth is known without the parser: random formulas, changed gold answers, gold
//! answers against each other, every word of a dictionary, and what stands beside an answer.
//!
//! `EVENKEEL_MATH_PAIRS` is the number of random pairs and texts and `EVENKEEL_MATH_FIRST` the number of the first. A failure names
//! the number of its pair, which is all it takes to repeat it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::print_stdout, reason = "what was judged is worth seeing")]

mod beside;
mod formula;
mod golds;
mod random;
mod truth;
mod words;

use std::process::ExitCode;

use evenkeel_math::{CheckInput, CheckOutcome, Rules, check};
use evenkeel_testkit::{outside, run, test};
use formula::{Shape, changed, print_shape, reordered, shape};
use random::Random;

/// Pairs unless `EVENKEEL_MATH_PAIRS` says otherwise.
const PAIRS: u64 = 100_000;

fn main() -> ExitCode {
    run(vec![
        test("no_random_formula_is_rewarded_for_another", random_formulas),
        test(
            "an_answer_is_rewarded_only_if_every_part_beside_it_is_accounted_for",
            beside::every_part_is_accounted_for,
        ),
        outside("outside::no_changed_gold_answer_is_rewarded", &golds::FILES, golds::changed),
        outside("outside::no_gold_answer_is_rewarded_for_another", &golds::FILES, golds::each_against_each),
        outside("outside::no_word_beside_an_answer_is_rewarded", &[words::DICTIONARY], |_| words::of_the_dictionary()),
        test("no_word_that_changes_a_number_is_a_noun_of_a_problem", words::that_change_a_number),
    ])
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// A change of one scalar of a shape.
fn changed_shape(random: &mut Random, shape: &Shape) -> Shape {
    let one_of = |random: &mut Random, items: &[formula::Scalar]| {
        let mut items = items.to_vec();
        let at = random.below(items.len());
        items[at] = changed(random, &items[at]);
        items
    };
    match shape {
        Shape::Scalar(value) => Shape::Scalar(changed(random, value)),
        Shape::Tuple(items) => Shape::Tuple(one_of(random, items)),
        Shape::Set(items) => Shape::Set(one_of(random, items)),
        Shape::Interval(low_closed, low, high, high_closed) => {
            if random.once_in(2) {
                Shape::Interval(!low_closed, low.clone(), high.clone(), *high_closed)
            } else {
                Shape::Interval(*low_closed, low.clone(), formula::Scalar::Integer(31), *high_closed)
            }
        }
        Shape::Equation(letter, value) => Shape::Equation(*letter, changed(random, value)),
        Shape::Family(term) => Shape::Family(changed(random, term)),
    }
}

fn reordered_shape(random: &mut Random, shape: &Shape) -> Shape {
    match shape {
        Shape::Scalar(value) => Shape::Scalar(reordered(random, value)),
        Shape::Tuple(items) => Shape::Tuple(items.iter().map(|item| reordered(random, item)).collect()),
        Shape::Set(items) => Shape::Set(items.iter().rev().map(|item| reordered(random, item)).collect()),
        Shape::Equation(letter, value) => Shape::Equation(*letter, reordered(random, value)),
        Shape::Family(term) => Shape::Family(reordered(random, term)),
        other => other.clone(),
    }
}

/// Whether the letter of an equation stands on both sides; a change may bring it there.
fn is_solved_by_its_letter(shape: &Shape) -> bool {
    matches!(shape, Shape::Equation(letter, value) if formula::has_letter(value, *letter))
}

fn random_formulas() {
    let first = number("EVENKEEL_MATH_FIRST", 0);
    let count = number("EVENKEEL_MATH_PAIRS", PAIRS);
    let rules = Rules::default();
    let mut wrong = Vec::new();
    let mut refused = Vec::new();
    let (mut same, mut different, mut equal) = (0_u64, 0_u64, 0_u64);
    for pair in first..first + count {
        let mut random = Random(pair.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let gold = shape(&mut random);
        let kind = random.below(8);
        let answer = match kind {
            0..=4 => changed_shape(&mut random, &gold),
            5 => shape(&mut random),
            _ => reordered_shape(&mut random, &gold),
        };
        let (gold_text, answer_text) = (print_shape(&mut random, &gold), print_shape(&mut random, &answer));
        let verdict = check(&gold_text, CheckInput::Extracted(&answer_text), &rules);
        let is_equal = verdict.is_equal();
        equal += u64::from(is_equal);
        if kind > 5 {
            same += 1;
            if !is_equal && verdict.outcome() != CheckOutcome::BadGold && refused.len() < 1_000 {
                refused.push(format!("{pair}: {gold_text} and {answer_text}: {}", verdict.reason));
            }
            continue;
        }
        // An equation may be answered by its right side, and a value by an equation: other shapes are not compared. A
        // letter alone may be a choice, in either case.
        let is_comparable = std::mem::discriminant(&gold) == std::mem::discriminant(&answer)
            && !is_solved_by_its_letter(&answer)
            && !matches!(gold, Shape::Scalar(formula::Scalar::Letter(_)));
        if is_comparable && truth::differ(&gold, &answer, &mut random) {
            different += 1;
            if is_equal {
                wrong.push(format!("{pair}: {gold_text} and {answer_text}: {}", verdict.reason));
            }
        }
    }
    println!("{count} pairs: {same} the same in another order, {different} certainly different, {equal} judged equal");
    println!("{} of the same refused: {:#?}", refused.len(), refused.iter().take(8).collect::<Vec<_>>());
    assert!(wrong.is_empty(), "{} rewarded wrongly: {:#?}", wrong.len(), wrong.iter().take(20).collect::<Vec<_>>());
    assert!(different * 3 > count, "{different} of {count} pairs are certainly different");
    assert!((refused.len() as u64) * 100 < same, "{refused:#?}");
}
