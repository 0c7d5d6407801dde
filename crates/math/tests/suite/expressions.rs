//! Random expressions: an equivalent form must never be rejected, and a changed expression must never be rewarded.
//! `EVENKEEL_MATH_CASES` is the number of cases of each kind.

use evenkeel_math::{CheckInput, CheckOutcome, Decimals, Rules, check};
use proptest::prelude::*;

/// An expression that both sides are printed from.
#[derive(Debug, Clone)]
enum Tree {
    Number(i64),
    Name(&'static str),
    Add(Box<Self>, Box<Self>),
    Subtract(Box<Self>, Box<Self>),
    Multiply(Box<Self>, Box<Self>),
    Divide(Box<Self>, Box<Self>),
    Power(Box<Self>, u32),
    Call(&'static str, Box<Self>),
}

use Tree::{Add, Call, Divide, Multiply, Name, Number, Power, Subtract};

impl Tree {
    /// The expression as LaTeX.
    fn tex(&self) -> String {
        match self {
            Number(n) if *n < 0 => format!("({n})"),
            Number(n) => n.to_string(),
            Name(name) => (*name).to_owned(),
            Add(a, b) => format!("({} + {})", a.tex(), b.tex()),
            Subtract(a, b) => format!("({} - {})", a.tex(), b.tex()),
            Multiply(a, b) => format!("{} \\cdot {}", a.tex(), b.tex()),
            Divide(a, b) => format!("\\frac{{{}}}{{{}}}", a.tex(), b.tex()),
            Power(a, n) => format!("({})^{{{n}}}", a.tex()),
            Call(name, a) => format!("\\{name}{{{}}}", a.tex()),
        }
    }

    /// The expression as plain text.
    fn plain(&self) -> String {
        match self {
            Number(n) => format!("({n})"),
            Name(name) => (*name).to_owned(),
            Add(a, b) => format!("({}+{})", a.plain(), b.plain()),
            Subtract(a, b) => format!("({}-{})", a.plain(), b.plain()),
            Multiply(a, b) => format!("{}*{}", a.plain(), b.plain()),
            Divide(a, b) => format!("(({})/({}))", a.plain(), b.plain()),
            Power(a, n) => format!("({})**{n}", a.plain()),
            Call(name, a) => format!("{name}({})", a.plain()),
        }
    }

    /// An equal expression in another form: terms and factors exchanged, products multiplied out, nothing added and one
    /// multiplied.
    fn other(&self, bits: u64) -> Self {
        let left = bits.rotate_left(7);
        let right = bits.rotate_right(11);
        let boxed = |tree: &Self, bits| Box::new(tree.other(bits));
        match self {
            Number(n) if bits.is_multiple_of(3) => Add(Box::new(Number(n - 5)), Box::new(Number(5))),
            Number(_) | Name(_) => self.clone(),
            Add(a, b) => Add(boxed(b, left), boxed(a, right)),
            Subtract(a, b) => Add(Box::new(Multiply(Box::new(Number(-1)), boxed(b, left))), boxed(a, right)),
            Multiply(a, b) => match (&**a, bits.is_multiple_of(2)) {
                (Add(x, y), true) => Add(
                    Box::new(Multiply(boxed(x, left), boxed(b, right))),
                    Box::new(Multiply(boxed(y, right), boxed(b, left))),
                ),
                _ => Multiply(boxed(b, left), boxed(a, right)),
            },
            Divide(a, b) => Divide(
                Box::new(Multiply(Box::new(Number(2)), boxed(a, left))),
                Box::new(Multiply(boxed(b, right), Box::new(Number(2)))),
            ),
            Power(a, n) if *n > 1 => Multiply(boxed(a, left), Box::new(Power(boxed(a, right), n - 1))),
            Power(a, n) => Power(boxed(a, left), *n),
            Call(name, a) => Call(name, boxed(a, left)),
        }
    }
}

fn leaf() -> impl Strategy<Value = Tree> {
    prop_oneof![(-9_i64..30).prop_map(Number), prop_oneof![Just("x"), Just("y"), Just("n"), Just("a_1")].prop_map(Name)]
}

/// Expressions of field operations, which are always decided.
fn rational() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(5, 24, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            pair.clone().prop_map(|(a, b)| Add(Box::new(a), Box::new(b))),
            pair.clone().prop_map(|(a, b)| Subtract(Box::new(a), Box::new(b))),
            pair.clone().prop_map(|(a, b)| Multiply(Box::new(a), Box::new(b))),
            pair.prop_map(|(a, b)| Divide(Box::new(a), Box::new(b))),
            (inner, 1_u32..5).prop_map(|(a, n)| Power(Box::new(a), n)),
        ]
    })
}

