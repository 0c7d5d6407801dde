//! Answers that resemble the gold answer and are not equal to it.

use evenkeel_math::{CheckInput, Rules, check};

#[track_caller]
fn judged(pairs: &[(&str, &str)], equal: bool) {
    for (gold, answer) in pairs {
        let verdict = check(gold, CheckInput::Extracted(answer), &Rules::default());
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
    let p = "(2^{61}-2595)";
    let q = "(2^{61}-5043)";
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
    // Among the points that are tried, this is defined at l = 1 only.
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
            ("x+3", "\\sqrt{(x+3)^2}"),
            ("x+n", "|x+n|"),
            ("x^n", "\\sqrt{(x^n)^2}"),
        ],
        false,
    );
    judged(&[("|x-100|", "|100-x|"), ("\\lfloor n/100 \\rfloor", "\\lfloor \\frac{n}{100} \\rfloor")], true);
}

#[test]
fn a_chain_of_equations_has_a_value_where_its_numbers_agree() {
    judged(
        &[
            ("5", "x = 6 = 5"),
            ("5", "6 = x = 5"),
            ("5", "x = 3+3 = 5"),
            ("5", "x = \\frac{12}{2} = 5"),
            ("5", "x = 5 = 6 = 5"),
        ],
        false,
    );
    judged(
        &[
            ("5", "x = 3+2 = 5"),
            ("6", "S = a + b = 2 + 4 = 6"),
            ("11", "x = 5+6 = 11 \\approx 11.2"),
            ("0.33", "x = \\frac13 = 0.33"),
            ("2\\pi", "A = \\pi r^2 = \\pi \\cdot 2 = 2\\pi"),
        ],
        true,
    );
}

#[test]
fn what_is_denied_is_no_value() {
    judged(
        &[
            ("5", "x \\not= 5"),
            ("5", "x \\not = 5"),
            ("5", "x \\not\\approx 5"),
            ("5", "x =/= 5"),
            ("5", "\\text{not } = 5"),
            ("5", "x \\text{ is not } = 5"),
        ],
        false,
    );
    judged(&[("x \\ne 5", "x \\not= 5")], true);
}

#[test]
fn arrows_and_memberships_have_a_direction() {
    judged(&[("A \\to B", "B \\to A"), ("A \\in B", "B \\in A")], false);
    judged(&[("A \\to B", "A \\rightarrow B")], true);
}

#[test]
fn scales_of_temperature_and_symbols_of_other_case_are_other_units() {
    judged(
        &[
            ("25^\\circ\\text{C}", "25^\\circ\\text{F}"),
            ("25\\text{ K}", "25\\text{ C}"),
            ("5\\text{ MW}", "5\\text{ mW}"),
            ("5\\text{ MeV}", "5\\text{ meV}"),
            ("5\\text{ Pa}", "5\\text{ pA}"),
        ],
        false,
    );
    judged(
        &[
            ("25^\\circ\\text{C}", "25 \\text{ Celsius}"),
            ("5\\text{ Meters}", "500\\text{ cm}"),
            ("5\\text{ apples}", "5\\text{ Apples}"),
            ("5\\text{ N}", "5\\mathrm{N}"),
        ],
        true,
    );
}

#[test]
fn letters_and_words_that_change_a_number_are_no_units() {
    for factor in ["\\mathrm{e}", "\\mathrm{i}", "\\text{x}", "\\mathrm{M}", "\\text{ pi}", "\\text{ squared}"] {
        judged(&[("5", &format!("5{factor}"))], false);
    }
    for word in ["thirds", "halves", "tenths", "trillion", "factorial", "impossible", "never", "cannot be", "perhaps"] {
        judged(&[("5", &format!("5\\text{{ {word}}}"))], false);
    }
    judged(&[("2e", "2\\mathrm{e}"), ("3i", "3\\mathrm{i}"), ("5", "5\\text{ ways}"), ("5", "5\\text{ m}")], true);
}

#[test]
fn signs_between_names_are_no_names() {
    judged(
        &[
            ("5 \\pmod 7", "7 \\pmod 5"),
            ("5 \\pmod 7", "35 \\pmod 1"),
            ("AB \\parallel CD", "AC \\parallel BD"),
            ("\\angle ABC", "\\angle BAC"),
            ("a \\prec b", "b \\prec a"),
            ("A \\subseteq B", "B \\subseteq A"),
            ("A \\otimes B", "B \\otimes A"),
            ("f \\circ g", "g \\circ f"),
            ("no", "on"),
        ],
        false,
    );
    judged(&[("5 \\pmod{7}", "5\\pmod 7"), ("AB \\parallel CD", "AB\\parallel CD"), ("60", "60\\circ")], true);
}

#[test]
fn primitive_fractions_are_fractions() {
    judged(&[("\\frac{5}{6}", "5 \\over 6"), ("\\frac{x+1}{y}", "{x+1 \\over y}"), ("10", "{5 \\choose 2}")], true);
    judged(&[("5 \\over 6", "6 \\over 5"), ("{5 \\choose 2}", "{2 \\choose 5}")], false);
}

#[test]
fn inequalities_for_several_names_are_no_region_of_one() {
    judged(&[("x>1", "x>1, y>2"), ("(1,\\infty)", "x>1 \\text{ or } y>2")], false);
    judged(&[("(-\\infty,1)\\cup(2,\\infty)", "x<1 \\text{ or } x>2")], true);
}
