//! What surrounds a plain box changes nothing: `cargo +nightly fuzz run surroundings` in `crates/math`.
#![no_main]

use evenkeel_math::{Rules, CheckInput, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str, &str)| {
    let (before, answer, behind) = texts;
    // Another box, tags of thinking, and braces or backslashes that change where the box ends, are no surroundings.
    let is_other = |text: &str| ["boxed", "fbox", "think"].iter().any(|word| text.contains(word));
    if is_other(before) || is_other(behind) || is_other(answer) || answer.contains(['{', '}', '\\']) {
        return;
    }
    let rules = Rules::default();
    let alone = format!("\\boxed{{{answer}}}");
    let surrounded = [before, &alone, behind].concat();
    for gold in ["5", "\\frac12", answer] {
        let verdict = check(gold, CheckInput::Completion(&surrounded), &rules);
        assert_eq!(verdict, check(gold, CheckInput::Completion(&alone), &rules));
    }
});
