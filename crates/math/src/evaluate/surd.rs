//! Sums of rational multiples of square roots in a unique form: radicands are distinct and square-free, negative ones
//! denote imaginary parts.

use std::fmt;

use dashu_int::IBig;
use dashu_int::ops::BitTest;
use dashu_ratio::RBig;

/// Most terms of a sum.
const MAX_TERMS: usize = 12;
/// Largest radicand that is factored: after division by the primes up to 1000, at most a square or two primes remain.
const MAX_RADICAND: u64 = 1 << 60;
/// The remainder has at most two factors below this.
const TWO_FACTORS: u64 = 1_000_000_000;

/// A sum of rational multiples of square roots of distinct square-free integers, in ascending order of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surd {
    terms: Vec<(i64, RBig)>,
}

impl Surd {
    pub(super) fn rational(value: RBig) -> Self {
        Self { terms: if value.is_zero() { Vec::new() } else { vec![(1, value)] } }
    }

    pub(super) fn imaginary_unit() -> Self {
        Self { terms: vec![(-1, RBig::ONE)] }
    }

    /// The value, if it is rational.
    pub(crate) fn as_rational(&self) -> Option<RBig> {
        match self.terms.as_slice() {
            [] => Some(RBig::ZERO),
            [(1, value)] => Some(value.clone()),
            _ => None,
        }
    }

    /// Length of its longest number.
    pub(super) fn bits(&self) -> usize {
        let bits = |value: &RBig| value.numerator().bit_len().max(value.denominator().bit_len());
        self.terms.iter().map(|(_, factor)| bits(factor)).max().unwrap_or(0)
    }

    fn of(mut terms: Vec<(i64, RBig)>) -> Option<Self> {
        terms.sort_by_key(|(radicand, _)| *radicand);
        let mut merged: Vec<(i64, RBig)> = Vec::with_capacity(terms.len());
        for (radicand, factor) in terms {
            match merged.last_mut() {
                Some((last, sum)) if *last == radicand => *sum += factor,
                _ => merged.push((radicand, factor)),
            }
        }
        merged.retain(|(_, factor)| !factor.is_zero());
        (merged.len() <= MAX_TERMS).then_some(Self { terms: merged })
    }

    pub(super) fn negated(&self) -> Self {
        Self { terms: self.terms.iter().map(|(radicand, factor)| (*radicand, -factor.clone())).collect() }
    }

    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        Self::of(self.terms.iter().chain(&other.terms).cloned().collect())
    }

    pub(super) fn times(&self, other: &Self) -> Option<Self> {
        let mut terms = Vec::with_capacity(self.terms.len() * other.terms.len());
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let (outside, radicand) = root_product(*a, *b)?;
                terms.push((radicand, x * y * RBig::from(outside)));
            }
        }
        Self::of(terms)
    }

    /// `1/self` of one or two terms. `None` for more, and for zero.
    pub(super) fn inverse(&self) -> Option<Self> {
        let over = |norm: &Self, above: Self| {
            let norm = norm.as_rational().filter(|norm| !norm.is_zero())?;
            above.times(&Self::rational(RBig::ONE / norm))
        };
        match self.terms.as_slice() {
            [_] => over(&self.times(self)?, self.clone()),
            [first, second] => {
                let conjugate = Self { terms: vec![first.clone(), (second.0, -second.1.clone())] };
                over(&self.times(&conjugate)?, conjugate)
            }
            _ => None,
        }
    }

    /// The square root of a rational number, the principal one.
    pub(super) fn sqrt(value: &RBig) -> Option<Self> {
        if value.is_zero() {
            return Some(Self::rational(RBig::ZERO));
        }
        // √(a/b) = √(ab)/b
        let product = value.numerator() * IBig::from(value.denominator().clone());
        let product = i64::try_from(&product).ok()?;
        let (outside, radicand) = square_free(product)?;
        let factor = RBig::from_parts(outside.into(), value.denominator().clone());
        Some(Self { terms: vec![(radicand, factor)] })
    }
}

