//! Every completion has a verdict: a fixed number of random ones, written by `support`, goes through extraction,
//! parsing and equality. `EVENKEEL_MATH_COMPLETIONS` is their number and `EVENKEEL_MATH_FIRST` the number of the first.
//! A failure names the number of its case, which is all it takes to repeat it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::print_stdout, reason = "the mix of outcomes is worth seeing")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use evenkeel_math::{CheckInput, CheckOutcome, Gold, Profile, Reason, Rules, Verdict, check, lint};
use evenkeel_testkit::{outside, run, test};
use support::{Writer, count, texts_of};

/// Cases unless `EVENKEEL_MATH_COMPLETIONS` says otherwise.
const CASES: u64 = 200_000;

/// Data sets outside the repository whose texts become parts of completions.
const OUTSIDE: [&str; 6] = [
    "data/math/triples.jsonl",
    "data/math/generations.jsonl",
    "data/math/math500.jsonl",
    "data/math/gsm8k.jsonl",
    "data/math/olympiadbench.jsonl",
    "data/math/minerva.jsonl",
];

fn main() -> ExitCode {
    let every = "every_completion_has_a_verdict_whatever_script_it_is_in_and_wherever_it_is_cut";
    run(vec![
        test(every, || {
            let pairs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pairs.jsonl"));
            every_completion_has_a_verdict(texts_of(pairs));
        }),
        outside(&format!("outside::{every}"), &OUTSIDE, |data| {
            every_completion_has_a_verdict(OUTSIDE.iter().flat_map(|file| texts_of(&data.join(file))).collect());
        }),
        test("a_plain_box_has_the_verdict_that_it_has_alone_whatever_surrounds_it", plain_boxes),
    ])
}

/// Everything that is done with a gold answer and a completion.
fn judge(gold: &str, completion: &str, rules: &Rules) -> CheckOutcome {
    let _ = lint(gold, Some(completion), rules);
    let verdict = check(gold, CheckInput::Completion(completion), rules);
    let _ = (verdict.canonical(), format!("{verdict:?}").len());
    let Ok(read) = Gold::read(gold, rules) else {
        assert_eq!(verdict.outcome(), CheckOutcome::BadGold, "{}", verdict.reason);
        return CheckOutcome::BadGold;
    };
    let _ = read.value().to_string();
    assert_eq!(verdict, read.check(CheckInput::Completion(completion), rules), "one pair has one verdict");
    assert_eq!(
        read.check(CheckInput::Extracted(gold), rules).outcome(),
        CheckOutcome::Equal,
        "a gold answer equals itself"
    );
    let given = read.check(CheckInput::Extracted(completion), rules);
    assert_ne!(given.outcome(), CheckOutcome::BadGold);
    // What was extracted is a gold answer as good as any.
    if let Some(extracted) = &verdict.extracted {
        let turned = check(extracted, CheckInput::Extracted(gold), rules);
        let _ = (turned.canonical(), given.canonical());
    }
    verdict.outcome()
}

/// Runs a case; what it panics with names it.
fn case<T>(number: u64, inputs: &dyn std::fmt::Debug, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        panic!("case {number} (EVENKEEL_MATH_FIRST={number} EVENKEEL_MATH_COMPLETIONS=1): {inputs:?}")
    })
}

