//! Random formulas with their values: made, changed, printed and evaluated here, without the parser.

use super::random::Random;

/// A random scalar expression, with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Integer(i64),
    Letter(usize),
    Pi,
    Sum(Box<Scalar>, Box<Scalar>),
    Difference(Box<Scalar>, Box<Scalar>),
    Product(Vec<Scalar>),
    Quotient(Box<Scalar>, Box<Scalar>),
    Power(Box<Scalar>, u32),
    Root(Box<Scalar>),
    Call(&'static str, Box<Scalar>),
    Negative(Box<Scalar>),
}

/// A value of any shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Scalar(Scalar),
    Tuple(Vec<Scalar>),
    Set(Vec<Scalar>),
    Interval(bool, Scalar, Scalar, bool),
    /// The first letter equals the scalar.
    Equation(usize, Scalar),
    /// All values of a term for whole numbers n.
    Family(Scalar),
}

/// Letters of formulas, without those that have a meaning of their own (e, i) or denote functions (f, g, h, F, G, H, P,
/// W) or a constant of integration (C, K, k).
pub(crate) const LETTERS: [&str; 30] = [
    "a", "b", "c", "d", "m", "n", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z", "A", "B", "D", "M", "N", "Q",
    "R", "T", "V", "\\alpha", "\\beta", "\\theta", "\\omega",
];
const FUNCTIONS: [&str; 4] = ["\\sin", "\\cos", "\\ln", "\\exp"];
/// Letters that spell a function or a unit.
const SPELLED: [&str; 12] = ["tan", "tg", "csc", "sec", "cot", "mod", "and", "cm", "mm", "nm", "ms", "yd"];

/// A scalar of some size.
pub(crate) fn scalar(random: &mut Random, size: usize) -> Scalar {
    let letter = |random: &mut Random| Scalar::Letter(random.below(LETTERS.len()));
    if size <= 1 {
        return match random.below(10) {
            0..=4 => letter(random),
            5 => Scalar::Pi,
            _ => Scalar::Integer(2 + random.below(29) as i64),
        };
    }
    let part = |random: &mut Random| Box::new(scalar(random, size / 2));
    match random.below(14) {
        0..=2 => Scalar::Sum(part(random), part(random)),
        3 => Scalar::Difference(part(random), part(random)),
        4..=8 => {
            let count = 2 + random.below(3);
            Scalar::Product((0..count).map(|_| scalar(random, size / count)).collect())
        }
        9 | 10 => Scalar::Quotient(part(random), part(random)),
        11 => Scalar::Power(part(random), 2 + random.below(3) as u32),
        12 => Scalar::Root(part(random)),
        _ => Scalar::Call(random.of::<&str>(&FUNCTIONS), part(random)),
    }
}

/// A value of some shape.
pub(crate) fn shape(random: &mut Random) -> Shape {
    let size = 1 + random.below(10);
    let some = |random: &mut Random, count: usize| (0..count).map(|_| scalar(random, 1 + size / 2)).collect::<Vec<_>>();
    match random.below(12) {
        0..=5 => Shape::Scalar(scalar(random, size)),
        6 => {
            let count = 2 + random.below(2);
            Shape::Tuple(some(random, count))
        }
        7 => {
            let count = 2 + random.below(2);
            Shape::Set(some(random, count))
        }
        8 => {
            let low = random.below(50) as i64 - 25;
            let high = Scalar::Integer(low + 1 + random.below(20) as i64);
            Shape::Interval(random.once_in(2), Scalar::Integer(low), high, random.once_in(2))
        }
        9 => Shape::Family(scalar(random, 1 + size / 2)),
        _ => {
            // Not an equation that its letter solves: `x = 2x` and `x = 3x` are one.
            let value = scalar(random, size);
            let letter = (0..LETTERS.len()).find(|letter| !has_letter(&value, *letter));
            let first = random.below(LETTERS.len());
            let letter = if has_letter(&value, first) { letter } else { Some(first) };
            letter.map_or(Shape::Scalar(value.clone()), |letter| Shape::Equation(letter, value))
        }
    }
}

/// Whether a letter occurs.
pub(crate) fn has_letter(scalar: &Scalar, letter: usize) -> bool {
    match scalar {
        Scalar::Letter(at) => *at == letter,
        Scalar::Integer(_) | Scalar::Pi => false,
        Scalar::Sum(a, b) | Scalar::Difference(a, b) | Scalar::Quotient(a, b) => {
            has_letter(a, letter) || has_letter(b, letter)
        }
        Scalar::Product(factors) => factors.iter().any(|factor| has_letter(factor, letter)),
        Scalar::Power(a, _) | Scalar::Root(a) | Scalar::Call(_, a) | Scalar::Negative(a) => has_letter(a, letter),
    }
}