/// Random expressions with functions.
fn any_tree() -> impl Strategy<Value = Tree> {
    let name = prop_oneof![Just("sqrt"), Just("sin"), Just("cos"), Just("exp"), Just("ln"), Just("arctan")];
    (rational(), name, rational()).prop_map(|(a, name, b)| Add(Box::new(Call(name, Box::new(a))), Box::new(b)))
}

fn cases() -> u32 {
    std::env::var("EVENKEEL_MATH_CASES").map_or(4_000, |cases| cases.parse().unwrap())
}

fn outcome(gold: &str, answer: &str) -> CheckOutcome {
    let rules = Rules { decimals: Decimals::Exact, ..Rules::default() };
    check(gold, CheckInput::Extracted(answer), &rules).outcome()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rational_expression_equals_its_other_forms(tree in rational(), bits in any::<u64>()) {
        let gold = tree.tex();
        let other = tree.other(bits);
        let answers = [other.tex(), tree.plain(), other.plain(), format!("\\left( {gold} \\right)"), format!("{{{{{gold}}}}}")];
        for answer in answers {
            let forth = outcome(&gold, &answer);
            let back = outcome(&answer, &gold);
            // A literal division by zero is a defect of a gold answer, and one that has to be computed is none.
            if forth == CheckOutcome::BadGold || back == CheckOutcome::BadGold {
                continue;
            }
            prop_assert_eq!(forth, back, "{} and {}", gold, answer);
            // What divides by zero has no value at all; large ones may be too large.
            prop_assert!(forth != CheckOutcome::NotEqual || has_no_value(&gold), "{} is {}", gold, answer);
        }
    }

    #[test]
    fn a_rational_expression_differs_from_what_is_beside_it(tree in rational(), n in 1_i64..100, k in 2_i64..100) {
        let gold = tree.tex();
        for answer in [
            format!("{gold} + {n}"),
            format!("{gold} - \\frac{{{n}}}{{{k}}}"),
            format!("{gold} + 10^{{-{n}}}"),
            format!("{gold} + \\frac{{x}}{{{k}}}"),
            format!("{gold} + \\sqrt{{{}}}", k * k + 1),
            format!("{gold} - \\pi"),
        ] {
            prop_assert_ne!(outcome(&gold, &answer), CheckOutcome::Equal, "{} and {}", gold, answer);
            prop_assert_ne!(outcome(&answer, &gold), CheckOutcome::Equal, "{} and {}", answer, gold);
        }
    }

    #[test]
    fn an_expression_with_functions_is_never_refused_in_another_form(tree in any_tree(), bits in any::<u64>()) {
        let gold = tree.tex();
        let answer = tree.other(bits).tex();
        prop_assert!(outcome(&gold, &answer) != CheckOutcome::NotEqual || has_no_value(&gold), "{} is {}", gold, answer);
    }

    #[test]
    fn an_expression_with_functions_differs_from_what_is_beside_it(tree in any_tree(), n in 1_i64..60) {
        let gold = tree.tex();
        let answers = [
            format!("{gold} + {n}"),
            format!("{gold} + 10^{{-{n}}}"),
            format!("{gold} - x"),
            format!("{gold} + e^{{-{n}}}"),
        ];
        for answer in answers {
            prop_assert_ne!(outcome(&gold, &answer), CheckOutcome::Equal, "{} and {}", gold, answer);
        }
    }

    #[test]
    fn what_is_far_smaller_still_counts(k in 1_u32..500, n in 1_u32..400) {
        for (gold, answer) in [
            (format!("e^{{{k}}}"), format!("e^{{{k}}} + 2^{{-{n}}}")),
            ("\\sin 1".to_owned(), format!("(1 + 10^{{-{n}}}) \\sin 1")),
            (format!("\\cos {k}"), format!("\\cos {k} \\cdot \\cos(10^{{-{n}}})")),
            ("\\frac{\\pi}{2}".to_owned(), format!("\\arctan(10^{{{n}}})")),
            (format!("\\ln {}", k + 1), format!("\\ln({} + 10^{{-{n}}})", k + 1)),
            (format!("\\sin {k}"), format!("\\sin({k} + e^{{-{n}}})")),
        ] {
            prop_assert_ne!(outcome(&gold, &answer), CheckOutcome::Equal, "{} and {}", gold, answer);
        }
    }

    #[test]
    fn space_and_braces_change_nothing(tree in any_tree()) {
        let gold = tree.tex();
        let spaced = gold.replace('(', " \\left( ").replace(')', " \\right) ").replace(" + ", "+").replace("\\cdot", "\\, \\cdot\\,");
        prop_assert_eq!(outcome(&gold, &spaced), outcome(&gold, &gold), "{} and {}", gold, spaced);
    }
}

/// Whether an expression divides by zero or by something identically zero.
fn has_no_value(text: &str) -> bool {
    outcome(text, &format!("{text} + 0 \\cdot x")) != CheckOutcome::Equal
}
