//! Notations that look alike: what is written decides, and where it does not, nothing is rewarded.

use crate::judged::all;
use evenkeel_math::{CheckInput, CheckOutcome, Rules, check};

#[track_caller]
fn undecided(gold: &str, answers: &[&str]) {
    for answer in answers {
        let verdict = check(gold, CheckInput::Extracted(answer), &Rules::default());
        assert_eq!(verdict.outcome(), CheckOutcome::Undecided, "{gold} and {answer:?}: {}", verdict.reason);
    }
}

#[test]
fn intervals_are_no_vectors_and_points_are_no_union() {
    all(
        "[1,2)",
        &["1 \\le x < 2"],
        &["\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{bmatrix}1&2\\end{bmatrix}", "1,2"],
    );
    all("\\begin{pmatrix}1\\\\2\\end{pmatrix}", &["(1,2)", "[1,2]", "1, 2"], &["[1,2)", "(1,2]", "x=1, x=2"]);
    all("[1,2]", &["1 \\le x \\le 2", "\\left[1, 2\\right]"], &["1,2", "1 and 2"]);
    all("(1,2)", &["1, 2", "x=1, y=2"], &[]);
    all("x=2,x=3", &["2, 3", "3, 2", "x=2 or x=3"], &["(2,3)", "[2,3]"]);
    all("x=2,y=3", &["(2,3)", "2, 3", "\\{x=2,y=3\\}"], &["\\{2,3\\}", "\\{3,2\\}"]);
    all("(2,3),(3,2)", &["(3,2),(2,3)", "\\{(2,3),(3,2)\\}"], &["(2,3)\\cup(3,2)"]);
    all("(-\\infty,1),(2,\\infty)", &["(-\\infty,1)\\cup(2,\\infty)"], &[]);
}

#[test]
fn alternatives_are_no_conjunction() {
    all("p\\land q", &["p \\wedge q"], &["p\\lor q", "p, q", "q \\to p"]);
    all("p\\lor q", &["p \\vee q"], &["p\\land q"]);
    all("(p\\land q)\\lor r", &[], &["p\\land(q\\lor r)", "(p\\lor q)\\lor r", "(p\\lor q)\\land r"]);
    all("x>0\\land y>0", &["x>0, y>0", "y>0 \\text{ and } x>0"], &["x>0\\lor y>0", "(x>0\\lor y>0)"]);
    all("x>0\\lor y>0", &["y>0 or x>0"], &["x>0\\land y>0", "x>0, y>0"]);
    all("x=2,y=3", &["x=2 \\text{ and } y=3", "y=3, x=2"], &["x=2 or x=3", "x=2 or y=3", "x=2 \\lor y=3"]);
    all("x=0 or y=0", &["y=0 or x=0"], &["x=0, y=0", "(0,0)"]);
    all("(2,3)", &["x=2, y=3", "2, 3"], &["x=2 \\text{ or } x=3", "x=2, x=3", "x=2 or y=3"]);
    all("x=2 \\text{ or } x=3", &["2, 3", "x=3, x=2", "x \\in \\{2,3\\}"], &["(2,3)"]);
    all("x<2 or x>2", &["x<2, x>2", "(-\\infty,2)\\cup(2,\\infty)", "x \\ne 2"], &["x<2 and x>2", "x<2 \\land x>2"]);
    all("x>2 and x<5", &["(2,5)", "2<x<5", "x<5, x>2"], &["x>2 or x<5"]);
}

#[test]
fn complex_variables_are_not_real() {
    all("|z|^2", &["|z| \\cdot |z|", "|-z|^2"], &["z^2"]);
    all("|z-1|^2", &["|1-z|^2"], &["(z-1)^2", "z^2-2z+1"]);
    all("\\Re(z)", &["\\Re(z+3i)"], &["z"]);
    all("0", &[], &["\\Im(z)"]);
    all("|x|^2", &["x^2"], &[]);
    all("z^2+z", &["z(z+1)"], &[]);
}

