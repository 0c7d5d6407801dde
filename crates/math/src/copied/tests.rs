use super::*;
use crate::Rules;

fn copied(gold: &str, answer: &str, prompt: &str) -> bool {
    let value = |text: &str| parse(text, &mut Fuel::new(Rules::default().limits.fuel)).unwrap();
    is_copied(&value(answer), &value(gold), prompt, &Rules::default())
}

/// Ten disguises of an expression.
fn evasions(expression: &str) -> Vec<String> {
    vec![
        expression.to_owned(),
        format!("({expression})"),
        format!("\\left({expression}\\right)"),
        format!("{expression} + 0"),
        format!("0 + {expression}"),
        format!("1 \\cdot ({expression})"),
        format!("({expression}) \\times 1"),
        format!("\\frac{{{expression}}}{{1}}"),
        format!("({expression})^{{1}}"),
        format!("-(-({expression}))"),
        format!("{{{{{expression}}}}}"),
        format!("\\displaystyle {expression}"),
        format!("x = {expression}"),
        format!("{expression} + 1 - 1"),
        format!("\\frac{{2({expression})}}{{2}}"),
        format!("{expression} \\text{{ units}}"),
    ]
}

#[test]
fn a_copied_expression_is_found_in_every_disguise() {
    for (prompt, expression, gold) in [
        ("Compute $\\dbinom{31}{28}$.", "\\binom{31}{28}", "4495"),
        ("Compute $\\arcsin \\left( -\\frac{1}{2} \\right).$", "\\arcsin(-\\frac12)", "-\\frac{\\pi}{6}"),
        ("What is 17*23 + 4?", "17 \\cdot 23 + 4", "395"),
        ("Evaluate $\\sum_{k=1}^{10} k^2$.", "\\sum_{k=1}^{10} k^2", "385"),
        (
            "Simplify \\[\\frac{\\sqrt{40\\cdot9}}{\\sqrt{49}}.\\]",
            "\\frac{\\sqrt{40\\cdot 9}}{\\sqrt{49}}",
            "\\frac{6\\sqrt{10}}{7}",
        ),
        ("Find $f(2)$ if you must know that $\\log_2 (4^2)$ is wanted.", "\\log_2(4^2)", "4"),
        ("Expand $(x+3)(x-5)$.", "(x+3)(x-5)", "x^2-2x-15"),
        ("Expand $(x+3)(x-5)$.", "(x-5)(3+x)", "x^2-2x-15"),
        ("Compute $\\sin 60^\\circ$.", "\\sin 60^\\circ", "\\frac{\\sqrt3}{2}"),
        ("Compute $|3-7|$ now.", "|3-7|", "4"),
        ("Compute $6! - 5!$.", "6!-5!", "600"),
        ("Compute $2^{10}\\bmod 7$.", "2^{10} \\bmod 7", "2"),
    ] {
        for answer in evasions(expression) {
            assert!(copied(gold, &answer, prompt), "{answer} stands in {prompt}");
        }
    }
}

