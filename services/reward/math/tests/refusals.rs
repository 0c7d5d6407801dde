//! What looks like the answer, or computes to it on paper, and is not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use evenkeel_math::{Policy, Submission, check};

#[track_caller]
fn judged(pairs: &[(&str, &str)], equal: bool) {
    for (gold, answer) in pairs {
        let verdict = check(gold, Submission::Extracted(answer), &Policy::default());
        assert_eq!(verdict.is_equal(), equal, "{gold} against {answer} is {}", verdict.reason);
    }
}

#[test]
fn signs_that_depend_on_parity_are_no_identities() {
    for name in ["n", "m", "k", "l", "x", "b", "N", "p", "t"] {
        for (gold, answer) in [
            ("1", "(-1)^{@}"),
            ("-1", "(-1)^{@}"),
            ("(-1)^{@}", "1"),
            ("2^{@}", "(-2)^{@}"),
            ("1", "i^{@}"),
            ("1", "(-1)^{@j}"),
            ("1", "(-1)^{@j+@}"),
            ("y = x", "y = (-1)^{@}x"),
            ("y = x", "y = (-1)^{@j}x"),
        ] {
            judged(&[(&gold.replace('@', name), &answer.replace('@', name))], false);
        }
    }
    judged(&[("1", "(-1)^{2n}"), ("(-2)^n", "(-1)^n 2^n"), ("1", "i^{4k}"), ("1", "(-1)^{n(n+1)}")], true);
}

#[test]
fn multiples_of_the_primes_of_the_modular_test_are_seen() {
    let (p, q) = ("(2^{61}-2595)", "(2^{61}-5043)");
    judged(
        &[
            ("x", &format!("x + {p}{q}")),
            ("7", &format!("7 + {p}^{{1000000}}{q}")),
            ("1", &format!("2^{{({p}-1)({q}-1)}}")),
            ("x", &format!("x^{{1+({p}-1)({q}-1)}}")),
            ("x = 5y", &format!("x = 5y + {p}{q}")),
        ],
        false,
    );
    judged(&[("(x^2-1)^{500000}", "(x+1)^{500000}(x-1)^{500000}")], true);
}

#[test]
fn one_point_is_not_counted_twice() {
    // Of all that is tried, this has a value at l = 1 alone.
    judged(&[("1", "(-1)^{\\ln l}")], false);
}

#[test]
fn pieces_that_meet_far_away_are_found() {
    judged(
        &[
            ("|x-100|", "100-x"),
            ("|x+1000|", "x+1000"),
            ("\\max(x,50)", "50"),
            ("\\lfloor n/100 \\rfloor", "0"),
            ("\\lceil n/13 \\rceil", "1"),
            ("n \\bmod 2024", "n"),
            ("\\min(n, 2000)", "n"),
            ("x > 497", "|x-500| < 3"),
        ],
        false,
    );
    judged(&[("|x-100|", "|100-x|"), ("\\lfloor n/100 \\rfloor", "\\lfloor \\frac{n}{100} \\rfloor")], true);
}
