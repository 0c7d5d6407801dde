//! The rules of equality, kind by kind: what is equal, and what is near it and is not.

use evenkeel_math::{CheckInput, Equations, Order, Rules, Units, check};

fn equal(gold: &str, answer: &str) -> bool {
    check(gold, CheckInput::Extracted(answer), &Rules::default()).is_equal()
}

#[track_caller]
fn all(same: &[(&str, &str)], other: &[(&str, &str)]) {
    for (gold, answer) in same {
        let verdict = check(gold, CheckInput::Extracted(answer), &Rules::default());
        assert!(verdict.is_equal(), "{gold} is {answer}, not {}", verdict.reason);
    }
    for (gold, answer) in other {
        let verdict = check(gold, CheckInput::Extracted(answer), &Rules::default());
        assert!(!verdict.is_equal(), "{gold} is not {answer}, whatever {} says", verdict.reason);
    }
}

#[test]
fn radicals_have_one_value() {
    all(
        &[
            ("2\\sqrt{2}", "\\sqrt8"),
            ("\\frac{1+\\sqrt5}{2}", "\\frac{2}{\\sqrt5-1}"),
            ("\\sqrt2+\\sqrt3", "\\sqrt{5+2\\sqrt6}"),
            ("-2", "\\sqrt[3]{-8}"),
            ("5\\sqrt[3]{4}", "5 \\cdot 2^{2/3}"),
            ("11\\sqrt2", "11√2"),
            ("1", "\\sqrt[3]{2+\\sqrt5}+\\sqrt[3]{2-\\sqrt5}"),
        ],
        &[
            ("\\sqrt{10}", "\\pi"),
            ("\\sqrt2+\\sqrt3", "\\sqrt{5+2\\sqrt{6.0001}}"),
            ("\\sqrt{23}", "\\sqrt23"),
            ("4", "4\\sqrt(2)"),
        ],
    );
}

#[test]
fn constants_and_functions_have_values() {
    all(
        &[
            ("e^{16} - 1", "-1 + exp(16)"),
            ("\\frac\\pi2", "pi/2"),
            ("3", "\\log_2 8"),
            ("2\\ln 3", "\\ln 9"),
            ("\\frac{\\sqrt3}{2}", "\\sin 60^\\circ"),
            ("\\cos x", "\\sin(90^\\circ - x)"),
            ("1", "\\sin^2 x + \\cos^2 x"),
            ("2", "\\log 100"),
            ("|x|", "\\sqrt{x^2}"),
            ("n!", "n \\cdot (n-1)!"),
        ],
        &[
            ("262537412640768744", "e^{\\pi\\sqrt{163}}"),
            ("\\sin^{-1} x", "\\frac{1}{\\sin x}"),
            ("\\lfloor x \\rfloor", "x"),
            ("|x|", "x"),
            ("|x-y|", "x-y"),
            ("\\sqrt{(a-b)^2}", "a-b"),
            ("\\max(x, y)", "x"),
            ("1", "1 + e^{-1000}"),
            ("\\pi", "\\frac{22}{7}"),
            ("\\pi", "3.14"),
        ],
    );
}

#[test]
fn identities_hold_at_every_point() {
    all(
        &[
            ("(x+1)^{30}", "(1+x)^{30}"),
            ("\\frac{n(n+1)}{2}", "\\sum_{k=1}^{n} k"),
            ("2^{n+1}-2", "2(2^n-1)"),
            ("(-1)^n", "\\cos(n\\pi)"),
            ("\\binom{2024}{12}", "\\binom{2024}{2012}"),
            ("2025^{2024}", "2025^{2023}\\cdot 2025"),
            ("\\sqrt{1/n}", "\\frac{1}{\\sqrt n}"),
            (
                "-\\frac{2(x^2+6)}{9(x^2-2)\\sqrt[3]{x^2-2}^2}",
                "-\\frac{8x^2}{9(x^2-2)^{5/3}}+\\frac{2}{3(x^2-2)^{2/3}}",
            ),
        ],
        &[
            ("x+1", "y+1"),
            ("(-1)^n", "(-1)^{n+1}"),
            ("2^{2024}-1", "2^{2024}"),
            ("\\frac{1}{2004!}", "\\frac{1}{2006!}"),
            ("10^{-20}", "10^{-21}"),
            ("f(x)", "f(y)"),
            ("V_{AB}", "V_{BA}"),
        ],
    );
}

