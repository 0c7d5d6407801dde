//! Time and memory are bounded for any text. The time limits detect a different order of growth on any machine
//! (quadratic work on these texts is at least 10^11 steps); speed is measured by bench/math.

use std::time::{Duration, Instant};

use evenkeel_math::{CheckInput, CheckOutcome, Profile, Rules, check};

const TEN_MEGABYTES: usize = 10 << 20;
/// Hundreds of times what the slowest machine needs for linear work.
const NOT_QUADRATIC: Duration = Duration::from_secs(60);

fn timed(completion: &str, rules: &Rules) -> (CheckOutcome, Duration) {
    let begun = Instant::now();
    let verdict = check("3", CheckInput::Completion(completion), rules);
    (verdict.outcome(), begun.elapsed())
}

/// The shortest of several measurements.
fn best_of_three(gold: &str, answer: &str, rules: &Rules) -> Duration {
    let once = || {
        let begun = Instant::now();
        std::hint::black_box(check(gold, CheckInput::Extracted(answer), rules));
        begun.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap_or_default()
}

#[test]
fn ten_megabytes_take_time_in_proportion() {
    let prose = "Let us think about {x} and \\frac{1}{2} of it, w. ".repeat(TEN_MEGABYTES / 48);
    for (text, outcome) in [
        (format!("{prose}\\boxed{{3}}"), CheckOutcome::Equal),
        (format!("\\boxed{{3}}. {prose}"), CheckOutcome::Equal),
        (prose.clone(), CheckOutcome::NoAnswer),
        (format!("<think>{prose}</think>\\boxed{{3}}"), CheckOutcome::Equal),
    ] {
        let (found, time) = timed(&text, &Rules::default());
        assert_eq!(found, outcome);
        println!("ten megabytes with {} after them: {time:?}", &text[text.len() - 12..]);
        assert!(time < NOT_QUADRATIC, "{time:?}");
    }
}

#[test]
fn repetition_does_not_make_it_quadratic() {
    let pieces = [
        "{",
        "}",
        "\\boxed{",
        "\\boxed",
        "\\fbox{}",
        "\\boxed{1}",
        "\\boxed{1},",
        "\\boxed ",
        "\\boxed{{",
        "}}{",
        "\\",
        "\\}",
        "$",
        "$$",
        "\\[",
        "####",
        "####\n",
        "#### \n",
        "\n####",
        "Answer:",
        "Answer:\n",
        "Answer:$",
        "Answer:\\[",
        "answer : ",
        "final answer is ",
        "<think>",
        "</think>",
        "<think></think>",
        "w",
        " ",
        "\n",
        "and ",
        "1",
        "1,",
        "1.",
        "1/",
        "9 ",
        "(",
        "\u{202e}",
        "é",
        "\\text{and}",
        "*",
        "\\boxed{1} and ",
        "Answer: \\boxed{",
    ];
    let rules = Profile::Unmarked.rules();
    for piece in pieces {
        for text in [
            piece.repeat((2 << 20) / piece.len()),
            format!("\\boxed{{{}}}", piece.repeat((2 << 20) / piece.len())),
            format!("{}\\boxed{{3}}{}", piece.repeat((1 << 20) / piece.len()), piece.repeat((1 << 20) / piece.len())),
        ] {
            let (_, time) = timed(&text, &rules);
            assert!(time < NOT_QUADRATIC, "{piece:?} takes {time:?}");
        }
    }
}

#[test]
fn announcements_without_an_answer_share_the_rest_of_their_line() {
    let half = 1 << 20;
    for rest in ["{", "}", "\\"] {
        let text = format!("{}\\boxed{{}}{}", "answer: ".repeat(half / 8), rest.repeat(half));
        let (outcome, time) = timed(&text, &Profile::Dapo.rules());
        assert_eq!(outcome, CheckOutcome::NoAnswer);
        assert!(time < NOT_QUADRATIC, "{rest:?} takes {time:?}");
    }
}

#[test]
fn answers_of_the_largest_size_are_read_in_milliseconds() {
    let rules = Rules::default();
    let size = rules.limits.max_answer_bytes - 32;
    let mut slowest = (Duration::ZERO, "");
    for piece in [
        "9",
        "1,",
        "1/",
        "-",
        "(",
        "{}",
        "\\frac",
        "\\frac1",
        "x^",
        "1 ",
        "\\text{a}",
        "0.",
        ".5,",
        "1,000,",
        "€",
        "a b ",
        "\\frac{1}{3},",
        "1 and ",
        "\\\\",
        "^{1}",
        "½",
    ] {
        let answer = piece.repeat(size / piece.len());
        for gold in ["3", "1/3", answer.as_str()] {
            slowest = slowest.max((best_of_three(gold, &answer, &rules), piece));
        }
    }
    for (answer, piece) in [
        (format!("{}1{}", "\\frac{".repeat(5_000), "}{1}".repeat(5_000)), "nested fractions"),
        (format!("{}3{}", "{".repeat(size / 2), "}".repeat(size / 2)), "nested braces"),
        (format!("{}/{}", "7".repeat(19_000), "3".repeat(19_000)), "long fraction"),
        (
            format!("{}1{}", "\\frac{1}{".repeat(31), format!("/{}}}", "7".repeat(2_000)).repeat(31)),
            "long fractions of fractions",
        ),
        (vec!["0.3333333333"; 64].join(", "), "list of decimals"),
        (vec!["7".repeat(1_000); 60].join(", "), "list of long integers"),
        (format!("0.{}", "3".repeat(19_990)), "long decimal"),
    ] {
        for gold in ["3", "1/3", answer.as_str()] {
            let time = best_of_three(gold, &answer, &rules);
            if time > Duration::from_millis(5) {
                println!("{piece}: {time:?}");
            }
            slowest = slowest.max((time, piece));
        }
    }
    println!("largest answers: {slowest:?} at most");
    assert!(slowest.0 < NOT_QUADRATIC, "{slowest:?}");
}