fn every_completion_has_a_verdict(texts: Vec<String>) {
    let first = count("EVENKEEL_MATH_FIRST", 0);
    let cases = count("EVENKEEL_MATH_COMPLETIONS", CASES);
    let texts = Arc::new(texts);
    let all_rules: Vec<Rules> = Profile::ALL.iter().map(|profile| profile.rules()).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |thread: u64| {
        let mut seen = [0_u64; 5];
        for number in (first + thread..first + cases).step_by(threads as usize) {
            let mut writer = Writer::new(number, &texts);
            let completion = writer.completion();
            let gold = writer.gold();
            let rules = &all_rules[writer.random().below(all_rules.len())];
            seen[match case(number, &(&gold, &completion), || judge(&gold, &completion, rules)) {
                CheckOutcome::Equal => 0,
                CheckOutcome::NotEqual => 1,
                CheckOutcome::Undecided => 2,
                CheckOutcome::NoAnswer => 3,
                CheckOutcome::BadGold => 4,
            }] += 1;
        }
        seen
    };
    let seen = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        let shares =
            shares.into_iter().map(|share| share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        shares.fold([0; 5], |sum: [u64; 5], seen| std::array::from_fn(|outcome| sum[outcome] + seen[outcome]))
    });
    println!("{cases} completions: {seen:?} equal, not equal, undecided, without an answer, bad gold answers");
    assert_eq!(seen.iter().sum::<u64>(), cases);
    // The completions are diverse enough to reach every outcome.
    assert!(cases < 1000 || seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// Whether a text has a word that may take back what precedes it, or give another value.
fn takes_back(text: &str) -> bool {
    const WORDS: [&str; 11] =
        ["or", "but", "wait", "is", "not", "no", "actually", "instead", "other", "cannot", "이다"];
    let text = text.to_lowercase();
    // A sentence that is a number.
    let is_value = |part: &str| {
        part.contains(|c: char| c.is_ascii_digit())
            && !part.split(|c: char| !c.is_alphabetic()).any(|word| word.len() > 1)
    };
    text.split(|c: char| !c.is_alphabetic()).any(|word| WORDS.contains(&word))
        || text.split(['\n', '。', '.', ';', '!', '！', '？']).any(is_value)
        // Brackets with a number, and a number after a stroke.
        || text.split(['(', '[', '{', '<', '/']).skip(1).any(|part| part.contains(|c: char| c.is_ascii_digit()))
}

/// Whether a text has a word that may deny a box after it.
fn denies(text: &str) -> bool {
    // The last words of the rows `bound` in words.txt.
    const BOUNDS: [&str; 19] = [
        "mod", "modulo", "log", "ln", "sin", "cos", "tan", "of", "than", "minus", "above", "below", "under", "over",
        "exceeds", "nearly", "almost", "except", "negative",
    ];
    let text = text.to_lowercase();
    [
        "not",
        "n't",
        "n’t",
        "never",
        "wrong",
        "incorrect",
        "false",
        "invalid",
        "mistake",
        "half",
        "twice",
        "double",
        "thrice",
        "triple",
        "your",
    ]
    .iter()
    .any(|word| text.contains(word))
        // A label may name somebody.
        || text.trim_end().ends_with([':', '：'])
        // A tag, or a comment.
        || text.contains('<')
        || text.rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with('%'))
        || text
            .split(|c: char| !c.is_alphabetic())
            .rfind(|word| !word.is_empty())
            .is_some_and(|last| BOUNDS.contains(&last))
}

/// Whether a text may announce another answer than the box before it.
fn announces(text: &str) -> bool {
    let text = text.to_lowercase();
    [
        "answer",
        "ans",
        "####",
        "option",
        "choice",
        "답",
        "答",
        "选",
        "ntwort",
        "rgebnis",
        "puesta",
        "ponse",
        "posta",
        "cevap",
        "odpowied",
        "đáp",
        "твет",
        "جواب",
        "उत्तर",
        "คำตอบ",
        "الإجابة",
        "Đáp",
        "awaban",
        "উত্তর",
        "var",
        "ідповідь",
        "תשובה",
        "پاسخ",
        "álasz",
        "astaus",
        "dpověď",
        "πάντηση",
        "ăspuns",
    ]
    .iter()
    .any(|word| text.contains(word))
}

