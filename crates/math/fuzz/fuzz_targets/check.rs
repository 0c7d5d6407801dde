//! Any two texts have a verdict, the same one each time, and every gold answer that can be read equals itself:
//! `cargo +nightly fuzz run check` in `crates/math`.
#![no_main]

use evenkeel_math::{Gold, CheckOutcome, Rules, Profile, CheckInput};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pair: (&str, &str)| {
    let (gold, answer) = pair;
    for profile in Profile::ALL {
        let rules = profile.rules();
        let Ok(read) = Gold::read(gold, &rules) else { continue };
        for submission in [CheckInput::Completion(answer), CheckInput::Extracted(answer)] {
            let verdict = read.check(submission, &rules);
            assert_eq!(verdict, read.check(submission, &rules));
            let _ = verdict.canonical();
        }
    }
    let rules = Rules::default();
    if let Ok(read) = Gold::read(gold, &rules) {
        let itself = read.check(CheckInput::Extracted(gold), &rules).outcome();
        assert!(matches!(itself, CheckOutcome::Equal | CheckOutcome::Undecided), "{gold:?} is {itself:?}");
    }
});