#[test]
fn undefined_functions_have_values_of_either_sign() {
    all(
        &[("I(0) e^{-\\frac{t}{R C}}", "e^{-t/(RC)} I(0)"), ("\\sqrt{f(x+1)^2}", "|f(1+x)|")],
        &[("I(0) e^{-t}", "I(1) e^{-t}"), ("e^{1/t}|f(0)|", "e^{1/t}f(0)"), ("f(x)\\sin x", "f(y)\\sin x")],
    );
}

#[test]
fn complex_numbers_are_pairs_of_numbers() {
    all(
        &[
            ("-1", "i^2"),
            ("-1", "e^{i\\pi}"),
            ("1+2i", "i(2-i)"),
            ("\\frac12-\\frac12i", "\\frac{1}{1+i}"),
            ("5", "|3+4i|"),
            ("\\cos 60^\\circ + i\\sin 60^\\circ", "e^{i\\pi/3}"),
        ],
        &[("3+4i", "3-4i"), ("2i", "2")],
    );
}

#[test]
fn lists_sets_and_tuples_differ_in_order_and_number() {
    all(
        &[
            ("1, 2", "2, 1"),
            ("\\{1,2\\}", "\\{2,1,1\\}"),
            ("\\{1,2\\}", "2 \\text{ and } 1"),
            ("(1,2),(3,4)", "(3,4),(1,2)"),
            ("\\pm 3", "\\{-3, 3\\}"),
            ("1 \\pm \\sqrt2", "1-\\sqrt2, 1+\\sqrt2"),
            ("1,2,3,\\ldots,6", "1,2,3,4,5,6"),
            ("x=1, y=2", "y=2, x=1"),
            ("x=1, y=2", "(1,2)"),
            ("x = 2, x = -3", "-3, 2"),
            ("x=2 or x=-3", "-3, 2"),
            ("x=2 \\text{ or } x=-3", "x = -3 \\text{ or } 2"),
            ("x=2; x=-3", "-3 and 2"),
            ("x=\\frac12, x=0, x=-1", "0, -1, 0.5"),
            ("-3, 2", "x=2 or x=-3"),
        ],
        &[
            ("(1,2)", "(2,1)"),
            ("(1,2)", "\\{1,2\\}"),
            ("(1,2)", "[1,2]"),
            ("1, 2", "1, 2, 2"),
            ("1, 2", "1"),
            ("\\pm 3", "3"),
            ("x=1, y=2", "2, 1"),
            ("x = 2, x = -3", "-3, 3"),
            ("x = 2, x = -3", "2, -3, 1"),
            ("x = 2, x = -3", "-3"),
            ("x_1 = 2, x_2 = -3", "-3, 2"),
        ],
    );
}

#[test]
fn regions_hold_the_same_numbers() {
    all(
        &[
            ("x<3", "(-\\infty, 3)"),
            ("\\mathbb{R}", "\\text{all real numbers}"),
            ("(-\\infty,2)\\cup(2,\\infty)", "\\mathbb{R}\\setminus\\{2\\}"),
            ("(-\\infty,2)\\cup(2,\\infty)", "x \\ne 2"),
            ("x>3", "-2x<-6"),
            ("0 < x \\le 1", "x \\in (0, 1]"),
            ("1\\le|z|\\le 2", "z \\in [-2,-1]\\cup[1,2]"),
            ("|x| < 2", "(-2, 2)"),
            ("(0,1)\\cup[1,2)", "(0,2)"),
            ("x<1 \\text{ or } x>2", "(-\\infty,1)\\cup(2,\\infty)"),
        ],
        &[("[2,5)", "[2,5]"), ("x>3", "x\\ge 3"), ("(0,1)\\cup(1,2)", "(0,2)"), ("7", "x \\ge 7"), ("x > 3", "y > 3")],
    );
}

