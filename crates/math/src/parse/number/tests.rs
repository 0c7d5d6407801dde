//! Numbers in all their spellings, and what is none.

use super::super::token::tokens;
use super::*;

fn number(text: &str) -> Option<String> {
    let tokens = Tokens::of(tokens(text, &mut Fuel::new(400_000)).unwrap()).unwrap();
    read(&tokens, tokens.trimmed(tokens.all()), &mut Fuel::new(100_000)).unwrap().map(|number| number.to_string())
}

#[test]
fn numbers_as_they_are_written() {
    for (text, value) in [
        ("007", "7"),
        ("+5", "5"),
        ("-5", "-5"),
        ("--5", "5"),
        ("- 5", "-5"),
        ("(5)", "5"),
        ("-(5)", "-5"),
        ("{-5}", "-5"),
        ("0.50", "1/2"),
        (".5", "1/2"),
        ("-0", "0"),
        ("5.", "5"),
        ("1,000.5", "2001/2"),
        ("3/4", "3/4"),
        ("-6/8", "-3/4"),
        ("3/-4", "-3/4"),
        ("-3/-4", "3/4"),
        ("(-3)/(4)", "-3/4"),
        ("6/3", "2"),
        ("3 / 4", "3/4"),
        ("4 4 / 9", "40/9"),
        ("1.5/2", "3/4"),
        ("\\frac34", "3/4"),
        ("\\dfrac{3}{4}", "3/4"),
        ("\\frac 3 4", "3/4"),
        ("\\frac3{4}", "3/4"),
        ("\\frac{3}4", "3/4"),
        ("-\\frac{-3}{4}", "3/4"),
        ("\\frac{3}{-4}", "-3/4"),
        ("\\frac{\\frac12}{3}", "1/6"),
        ("\\frac{1.5}{2}", "3/4"),
        ("1\\frac12", "3/2"),
        ("-1 \\frac{1}{2}", "-3/2"),
        ("4 4/9", "40/9"),
        ("4 0/9", "4"),
        ("1 000 4/9", "9004/9"),
        ("28\\%", "28%"),
        ("28 percent", "28%"),
        ("4 4/9%", "40/9%"),
        ("-5%", "-5%"),
        ("\\$10", "$10"),
        ("-\\$10", "$-10"),
        ("10€", "€10"),
    ] {
        assert_eq!(number(text).as_deref(), Some(value), "{text}");
    }
}

#[test]
fn what_is_no_number_is_left_alone() {
    for text in [
        "",
        "-",
        "x",
        "5x",
        "1 2",
        "\\frac123",
        "\\frac{1}{x}",
        "1/2/3",
        "11 6/6",
        "11 7/6",
        "11/10 4/9",
        "11.0 4/9",
        "(11) 4/9",
        "5?",
        "5!",
        "1.2.3",
        "\\frac1",
        "\\frac{1}",
        "5%%",
        "\\$5\\$",
        "\\frac{5\\%}{2}",
        "[5)",
        "(5",
        "5)",
        "1--2",
        "1\\frac{3}{2}",
    ] {
        assert_eq!(number(text), None, "{text}");
    }
}

#[test]
fn a_zero_below_is_an_error() {
    for text in ["1/0", "\\frac{0}{0}", "4 0/0", "\\frac10", "1/0.0"] {
        let tokens = Tokens::of(tokens(text, &mut Fuel::new(400_000)).unwrap()).unwrap();
        assert_eq!(read(&tokens, tokens.all(), &mut Fuel::new(1000)), Err(ParseError::Undefined), "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let nest = |depth: usize| format!("{}1{}", "\\frac{".repeat(depth), "}{1}".repeat(depth));
    assert_eq!(number(&nest(20)).as_deref(), Some("1"));
    assert_eq!(number(&nest(20_000)), None);
    let wrapped = format!("{}3{}", "(".repeat(20_000), ")".repeat(20_000));
    assert_eq!(number(&wrapped).as_deref(), Some("3"));
}