/// `√a · √b` as an integer and a square-free radicand.
fn root_product(a: i64, b: i64) -> Option<(i64, i64)> {
    let common = gcd(a.unsigned_abs(), b.unsigned_abs());
    let common = i64::try_from(common).ok()?;
    let radicand = (a / common).checked_mul(b / common)?;
    if radicand.unsigned_abs() > MAX_RADICAND {
        return None;
    }
    // i · i = -1
    match (a < 0, b < 0) {
        (true, true) => Some((-common, radicand)),
        _ => Some((common, radicand)),
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// `(s, r)` with `value = s²·r` and `r` square-free. `None` if it cannot be factored.
fn square_free(value: i64) -> Option<(i64, i64)> {
    let mut rest = value.unsigned_abs();
    if rest > MAX_RADICAND {
        return None;
    }
    let mut outside = 1_u64;
    let mut inside = 1_u64;
    let mut divisor = 2;
    while divisor <= 1000 && divisor * divisor <= rest {
        while rest.is_multiple_of(divisor * divisor) {
            rest /= divisor * divisor;
            outside *= divisor;
        }
        if rest.is_multiple_of(divisor) {
            rest /= divisor;
            inside *= divisor;
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    let root = rest.isqrt();
    if root * root == rest {
        outside *= root;
    } else if rest < TWO_FACTORS {
        inside *= rest;
    } else {
        return None;
    }
    let outside = i64::try_from(outside).ok()?;
    let inside = i64::try_from(inside).ok()?;
    Some((outside, if value < 0 { -inside } else { inside }))
}

impl fmt::Display for Surd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // The rational part first, then the others.
        let (rational, others): (Vec<_>, Vec<_>) = self.terms.iter().partition(|(radicand, _)| *radicand == 1);
        for (index, (radicand, factor)) in rational.into_iter().chain(others).enumerate() {
            let negative = *factor < RBig::ZERO;
            let size = if negative { -factor.clone() } else { factor.clone() };
            f.write_str(match (index, negative) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            let root = match radicand {
                1 => String::new(),
                -1 => "i".to_owned(),
                negative if *negative < 0 => format!("i*sqrt({})", -negative),
                positive => format!("sqrt({positive})"),
            };
            match (root.is_empty(), size == RBig::ONE) {
                (true, _) => write!(f, "{}", Fraction(&size))?,
                (false, true) => f.write_str(&root)?,
                (false, false) => write!(f, "{}*{root}", Fraction(&size))?,
            }
        }
        Ok(())
    }
}

/// A rational as an integer or `a/b`.
struct Fraction<'a>(&'a RBig);

impl fmt::Display for Fraction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_int() {
            write!(f, "{}", self.0.numerator())
        } else {
            write!(f, "{}/{}", self.0.numerator(), self.0.denominator())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(value: i64) -> Surd {
        Surd::sqrt(&RBig::from(value)).unwrap()
    }

    #[test]
    fn roots_have_one_form() {
        assert_eq!(root(8).to_string(), "2*sqrt(2)");
        assert_eq!(root(49), Surd::rational(RBig::from(7)));
        assert_eq!(root(-12).to_string(), "2*i*sqrt(3)");
        assert_eq!(root(2).times(&root(6)).unwrap(), root(12));
        assert_eq!(root(-2).times(&root(-8)).unwrap(), Surd::rational(RBig::from(-4)));
        assert_eq!(root(3).plus(&root(12)).unwrap(), root(27));
        assert_eq!(square_free(1_000_003 * 1_000_033), None);
        assert_eq!(square_free(2 * 1_000_003), Some((1, 2 * 1_000_003)));
    }

    #[test]
    fn two_terms_are_inverted() {
        // 2/(√5 - 1) = (1 + √5)/2
        let two = Surd::rational(RBig::from(2));
        let below = root(5).plus(&Surd::rational(RBig::from(-1))).unwrap();
        let quotient = two.times(&below.inverse().unwrap()).unwrap();
        let golden = root(5).plus(&Surd::rational(RBig::ONE)).unwrap().times(&two.inverse().unwrap()).unwrap();
        assert_eq!(quotient, golden);
        assert_eq!(golden.to_string(), "1/2 + 1/2*sqrt(5)");
        assert_eq!(Surd::rational(RBig::ZERO).inverse(), None);
    }
}
