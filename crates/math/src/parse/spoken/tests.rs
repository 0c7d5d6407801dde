use crate::Fuel;
use crate::parse::{Side, reading};
use crate::words::Known;

fn read_knowing(problem: &str, text: &str) -> Option<String> {
    let mut known = Known::default();
    known.add(problem);
    reading(text, Side::Answer, &known, &mut Fuel::new(20_000)).into_iter().next().map(|value| value.to_string())
}

fn read(text: &str) -> Option<String> {
    read_knowing("", text)
}

#[test]
fn phrases_of_the_table_go() {
    for text in [
        "36 altogether",
        "\\text{The answer is } 36",
        "\\text{Answer: }36",
        "Total: 36",
        "36 \\text{ is the answer}",
        "36 \\text{ (final answer)}",
        "36 \\qquad \\text{(since }x>0)",
        "**36 altogether**",
        "Number of ways: 36",
        "The number of apples is 36.",
        "\\text{a total of } 36",
        "\\text{which comes out to } 36",
        "36 \\text{ (cm)}",
        "36 (\\text{cm}^2)",
        "一共有36",
        "共36",
    ] {
        assert_eq!(read(text).as_deref(), Some("36"), "{text}");
    }
    assert_eq!(read("3\\sqrt{2} \\text{ (about 4.24)}").as_deref(), Some("3*sqrt(2) ~ 106/25"));
    assert_eq!(read("There are 36 apples altogether").as_deref(), Some("36 apple"));
}

#[test]
fn nouns_of_the_problem_go_after_a_preposition() {
    assert_eq!(read("36 apples in the burrow"), None);
    assert_eq!(read_knowing("Wombats dig a burrow.", "36 apples in the burrow").as_deref(), Some("36 apple"));
    assert_eq!(
        read_knowing("Wombats dig a burrow.", "The number of wombats in the burrow is 36").as_deref(),
        Some("36")
    );
}

#[test]
fn any_other_word_makes_it_no_formula() {
    for text in [
        "not 36",
        "36 or more",
        "at least 36",
        "36 thirds",
        "\\text{less than } 36",
        "36 (wrong)",
        "36 \\text{ (not 36)}",
        "half of 36",
        "two 36",
        "36万",
        "不是36",
        "36 if true",
        "36 plus something",
        "divisors of 36",
        "the sum of the digits of 36",
        "nearly 36",
        "up to 36",
        "the square of 36",
        "36 maximum",
        "\\text{Distractor: }36",
        "\\text{An upper limit is }36",
        "36 (actually 7)",
        "36 (million)",
        "36 (mod 40)",
        "36 (or 37)",
        "36 is a lower bound",
        "July 36",
        "menos 36",
    ] {
        assert_ne!(read(text).as_deref(), Some("36"), "{text}");
    }
}