/// Whether what touches a box may make it a part of a larger formula: a sign, a command, a digit, a bracket or, in a formula, a
/// coefficient before it; a sign, a number, a letter, a factor or dots after it; braces or strokes on both sides.
fn goes_on(before: &str, after: &str) -> bool {
    let is_sign = |c: char| "&+-−*/^_=<>≠≤≥%!(\\·×÷±∓–—？✘❌✖⁇≢⩽⩾≮≯√∛∑∏∫∈∉∼≈≡≅∝∞π¬∣|?✗:".contains(c);
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    let in_formula = ["$", "\\(", "\\["].iter().any(|mark| line.contains(mark));
    let bare = line.trim_end_matches(|c: char| c.is_whitespace() || "\\,;!~".contains(c));
    let is_coefficient = in_formula && bare.ends_with(|c: char| c.is_alphanumeric() || c == '}');
    let before = before.trim_end_matches(|c: char| c.is_whitespace() || "${~".contains(c));
    let is_command = before.rsplit_once('\\').is_some_and(|(_, name)| name.chars().all(char::is_alphabetic));
    let touching = after.trim_start_matches(|c: char| c.is_whitespace() || c == '~');
    let after = touching.trim_start_matches(|c: char| c.is_whitespace() || "~${*(".contains(c));
    let factor =
        ["hundred", "thousand", "illion", "dozen", "squared", "percent"].iter().any(|word| after.contains(word));
    let is_enclosed =
        line.contains('{') && after.contains('}') || line.ends_with("~~") || line.ends_with(['(', '[', '|']);
    let dots = ["...", "…"].iter().any(|dots| after.trim_start_matches('$').trim_start().starts_with(dots));
    let decimals = after.starts_with(['.', ',']) && after.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
    before.ends_with(is_sign)
        || is_command
        || is_coefficient
        || is_enclosed
        || dots
        || line.ends_with(|c: char| c.is_numeric() || c == '}' || ('\u{1D400}'..='\u{1D7FF}').contains(&c))
        || [touching, after].iter().any(|rest| rest.starts_with(|c: char| is_sign(c) || c.is_alphanumeric()))
        || decimals
        || factor
}

fn plain_boxes() {
    let cases = count("EVENKEEL_MATH_COMPLETIONS", CASES) / 4;
    let all_rules: Vec<Rules> = [Profile::Default, Profile::Exact, Profile::Unmarked].map(Profile::rules).into();
    let nothing = Arc::default();
    for number in 0..cases {
        let mut writer = Writer::new(number, &nothing);
        let gold = writer.plain_answer();
        let answer = writer.plain_answer();
        if answer.ends_with('\\') {
            // The backslash would escape the closing brace.
            continue;
        }
        let rules = &all_rules[writer.random().below(all_rules.len())];
        // What follows the end of the model's turn is not its answer.
        let before = writer.surroundings().replace("<|im_end|>", "");
        let after = writer.surroundings();
        let mark = if writer.random().once_in(8) { "\\fbox" } else { "\\boxed" };
        let alone = format!("{mark}{{{answer}}}");
        let surrounded = format!("{before}{alone}{after}");
        case(number, &(gold, &surrounded), || {
            let verdict = |text| -> Verdict<'_> { check(gold, CheckInput::Completion(text), rules) };
            let found = verdict(&surrounded);
            let is_denied = found.reason == Reason::NotUnderstood && (denies(&before) || announces(&before));
            let is_taken_back = found.reason == Reason::TakenBack && (takes_back(&after) || announces(&after));
            // Words in the sentence of a box are accounted for, or leave it undecided.
            let has_words = |text: &str| {
                text.lines().next().is_some_and(|line| line.contains(|c: char| c.is_alphanumeric() || !c.is_ascii()))
            };
            let line = before.rsplit('\n').next().unwrap_or_default();
            // The last word of a sentence in another language must be known, and that of a sentence of one word.
            let is_foreign = line.contains(|c: char| c.is_alphabetic() && !c.is_ascii()) || !line.trim().contains(' ');
            let has_formula = before.contains(['(', '[', '=', '{', '\\']) || after.starts_with('}');
            let is_part = found.reason == Reason::NotUnderstood
                && (goes_on(&before, &after) || has_words(&after) || has_formula || is_foreign || announces(line));
            // A percent sign behind the box is read if the gold answer has one.
            let is_percent = gold.contains('%') && ["%", "percent", "pct"].iter().any(|sign| after.contains(sign));
            if !is_denied && !is_taken_back && !is_part && !is_percent {
                assert_eq!(found, verdict(&alone));
            }
        });
    }
}
