//! A million random inputs (`EVENKEEL_MATH_RANDOM`): none panics, every readable gold answer equals itself, and a pair
//! has one verdict.

use evenkeel_math::{CheckInput, CheckOutcome, Gold, Profile, Rules, lint};

const PIECES: &[&str] = &[
    "1",
    "2",
    "-3",
    "0",
    "12",
    "1,000",
    "0.5",
    ".25",
    "1e3",
    "x",
    "y",
    "n",
    "e",
    "i",
    "\\pi",
    "\\alpha",
    "x_1",
    "f(x)",
    "+",
    "-",
    "*",
    "/",
    "^",
    "^2",
    "^{-1}",
    "_",
    "!",
    "%",
    "\\%",
    "=",
    "<",
    ">",
    "\\le ",
    "\\ne ",
    "\\in ",
    "\\approx ",
    ":",
    ",",
    ";",
    " and ",
    " or ",
    "(",
    ")",
    "[",
    "]",
    "\\{",
    "\\}",
    "{",
    "}",
    "|",
    "\\frac",
    "\\frac{1}{2}",
    "\\sqrt",
    "\\sqrt{2}",
    "\\sqrt[3]{",
    "\\sin ",
    "\\cos^2 ",
    "\\log_2 ",
    "\\ln",
    "\\sum_{k=1}^{n}",
    "\\prod_{k=1}^{3}",
    "\\binom",
    "\\lfloor ",
    "\\rfloor",
    "\\cup ",
    "\\setminus ",
    "\\infty",
    "\\mathbb{R}",
    "\\begin{pmatrix}",
    "\\end{pmatrix}",
    "&",
    "\\\\",
    "\\text{",
    "\\text{ cm}",
    "cm",
    "\\boxed{",
    "^\\circ",
    "\\pm ",
    "\\mp ",
    "\\ldots",
    "$",
    "$$",
    "\\(",
    "\\)",
    "\\[",
    "\\]",
    " ",
    "\n",
    "Answer:",
    "####",
    "final answer is",
    "<think>",
    "</think>",
    "½",
    "²",
    "√",
    "−",
    "π",
    "≤",
    "∪",
    "٤",
    "\u{202e}",
    "é",
    "A",
    "(B)",
    "20:34",
    "52_8",
    "\\hat{x}",
    "\\left",
    "\\right",
    "\\",
    "'",
    "?",
    "sqrt(",
    "pi",
    "sinx",
    "\\mod ",
    "\\gcd(",
    "\\overline{3}",
    "true",
    "no solution",
    "mod",
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn text(&mut self, longest: usize) -> String {
        (0..self.below(longest)).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }
}

#[test]
fn a_million_random_inputs_have_a_verdict_each() {
    let count: usize = std::env::var("EVENKEEL_MATH_RANDOM").map_or(1_000_000, |count| count.parse().unwrap());
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let all_rules: Vec<Rules> = Profile::ALL.iter().map(|profile| profile.rules()).collect();
    let mut seen = [0_usize; 5];
    for round in 0..count {
        let gold = random.text(10);
        let answer = random.text(16);
        let rules = &all_rules[round % all_rules.len()];
        let Ok(read) = Gold::read(&gold, rules) else {
            seen[4] += 1;
            assert!(lint(&gold, None, rules).is_some());
            continue;
        };
        let submission = if round % 2 == 0 { CheckInput::Extracted(&answer) } else { CheckInput::Completion(&answer) };
        let verdict = read.check(submission, rules);
        seen[match verdict.outcome() {
            CheckOutcome::Equal => 0,
            CheckOutcome::NotEqual => 1,
            CheckOutcome::Undecided => 2,
            _ => 3,
        }] += 1;
        let itself = read.check(CheckInput::Extracted(&gold), rules);
        assert_eq!(itself.outcome(), CheckOutcome::Equal, "{gold:?} is {}", itself.reason);
        if round % 64 == 0 {
            assert_eq!(verdict, read.check(submission, rules), "{gold:?} and {answer:?}");
            let _ = (verdict.canonical(), read.value().to_string());
        }
    }
    println!("{count} inputs: {seen:?} equal, not equal, undecided, without an answer, bad gold answers");
}
