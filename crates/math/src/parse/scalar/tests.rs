//! What is written, and how it is understood.

use super::*;
use crate::parse::token;

fn understood(text: &str) -> String {
    let mut fuel = Fuel::new(100_000);
    let plain = crate::parse::characters::plain(text).unwrap();
    let tokens = Tokens::of(token::tokens(&plain, &mut fuel).unwrap()).unwrap();
    match read(&tokens, tokens.trimmed(tokens.all()), PlusMinus::Plus, &mut fuel).unwrap() {
        Some(expr) => expr.to_string(),
        None => "-".into(),
    }
}

#[test]
fn precedence_is_what_people_mean() {
    for (text, expected) in [
        ("-x^2", "-x^2"),
        ("(-x)^2", "(-x)^2"),
        ("1/2x", "1/2*x"),
        ("2^{3^2}", "2^(3^2)"),
        ("2^3^2", "2^(3^2)"),
        ("9**9", "9^9"),
        ("x^-1", "x^(-1)"),
        ("a-b-c", "a - b - c"),
        ("a/b/c", "a/b/c"),
        ("\\frac{a}{b}c", "a/b*c"),
        ("2x + 3", "2*x + 3"),
        ("3!", "3!"),
        ("14.0 + -1.0i", "14 + -1*i"),
    ] {
        assert_eq!(understood(text), expected, "{text}");
    }
}

#[test]
fn arguments_are_taken_as_tex_takes_them() {
    for (text, expected) in [
        ("\\frac12", "1/2"),
        ("\\frac123", "1/2*3"),
        ("\\frac ab", "a/b"),
        ("\\sqrt23", "sqrt(2)*3"),
        ("√23", "sqrt(23)"),
        ("sqrt(2)/2", "sqrt(2)/2"),
        ("\\sqrt[3]{x}", "root(x, 3)"),
        ("4\\sqrt(2)", "4*sqrt(2)"),
        ("x^{10}", "x^10"),
        ("2^10", "2^10"),
        ("1\\frac12", "1 + 1/2"),
        ("x_2^2", "x_2^2"),
        ("x^2_2", "x_2^2"),
        ("x²", "x^2"),
    ] {
        assert_eq!(understood(text), expected, "{text}");
    }
}

#[test]
fn functions_take_what_follows_up_to_a_sign() {
    for (text, expected) in [
        ("\\sin 2x + 1", "sin(2*x) + 1"),
        ("2 \\sin b \\cos a", "2*sin(b)*cos(a)"),
        ("\\sin^2 x", "sin(x)^2"),
        ("\\sin^{-1} x", "arcsin(x)"),
        ("\\tan^{-1}(x)", "arctan(x)"),
        ("\\log_2 8", "log(8, 2)"),
        ("\\log_{10} 2", "log(2, 10)"),
        ("\\frac{\\log 2}{\\log 2-\\log 3}", "log(2)/(log(2) - log(3))"),
        ("sinx", "sin(x)"),
        ("exp(16)", "exp(16)"),
        ("|x-1|", "abs(x - 1)"),
        ("2|x|+1", "2*abs(x) + 1"),
        ("\\lfloor x \\rfloor", "floor(x)"),
        ("f(x)", "f(x)"),
        ("n(n+1)", "n*(n + 1)"),
        ("I(0)e", "I(0)*e"),
        ("\\gcd(4, 6)", "gcd(4, 6)"),
        ("\\sum_{k=1}^{n} k^2", "sum(k=1..n, k^2)"),
        ("\\binom{n}{2}", "binom(n, 2)"),
    ] {
        assert_eq!(understood(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_expression_is_left_alone() {
    for text in
        ["", "+", "1 2", "11 6/6", "x+", "(", "navy", "\\infty", "x = 1", "7?", "\\pi.x", "a,b", "|x", "\\frac{1}"]
    {
        assert_eq!(understood(text), "-", "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let nest = |depth: usize| format!("{}x{}", "\\sqrt{".repeat(depth), "}".repeat(depth));
    assert!(understood(&nest(100)).starts_with("sqrt("));
    assert_eq!(understood(&nest(10_000)), "-");
    assert_eq!(understood(&"|".repeat(10_000)), "-");
}
