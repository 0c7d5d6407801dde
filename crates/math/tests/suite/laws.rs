//! Properties that hold for every input.

use evenkeel_math::{CheckInput, CheckOutcome, Decimals, Gold, Profile, Rules, check};
use proptest::prelude::*;

/// Fragments of completions, including broken ones.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\\boxed{"),
        Just("\\fbox{"),
        Just("\\boxed "),
        Just("}"),
        Just("{"),
        Just("\\"),
        Just("\\}"),
        Just("\\frac"),
        Just("\\text{"),
        Just("####"),
        Just("\n"),
        Just("Answer:"),
        Just("final answer is"),
        Just("$"),
        Just("$$"),
        Just("\\["),
        Just("\\]"),
        Just("("),
        Just(")"),
        Just("["),
        Just("<think>"),
        Just("</think>"),
        Just(","),
        Just(" and "),
        Just("."),
        Just("/"),
        Just("-"),
        Just("−"),
        Just("%"),
        Just("\\%"),
        Just("^"),
        Just("_"),
        Just("½"),
        Just("٤"),
        Just("\u{202e}"),
        Just("1"),
        Just("000"),
        Just("23"),
        Just("x"),
        Just(" "),
        Just("\u{202f}"),
        Just("€"),
        Just("or"),
        Just("é"),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![hostile(), any::<String>(), "\\PC{0,60}"]
}

fn exact() -> Rules {
    Rules { decimals: Decimals::Exact, ..Rules::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic_and_one_pair_has_one_verdict(gold in any_text(), completion in any_text()) {
        for profile in Profile::ALL {
            let rules = profile.rules();
            for submission in [CheckInput::Completion(&completion), CheckInput::Extracted(&completion)] {
                let first = check(&gold, submission, &rules);
                prop_assert_eq!(&first, &check(&gold, submission, &rules));
                let _ = first.canonical();
            }
        }
    }

    #[test]
    fn every_readable_gold_answer_equals_itself(text in any_text()) {
        let rules = exact();
        if let Ok(gold) = Gold::read(&text, &rules) {
            prop_assert_eq!(gold.check(CheckInput::Extracted(&text), &rules).outcome(), CheckOutcome::Equal);
        }
    }

    #[test]
    fn a_canonical_number_is_read_back(numerator in any::<i64>(), denominator in 1..i64::MAX) {
        let rules = exact();
        let gold = format!("\\frac{{{numerator}}}{{{denominator}}}");
        let answer = format!("{numerator}/{denominator}");
        let verdict = check(&gold, CheckInput::Extracted(&answer), &rules);
        prop_assert!(verdict.is_equal());
        let canonical = verdict.canonical().unwrap();
        prop_assert!(check(&gold, CheckInput::Extracted(&canonical), &rules).is_equal(), "{}", canonical);
    }

    #[test]
    fn spelling_does_not_change_a_fraction(n in -10_000_i64..10_000, d in 1_i64..10_000, k in 1_i64..100) {
        let gold = format!("{n}/{d}");
        for answer in [
            format!("\\dfrac{{{n}}}{{{d}}}"),
            format!("\\frac{{{}}}{{{}}}", n * k, d * k),
            format!("-\\frac{{{}}}{{{d}}}", -n),
            format!("\\frac{{{}}}{{{}}}", -n, -d),
            format!(" {{ ( {n} / {d} ) }} "),
            format!("\\left( {n}/{d} \\right)"),
            format!("${n}/{d}$").replace('-', "−"),
        ] {
            prop_assert!(check(&gold, CheckInput::Extracted(&answer), &exact()).is_equal(), "{} is {}", gold, answer);
        }
        let more = format!("{}/{d}", n + 1);
        prop_assert!(!check(&gold, CheckInput::Extracted(&more), &Rules::default()).is_equal());
    }

    #[test]
    fn an_integer_and_its_neighbour_differ(digits in "[1-9][0-9]{0,400}") {
        let grouped: String = {
            let reversed: Vec<char> = digits.chars().rev().collect();
            let groups: Vec<String> = reversed.chunks(3).map(|chunk| chunk.iter().collect()).collect();
            groups.join(",").chars().rev().collect()
        };
        prop_assert!(check(&digits, CheckInput::Extracted(&grouped), &Rules::default()).is_equal(), "{}", grouped);
        let last = digits.as_bytes()[digits.len() - 1];
        let other = format!("{}{}", &digits[..digits.len() - 1], if last == b'9' { '8' } else { char::from(last + 1) });
        prop_assert!(!check(&digits, CheckInput::Extracted(&other), &Rules::default()).is_equal());
    }

    #[test]
    fn a_decimal_is_the_fraction_that_it_spells(integer in 0_u64..100_000, places in 1_u32..9, part in any::<u64>()) {
        let scale = 10_u64.pow(places);
        let part = part % scale;
        let decimal = format!("{integer}.{part:0width$}", width = places as usize);
        let fraction = format!("{}/{scale}", integer * scale + part);
        prop_assert!(check(&fraction, CheckInput::Extracted(&decimal), &exact()).is_equal());
        let next = format!("{}/{scale}", integer * scale + part + 1);
        prop_assert!(!check(&next, CheckInput::Extracted(&decimal), &Rules::default()).is_equal());
    }
}
