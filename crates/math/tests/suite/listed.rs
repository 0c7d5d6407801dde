//! What stands beside a box: bounds, other values of a list, words that make the answer another value; and digits that
//! only braces separate.

use evenkeel_math::Rules;

use crate::judged::{all, completions};

#[test]
fn words_behind_a_box_leave_it_no_single_value() {
    completions(
        "36",
        &Rules::default(),
        &[
            "$\\boxed{36} \\pmod{40}$",
            "\\boxed{36}, to the nearest dollar.",
            "\\boxed{36} more than Susan",
            "\\boxed{36} to compute this",
            "\\boxed{36} minimum",
            "\\boxed{36} feet less than Martha",
        ],
        &[
            "\\boxed{36} or more",
            "\\boxed{36}, 000 others",
            "\\boxed{36} if you count both",
            "\\boxed{36}, which is the percent error.",
            "$\\boxed{36}$ (or more)",
            "$\\boxed{36}\\text{ or more}$",
            "\\boxed{36} or so",
            "\\boxed{36} or thirty-seven",
            "\\boxed{36} at least",
            "\\boxed{36} and up",
            "\\boxed{36}+",
            "\\boxed{36}-ish",
            "\\boxed{36} more or less",
            "\\boxed{36} up to 40",
            "\\boxed{36} through 40",
            "\\boxed{36} - 40",
            "\\boxed{36}–40",
            "\\boxed{36} ± 1",
            "\\boxed{36} too small",
            "\\boxed{36} unless n = 3",
            "\\boxed{36} if $n$ is even and 37 otherwise",
            "\\boxed{36} is one of the answers",
            "\\boxed{36}?",
            "\\boxed{36} ✗",
        ],
    );
}

#[test]
fn another_value_of_a_list_may_stand_outside_of_the_box() {
    completions(
        "\\frac12",
        &Rules::default(),
        &[
            "$\\boxed{\\frac12}$, $x > 0$",
            "$x = \\boxed{\\frac12}$ and $y = 3$",
            "so $x = 3$ and $y = \\boxed{\\frac12}$",
            "so $AB = \\frac{3}{6} = \\frac{1}{2}$, or $\\boxed{0.5}$",
            "so $-2 \\le x \\le 7$ and $\\boxed{\\frac12}$",
            "$\\boxed{\\frac12}$, $3 + 4 = 7$",
            "$\\boxed{\\frac12}\\text{ cm}$",
            "Adding 3 and \\boxed{\\frac12}",
            "Adding $3$ and $\\boxed{\\frac12}$",
            "Step 2, and \\boxed{\\frac12}",
            "In part 2, $\\boxed{\\frac12}$",
        ],
        &[
            "$\\boxed{\\frac12}$, $\\frac13$",
            "$\\boxed{\\frac12}$ or $\\frac13$",
            "$\\boxed{\\frac12}$ and $\\frac13$",
            "$\\boxed{\\frac12}\\text{ or }\\frac13$",
            "$\\boxed{\\frac12}$ $\\frac13$",
            "$\\boxed{\\frac12}$; $\\frac13$",
            "$x=\\boxed{\\frac12}$ and $x=3$",
            "$(\\boxed{\\frac12}, 3)$",
            "$\\{\\boxed{\\frac12}, 3\\}$",
            "$x \\in (0, \\boxed{\\frac12})$",
            "$3, \\boxed{\\frac12}$",
            "$\\frac{4}{11}, \\boxed{\\frac12}$",
            "So $-\\dfrac4{11}, \\boxed{\\frac12}$",
            "3 or \\boxed{\\frac12}",
            "3 and \\boxed{\\frac12}",
            "The roots are $3$ and $\\boxed{\\frac12}$",
            "$x = 3$ or $x=\\boxed{\\frac12}$",
            "$\\boxed{\\frac12}:3$",
            "$\\boxed{\\frac12}\\alpha$",
            "$\\boxed{\\frac12}\\sin x$",
            "$\\boxed{\\frac12} a b$",
            "$\\boxed{\\frac12} \\implies x = 3$",
            "$x \\boxed{\\frac12}$",
            "x \\neq \\boxed{\\frac12}",
            "x<\\boxed{\\frac12}",
            "±\\boxed{\\frac12}",
            "½\\boxed{\\frac12}",
        ],
    );
}

#[test]
fn words_before_a_box_make_the_answer_another_value() {
    completions(
        "36",
        &Rules::default(),
        &[
            "We need at least \\boxed{36} socks.",
            "The answer: it takes at least \\boxed{36}",
            "For the answer he needs at least \\boxed{36}",
            "It is divisible by \\boxed{36}.",
            "an area of \\boxed{36}",
            "The answer is about \\boxed{36}",
            "not 8 but \\boxed{36}",
            "The square of it is \\boxed{36}",
            "After correcting the mistake we get \\boxed{36}",
            "If $x = 3$, then we get \\boxed{36}",
            "the sum of the digits is \\boxed{36}",
        ],
        &[
            "The answer is less than \\boxed{36}",
            "The answer is at least \\boxed{36}",
            "The answer is a multiple of \\boxed{36}",
            "The answer is anything but \\boxed{36}",
            "The answer is no longer \\boxed{36}",
            "The square of the answer is \\boxed{36}",
            "The square root of \\boxed{36}",
            "Half of \\boxed{36}",
            "50% of \\boxed{36}",
            "Minus \\boxed{36}",
            "It is false that $x=$ \\boxed{36}",
            "It is not true that x is \\boxed{36}",
            "Never write \\boxed{36}",
            "A common mistake gives \\boxed{36}",
            "The wrong approach yields \\boxed{36}",
            "If the answer were \\boxed{36}",
        ],
    );
}

#[test]
fn braces_between_digits_are_not_seen() {
    all("100", &["100", "{100}"], &["1{00}", "{1}00", "{1}{00}"]);
    all("0", &[], &["1{00}", "{1}00", "{1}{0}{0}"]);
    all("6", &["{2}\\cdot{3}", "2(3)", "{2}(3)"], &["{2}{3}", "2{3}", "{2}3", "2{{3}}", "2{ 3 }", "\\color{red}{2}3"]);
    all("\\frac32", &["{1}\\frac12", "1{\\frac12}"], &[]);
    all("8x", &["2^{3}{x}", "{8}x"], &[]);
    all("2xy", &["xy2"], &["2x(y+1)"]);
}

#[test]
fn brackets_that_do_not_match_hold_no_value() {
    all("n+1", &["(n+1)", "[n+1]"], &["(n+1]", "[n+1)", "n+1=\\ldots"]);
    all("y=2x+1", &["f(x)=2x+1"], &["f(2)=2x+1", "y(0)=2x+1"]);
    all("B", &["(B)"], &["A=B", "B=C"]);
}