#[test]
fn a_part_that_is_the_whole_answer_is_a_copy() {
    let prompt = "Compute $\\dbinom{31}{28}$.";
    for answer in [
        "\\max(\\binom{31}{28}, 0)",
        "\\left|\\binom{31}{28}\\right|",
        "\\lfloor \\binom{31}{28} \\rfloor",
        "e^{\\ln \\binom{31}{28}}",
        "\\sqrt{\\binom{31}{28}^2}",
        "C_{31}^{28}",
        "\\binom{30+1}{28}",
        "\\binom{31}{4 \\cdot 7}",
        "\\sum_{k=1}^{1}\\binom{31}{28}",
        "\\sum_{k=a}^{a}\\binom{31}{28}",
        "\\sum_{k=a+1}^{1+a}\\binom{31}{28}",
        "\\prod_{k=1}^{1}\\binom{31}{28}",
        "\\prod_{k=a}^{a}\\binom{31}{28}",
        "\\sum_{k=28}^{28}\\binom{31}{k}",
        "\\sum_{k=1}^{1}\\prod_{j=b}^{b}\\binom{31}{28}",
        "\\sum_{k=1}^{2}\\frac12\\binom{31}{28}",
        "\\binom{\\binom{31}{1}}{28}",
        "\\binom{31}{\\binom{8}{2}}",
        "\\binom{31}{4!+4}",
        "\\binom{31}{\\sum_{k=1}^{7}4}",
        "\\binom{\\lfloor 31.5\\rfloor}{\\max(28,1)}",
    ] {
        assert!(copied("4495", answer, prompt), "{answer}");
    }
    assert!(!copied("4496", "\\binom{31}{28} + 1", prompt));
    for answer in ["\\sum_{k=1}^{1}(x+1)(x-1)", "\\prod_{k=a}^{a}(x+1)(x-1)"] {
        assert!(copied("x^2 - 1", answer, "Expand $(x+1)(x-1)$."), "{answer}");
    }
    for answer in ["\\sum_{k=1}^{1}17\\cdot 23", "\\sum_{k=17}^{17}k\\cdot 23", "\\prod_{k=17}^{17}23k"] {
        assert!(copied("391", answer, "Compute $17\\cdot 23$."), "{answer}");
    }
    // Another expression of the same value is no copy.
    for answer in ["2\\binom52", "\\binom63", "\\sum_{k=2}^{3}\\binom{5}{2}"] {
        assert!(!copied("20", answer, "Compute $\\binom52+\\binom53$."), "{answer}");
    }
    assert!(copied("385", "\\sum_{n=1}^{10} n^2", "Find $\\sum_{k=1}^{10} k^2$."));
    assert!(copied("x^2 - 1", "(x-1)(x+1)", "Expand $(x+1)(x-1)$."));
}

#[test]
fn unsolved_relations_are_copies_too() {
    let prompt = "Solve $2x + 3 > 7$ for $x$.";
    for answer in ["2x+3>7", "7 < 2x+3", "7<3+2x", "2x+3-7>0", "2x + 3 > 7 + 0"] {
        assert!(copied("x > 2", answer, prompt), "{answer}");
    }
    for (gold, answer) in [("x=5", "2x+1=11"), ("5", "2x+1=11"), ("5", "11 = 1 + 2x")] {
        assert!(copied(gold, answer, "Solve $2x+1=11$."), "{answer}");
    }
    assert!(!copied("113", "m+n=113", "Find $m+n$."));
    assert!(!copied("x > 2", "x > 2", prompt));
    assert!(!copied("x > 2", "x > \\frac42", prompt));
    assert!(copied("[2, 3]", "[1,3]\\cap[2,5]", "Write $[1,3]\\cap[2,5]$ as one interval."));
}

#[test]
fn numerals_symbols_and_the_gold_answer_as_written_are_no_copies() {
    for (gold, answer, prompt) in [
        ("5", "5", "Is $5$ prime? Else give 7."),
        ("\\frac12", "\\frac{1}{2}", "Which is larger, $\\frac12$ or $\\frac13$?"),
        ("x", "x", "Solve for $x$."),
        ("-3", "-3", "Is it $-3$ or $3$?"),
        ("2\\sqrt3", "2\\sqrt{3}", "Which is $\\sqrt{12}$: $2\\sqrt3$ or $3\\sqrt2$?"),
        ("2\\sqrt3", "\\sqrt{3}\\cdot 2", "Which is $\\sqrt{12}$: $2\\sqrt3$ or $3\\sqrt2$?"),
        ("(1, 2)", "(1, 2)", "Is $(1,2)$ on the line?"),
        ("4495", "4495", "Compute $\\binom{31}{28}$."),
        ("4495", "\\binom{31}{28} = 4495", "Compute $\\binom{31}{28}$."),
        ("4495", "\\binom{31}{3}", "Compute $\\binom{31}{28}$."),
        ("\\text{(B)}", "B", "Choose (A) or (B)."),
    ] {
        assert!(!copied(gold, answer, prompt), "{answer} for {gold}");
    }
}

#[test]
fn a_prompt_of_any_kind_is_bounded() {
    for prompt in [
        "$".repeat(100_000),
        "\\[1+1\\]".repeat(50_000),
        "1 + ".repeat(100_000),
        "(".repeat(90_000),
        "é$é".repeat(40_000),
    ] {
        assert!(!copied("4", "\\sqrt{16}", &prompt));
    }
}
