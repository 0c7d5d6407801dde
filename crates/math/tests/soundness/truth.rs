//! Whether two formulas certainly differ: by residues modulo two primes, or by disjoint intervals, at random points.

use super::formula::{LETTERS, Scalar, Shape, has_letter};
use super::random::Random;

const PRIMES: [u64; 2] = [2_147_483_647, 2_147_483_629];
const POINTS: usize = 3;

/// Whether they have different values for certain.
pub(crate) fn differ(a: &Shape, b: &Shape, random: &mut Random) -> bool {
    match (a, b) {
        (Shape::Scalar(a), Shape::Scalar(b)) => scalars(a, b, random),
        (Shape::Tuple(a), Shape::Tuple(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| scalars(a, b, random)),
        (Shape::Set(a), Shape::Set(b)) => {
            let lacks = |a: &[Scalar], b: &[Scalar], random: &mut Random| {
                a.iter().any(|a| b.iter().all(|b| scalars(a, b, random)))
            };
            lacks(a, b, random) || lacks(b, a, random)
        }
        (Shape::Interval(c, low, high, d), Shape::Interval(e, other_low, other_high, f)) => {
            (c, d) != (e, f) || scalars(low, other_low, random) || scalars(high, other_high, random)
        }
        (Shape::Equation(x, a), Shape::Equation(y, b)) => x != y || scalars(a, b, random),
        (Shape::Family(a), Shape::Family(b)) => families(a, b, random),
        _ => true,
    }
}

/// Sets of all values of a term for whole n: certainly different where a letter other than n makes the terms differ.
fn families(a: &Scalar, b: &Scalar, random: &mut Random) -> bool {
    let n = LETTERS.iter().position(|letter| *letter == "n").unwrap();
    !has_letter(a, n) && !has_letter(b, n) && scalars(a, b, random)
}

fn scalars(a: &Scalar, b: &Scalar, random: &mut Random) -> bool {
    for prime in PRIMES {
        let point: Vec<u64> = (0..=LETTERS.len()).map(|_| 2 + random.next() % (prime - 2)).collect();
        if let (Some(a), Some(b)) = (residue(a, &point, prime), residue(b, &point, prime)) {
            // Equal residues of rational functions are equal ones but for a tiny chance, in favour of the verdict.
            return a != b;
        }
    }
    (0..POINTS).any(|_| {
        let point: Vec<f64> = LETTERS.iter().map(|_| 0.4 + (random.next() % 10_000) as f64 / 5_000.0).collect();
        match (interval(a, &point), interval(b, &point)) {
            (Some(a), Some(b)) => a.high < b.low || b.high < a.low,
            _ => false,
        }
    })
}

/// The value modulo a prime; the last coordinate stands for pi. `None` for roots and functions.
fn residue(scalar: &Scalar, point: &[u64], prime: u64) -> Option<u64> {
    let residue_of = |part: &Scalar| residue(part, point, prime);
    let times = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(prime)) as u64;
    let power = |base: u64, exponent: u64| {
        let (mut result, mut square, mut left) = (1, base, exponent);
        while left > 0 {
            if left % 2 == 1 {
                result = times(result, square);
            }
            square = times(square, square);
            left /= 2;
        }
        result
    };
    Some(match scalar {
        Scalar::Integer(n) => n.rem_euclid(prime as i64) as u64,
        Scalar::Letter(at) => point[*at],
        Scalar::Pi => *point.last()?,
        Scalar::Sum(a, b) => (residue_of(a)? + residue_of(b)?) % prime,
        Scalar::Difference(a, b) => (residue_of(a)? + prime - residue_of(b)?) % prime,
        Scalar::Product(factors) => {
            let mut product = 1;
            for factor in factors {
                product = times(product, residue_of(factor)?);
            }
            product
        }
        Scalar::Quotient(a, b) => {
            let below = residue_of(b)?;
            if below == 0 {
                return None;
            }
            times(residue_of(a)?, power(below, prime - 2))
        }
        Scalar::Power(a, n) => power(residue_of(a)?, u64::from(*n)),
        Scalar::Negative(a) => (prime - residue_of(a)?) % prime,
        Scalar::Root(_) | Scalar::Call(..) => return None,
    })
}

/// An interval that has the value for certain: each operation widens it by far more than its rounding.
#[derive(Clone, Copy)]
struct Interval {
    low: f64,
    high: f64,
}

fn around(low: f64, high: f64) -> Option<Interval> {
    let slack = |x: f64| x.abs() * 1e-11 + 1e-200;
    let found = Interval { low: low - slack(low), high: high + slack(high) };
    (found.low.is_finite() && found.high.is_finite() && found.low.abs() < 1e100 && found.high.abs() < 1e100)
        .then_some(found)
}

fn interval(scalar: &Scalar, point: &[f64]) -> Option<Interval> {
    let interval_of = |part: &Scalar| interval(part, point);
    let product = |a: Interval, b: Interval| {
        let ends = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
        around(
            ends.iter().copied().fold(f64::INFINITY, f64::min),
            ends.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    };
    match scalar {
        Scalar::Integer(n) => around(*n as f64, *n as f64),
        Scalar::Letter(at) => around(point[*at], point[*at]),
        Scalar::Pi => around(std::f64::consts::PI, std::f64::consts::PI),
        Scalar::Sum(a, b) => {
            let (a, b) = (interval_of(a)?, interval_of(b)?);
            around(a.low + b.low, a.high + b.high)
        }
        Scalar::Difference(a, b) => {
            let (a, b) = (interval_of(a)?, interval_of(b)?);
            around(a.low - b.high, a.high - b.low)
        }
        Scalar::Product(factors) => {
            let mut found = around(1.0, 1.0)?;
            for factor in factors {
                found = product(found, interval_of(factor)?)?;
            }
            Some(found)
        }
        Scalar::Quotient(a, b) => {
            let (a, b) = (interval_of(a)?, interval_of(b)?);
            if b.low <= 0.0 && b.high >= 0.0 {
                return None;
            }
            product(a, around(1.0 / b.high, 1.0 / b.low)?)
        }
        Scalar::Power(a, n) => {
            let base = interval_of(a)?;
            let mut found = base;
            for _ in 1..*n {
                found = product(found, base)?;
            }
            Some(found)
        }
        Scalar::Root(a) => {
            let a = interval_of(a)?;
            if a.low < 0.0 { None } else { around(a.low.sqrt(), a.high.sqrt()) }
        }
        Scalar::Call(name, a) => {
            let a = interval_of(a)?;
            match *name {
                "\\exp" => around(a.low.exp(), a.high.exp()),
                "\\ln" if a.low > 0.0 => around(a.low.ln(), a.high.ln()),
                // Their slope is at most one.
                "\\sin" | "\\cos" if a.high - a.low < 1.0 => {
                    let middle = f64::midpoint(a.low, a.high);
                    let value = if *name == "\\sin" { middle.sin() } else { middle.cos() };
                    let width = a.high - a.low + 1e-11;
                    around(value - width, value + width)
                }
                _ => None,
            }
        }
        Scalar::Negative(a) => {
            let a = interval_of(a)?;
            around(-a.high, -a.low)
        }
    }
}