#[test]
fn equations_are_the_same_up_to_a_factor() {
    all(
        &[
            ("2x+4y-3=0", "y=-\\frac12x+\\frac34"),
            ("x^2+y^2=1", "2x^2+2y^2=2"),
            ("y=2x+3", "2x+3"),
            ("f(x)=2x+3", "y=2x+3"),
            ("113", "m + n = 100 + 13 = 113"),
            ("x+y \\le 1", "2 - 2x \\ge 2y"),
            ("\\sin x = y", "2\\sin x - 2y = 0"),
        ],
        &[
            ("x^2+y^2=1", "x^2+y^2=2"),
            ("x=1", "y=1"),
            ("2x+z=1", "1"),
            ("5", "2x + y = 5"),
            ("x + y = 5", "5"),
            ("5", "2x = 5"),
            ("7 = 11a+c", "11a+c"),
            ("x+y \\le 1", "x+y \\ge 1"),
            ("7", "42 = 7"),
            ("7", "1=2=3=4=5=6=7"),
        ],
    );
    assert!(equal("11", "x = 5+6 = 11 \\approx 11.2"));
    let strict = Rules { equations: Equations::Strict, ..Rules::default() };
    assert!(!check("x = 5", CheckInput::Extracted("5"), &strict).is_equal());
    assert!(check("x = 5", CheckInput::Extracted("x = \\frac{10}{2}"), &strict).is_equal());
}

#[test]
fn matrices_are_equal_cell_by_cell() {
    all(
        &[
            ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{bmatrix}1&\\frac42\\\\3&4\\end{bmatrix}"),
            ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "(1,2)"),
            ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\langle 1,2\\rangle"),
            (
                "\\begin{pmatrix}6&8\\end{pmatrix}",
                "2\\begin{pmatrix}1&2\\end{pmatrix}+\\begin{pmatrix}4&4\\end{pmatrix}",
            ),
            ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}^T"),
        ],
        &[
            ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}"),
            ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "1,2,3,4"),
        ],
    );
}

#[test]
fn units_agree_where_both_sides_have_one() {
    all(
        &[
            ("5", "5\\text{ cm}"),
            ("100\\text{ cm}", "1\\text{ m}"),
            ("5\\text{ apples}", "5 \\text{ apple}"),
            ("60", "60^\\circ"),
            ("\\frac\\pi3", "60^\\circ"),
            ("10", "10\\text{ dollars}"),
            ("\\$10", "10 dollars"),
            ("36 \\text{ km/h}", "10\\text{ m/s}"),
        ],
        &[
            ("5\\text{ cm}", "5\\text{ m}"),
            ("5\\text{ cm}^2", "5\\text{ cm}"),
            ("5\\text{ hours}", "5\\text{ minutes}"),
            ("7", "7 \\text{ or more}"),
        ],
    );
    let require = Rules { units: Units::Require, ..Rules::default() };
    assert!(!check("5\\text{ cm}", CheckInput::Extracted("5"), &require).is_equal());
}

#[test]
fn bases_ratios_times_and_choices_have_rules_of_their_own() {
    all(
        &[
            ("52_8", "52_{8}"),
            ("52_8", "52"),
            ("2516_8", "2516_{\\text{eight}}"),
            ("1:2", "2:4"),
            ("20:34", "08:34 \\text{P.M.}"),
            ("B", "\\textbf{(B)}\\ 42"),
            ("\\text{no solution}", "\\emptyset"),
        ],
        &[
            ("52_8", "52_9"),
            ("3:30", "3:45"),
            ("B", "ABCD"),
            ("B", "A, B, C"),
            ("B", "\\text{A or B}"),
            ("1:2:3", "1:2:4"),
        ],
    );
}

#[test]
fn order_is_strict_where_the_rules_say_so() {
    let strict = Rules { order: Order::Strict, ..Rules::default() };
    assert!(!check("1, 2", CheckInput::Extracted("2, 1"), &strict).is_equal());
    assert!(check("1, 2", CheckInput::Extracted("1, \\frac42"), &strict).is_equal());
}

#[test]
fn what_hedges_or_computes_is_no_answer() {
    all(
        &[],
        &[
            ("7", "7?"),
            ("7", "7 \\pm 3"),
            ("7", "\\text{not } 7"),
            ("7", "7 \\text{ or maybe } 8"),
            ("7", "6 < x < 8"),
            ("7", "n \\in \\mathbb{Z}"),
            ("5", "eval('5')"),
            ("5", "\\input{/etc/passwd}"),
            ("5", "lambda x: 5"),
            ("2\\pi", "\\pi.__class__"),
            ("0", "I(0)e^{-t}"),
        ],
    );
}