/// The scalar with one part changed: removed, or another sign, digit, letter, case, operation or argument.
pub(crate) fn changed(random: &mut Random, scalar: &Scalar) -> Scalar {
    use Scalar::{Call, Difference, Integer, Letter, Negative, Pi, Power, Product, Quotient, Root, Sum};
    let inner = |random: &mut Random, part: &Scalar| Box::new(changed(random, part));
    let here = random.once_in(3);
    match scalar {
        Integer(n) if random.once_in(4) => Product(vec![Integer(*n), Letter(random.below(LETTERS.len()))]),
        Integer(n) => Integer(n + 1 + random.below(9) as i64),
        Letter(at) => match random.below(3) {
            0 => Letter((at + 1 + random.below(LETTERS.len() - 1)) % LETTERS.len()),
            1 => Product(vec![Letter(*at), Letter(random.below(LETTERS.len()))]),
            _ => Negative(Box::new(Letter(*at))),
        },
        Pi => Integer(3),
        Sum(a, b) if here => match random.below(3) {
            0 => (**a).clone(),
            1 => Difference(a.clone(), b.clone()),
            _ => Product(vec![(**a).clone(), (**b).clone()]),
        },
        Sum(a, b) if random.once_in(2) => Sum(inner(random, a), b.clone()),
        Sum(a, b) => Sum(a.clone(), inner(random, b)),
        Difference(a, b) if here => {
            if random.once_in(2) {
                Difference(b.clone(), a.clone())
            } else {
                (**a).clone()
            }
        }
        Difference(a, b) => Difference(a.clone(), inner(random, b)),
        // The part that a reader of words may take for one.
        Product(factors) if here => {
            let mut left = factors.clone();
            left.remove(random.below(left.len()));
            if left.len() == 1 { left.remove(0) } else { Product(left) }
        }
        Product(factors) => {
            let mut others = factors.clone();
            let at = random.below(others.len());
            others[at] = changed(random, &others[at]);
            Product(others)
        }
        Quotient(a, b) if here => {
            if random.once_in(2) {
                Quotient(b.clone(), a.clone())
            } else {
                (**a).clone()
            }
        }
        Quotient(a, b) => Quotient(a.clone(), inner(random, b)),
        Power(a, n) if here => {
            if random.once_in(2) {
                Power(a.clone(), n + 1)
            } else {
                (**a).clone()
            }
        }
        Power(a, n) => Power(inner(random, a), *n),
        Root(a) => {
            if here {
                (**a).clone()
            } else {
                Root(inner(random, a))
            }
        }
        Call(name, a) => match random.below(3) {
            0 => (**a).clone(),
            1 => Call(random.of::<&str>(&FUNCTIONS), a.clone()),
            _ => Call(name, inner(random, a)),
        },
        Negative(a) => (**a).clone(),
    }
}

/// An equal value written in another order.
pub(crate) fn reordered(random: &mut Random, scalar: &Scalar) -> Scalar {
    use Scalar::{Call, Difference, Negative, Power, Product, Quotient, Root, Sum};
    let other = |random: &mut Random, part: &Scalar| Box::new(reordered(random, part));
    match scalar {
        Sum(a, b) if random.once_in(2) => Sum(other(random, b), other(random, a)),
        Sum(a, b) => Sum(other(random, a), other(random, b)),
        Difference(a, b) => Difference(other(random, a), other(random, b)),
        Product(factors) => {
            let mut left: Vec<Scalar> = factors.iter().map(|factor| reordered(random, factor)).collect();
            let count = left.len();
            left.rotate_left(random.below(count));
            Product(left)
        }
        Quotient(a, b) => Quotient(other(random, a), other(random, b)),
        Power(a, n) => Power(other(random, a), *n),
        Root(a) => Root(other(random, a)),
        Call(name, a) => Call(name, other(random, a)),
        Negative(a) => Negative(other(random, a)),
        part => part.clone(),
    }
}

/// How a printed part binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Power,
    Atom,
}

/// The scalar in TeX, in one of many spellings.
pub(crate) fn print(random: &mut Random, scalar: &Scalar) -> String {
    printed(random, scalar).0
}

fn bracketed(random: &mut Random, scalar: &Scalar, least: Binding) -> String {
    let (text, binding) = printed(random, scalar);
    match () {
        () if binding >= least => text,
        () if random.once_in(3) => format!("\\left({text}\\right)"),
        () => format!("({text})"),
    }
}