#[test]
fn functions_by_convention_are_no_factors() {
    for (gold, answer) in [
        ("E(X^2)", "E(X)^2"),
        ("E[X^2]", "E[X]^2"),
        ("E[XY]", "E[X]Y"),
        ("f^{(4)}(0)", "f^4(0)"),
        ("y^{(4)}", "y^4"),
        ("x^{\\underline{3}}", "x^3"),
        ("\\{x\\}", "x"),
        ("x", "\\{x\\}"),
        ("\\{x\\}", "[x]"),
        ("p\\iff q", "p\\implies q"),
        ("A \\Leftrightarrow B", "A \\Rightarrow B"),
        ("\\lg 2", "\\ln 2"),
        ("\\ln 2", "\\lg 2"),
        ("T(n/2)", "T(n)/2"),
        ("\\phi(mn)", "\\phi(m)n"),
        ("\\sigma(2n)", "2\\sigma(n)"),
        ("\\Gamma(x+1)", "\\Gamma x + \\Gamma"),
    ] {
        all(gold, &[gold], &[answer]);
    }
    all("\\lg 2", &["\\log 2", "\\log_{10} 2", "\\frac{\\ln 2}{\\ln 10}"], &[]);
    all("2", &["\\lg 100", "\\{2\\}"], &[]);
    all("n(n+1)", &["n^2+n"], &[]);
    all("E(a+b)", &["Ea+Eb"], &[]);
    all("E[X^2]-E[X]^2", &["-E[X]^2+E[X^2]"], &["0"]);
    all("T(n) = 2T(n/2) + n", &["T(n) = n + 2T(n/2)"], &["T(n) = T(n) + n"]);
    all("\\underline{42}", &["42"], &[]);
}

#[test]
fn times_dates_and_scores_are_compared_as_written() {
    all("10:30", &["10:30"], &["1:3", "20:60", "1/3"]);
    all("1:3", &["2:6"], &["3:1"]);
    all("2010-05-06", &["2010-05-06"], &["1999", "2010-5-6", "2010-06-05"]);
    all("05/06/2010", &["05/06/2010"], &["06/05/2010", "\\frac{1}{2412}"]);
    all("5", &["10 - 3 - 2", "x = 10 - 3 - 2 = 5"], &["10-3-2"]);
    all("3-1", &["3-1", "3–1", "3 - 1", "3 – 1"], &["1-3", "1 - 3"]);
    all("10-20\\%", &["10-20\\%", "10 - 20\\%"], &["10-30\\%"]);
    all("\\$5-\\$6", &["\\$5-\\$6", "\\$5 - \\$6"], &["\\$6-\\$5"]);
    for (range, difference) in [("3-1", "2"), ("100-1", "99"), ("1-2", "-1"), ("1-2", "4 - 5")] {
        undecided(range, &[difference]);
        undecided(difference, &[range]);
    }
}

#[test]
fn capitals_in_a_row_keep_their_order() {
    undecided("HHT", &["HTH", "THH"]);
    undecided("IV", &["VI"]);
    undecided("NW", &["WN"]);
    all("DNA", &["DNA", "\\text{DNA}"], &["AND", "NDA"]);
    all("mgh", &["hgm"], &[]);
    all("2AB", &["2BA"], &[]);
}

#[test]
fn signs_after_a_number_count() {
    all("0.25", &["25 cents", "0.25 dollars"], &["0.25 cents"]);
    all("25", &["25 cents"], &[]);
    all("72^\\circ", &["72", "72 degrees"], &["72\"", "72''"]);
    all("72", &["\"72\""], &[]);
    all("\\$5", &["5", "\\$5.00"], &["\\$5\\%", "5\\%\\$"]);
    undecided("36", &["\\approx 36", "\\sim 36"]);
    all("\\approx 36", &["36"], &[]);
    all("3.14", &["\\approx 3.14", "x \\approx 3.14"], &[]);
    all("f(x)=x^2", &["f(x) = x \\cdot x"], &["f(x)\\approx x^2"]);
    all("x^2", &["f(x) = x^2"], &["f(x)\\approx x^2"]);
    all("\\frac23", &["0.666..."], &[]);
}

#[test]
fn a_cross_is_no_dot() {
    all("\\vec a\\times\\vec b", &["\\vec a \\times \\vec b"], &["\\vec a\\cdot\\vec b", "\\vec b\\times\\vec a"]);
    all("\\mathbf{a}\\times\\mathbf{b}", &["\\mathbf a \\times \\mathbf b"], &["\\mathbf{b}\\times\\mathbf{a}"]);
    all("\\vec a\\cdot\\vec b", &["\\vec b\\cdot\\vec a"], &[]);
    all("2 \\times \\mathbf{3}", &["6"], &[]);
}