fn printed(random: &mut Random, scalar: &Scalar) -> (String, Binding) {
    match scalar {
        Scalar::Integer(n) if *n < 0 => (n.to_string(), Binding::Sum),
        Scalar::Integer(n) => (n.to_string(), Binding::Atom),
        Scalar::Letter(at) => (LETTERS[*at].to_owned(), Binding::Atom),
        Scalar::Pi => ("\\pi".to_owned(), Binding::Atom),
        Scalar::Sum(a, b) => {
            let (a, b) = (bracketed(random, a, Binding::Sum), bracketed(random, b, Binding::Product));
            (if random.once_in(2) { format!("{a}+{b}") } else { format!("{a} + {b}") }, Binding::Sum)
        }
        Scalar::Difference(a, b) => {
            let (a, b) = (bracketed(random, a, Binding::Sum), bracketed(random, b, Binding::Product));
            (format!("{a}-{b}"), Binding::Sum)
        }
        Scalar::Negative(a) => (format!("-{}", bracketed(random, a, Binding::Power)), Binding::Sum),
        Scalar::Product(factors) => {
            let mut text = String::new();
            for factor in factors {
                let next = bracketed(random, factor, Binding::Power);
                text = joined(random, text, &next);
            }
            (text, Binding::Product)
        }
        Scalar::Quotient(a, b) => {
            let (above, below) = (print(random, a), print(random, b));
            match random.below(4) {
                0 => (format!("\\dfrac{{{above}}}{{{below}}}"), Binding::Atom),
                1 => {
                    let (above, below) = (bracketed(random, a, Binding::Power), bracketed(random, b, Binding::Atom));
                    (format!("{above}/{below}"), Binding::Sum)
                }
                _ => (format!("\\frac{{{above}}}{{{below}}}"), Binding::Atom),
            }
        }
        Scalar::Power(a, n) => {
            let base = bracketed(random, a, Binding::Atom);
            // `\sin(x)^2` and `\frac{a}{b}^2` are read in more than one way.
            let is_plain = matches!(**a, Scalar::Letter(_) | Scalar::Integer(_) | Scalar::Pi) || base.starts_with('(');
            let base = if is_plain { base } else { format!("({})", print(random, a)) };
            (if random.once_in(2) { format!("{base}^{n}") } else { format!("{base}^{{{n}}}") }, Binding::Power)
        }
        Scalar::Root(a) => (format!("\\sqrt{{{}}}", print(random, a)), Binding::Atom),
        Scalar::Call(name, a) => (format!("{name}({})", print(random, a)), Binding::Power),
    }
}

/// Two factors side by side, with or without a sign.
fn joined(random: &mut Random, text: String, next: &str) -> String {
    if text.is_empty() {
        return next.to_owned();
    }
    let ends_in_letters = text.len() - text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let begins_with_letter = next.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_command = text[..text.len() - ends_in_letters].ends_with('\\');
    let must_dot = next.starts_with(|c: char| c.is_ascii_digit())
        // `x(2)` is a value at 2, `2 m` is a length.
        || (next.starts_with('(') && ends_in_letters > 0)
        || (next.starts_with("\\left") && ends_in_letters > 0)
        || (begins_with_letter && text.bytes().all(|byte| byte.is_ascii_digit()));
    if must_dot && begins_with_letter && random.once_in(2) {
        return format!("{text}{next}");
    }
    if must_dot {
        return format!("{text}\\cdot {next}");
    }
    let word = format!("{}{next}", &text[text.len() - ends_in_letters..]);
    let spells = SPELLED.iter().any(|spelled| word.contains(spelled));
    match random.below(5) {
        0 => format!("{text} \\cdot {next}"),
        1 => format!("{text}\\,{next}"),
        _ if is_command && begins_with_letter => format!("{text} {next}"),
        _ if spells => format!("{text}\\cdot {next}"),
        _ => format!("{text}{next}"),
    }
}

/// A shape in TeX.
pub(crate) fn print_shape(random: &mut Random, shape: &Shape) -> String {
    let list = |random: &mut Random, items: &[Scalar]| {
        items.iter().map(|item| print(random, item)).collect::<Vec<_>>().join(", ")
    };
    match shape {
        Shape::Scalar(value) => print(random, value),
        Shape::Tuple(items) => format!("({})", list(random, items)),
        Shape::Set(items) => format!("\\{{{}\\}}", list(random, items)),
        Shape::Interval(low_closed, low, high, high_closed) => {
            let (low, high) = (print(random, low), print(random, high));
            let (open, close) = (if *low_closed { '[' } else { '(' }, if *high_closed { ']' } else { ')' });
            format!("{open}{low}, {high}{close}")
        }
        Shape::Equation(letter, value) => format!("{} = {}", LETTERS[*letter], print(random, value)),
        Shape::Family(term) => format!("\\{{{} \\mid n \\in \\mathbb{{Z}}\\}}", print(random, term)),
    }
}
