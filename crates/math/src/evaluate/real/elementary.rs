//! Power series of elementary functions in fixed point, in units of `2^-bits`. Each error is below `2^GUARD` units.

use dashu_int::ops::SquareRoot;
use dashu_int::ops::UnsignedAbs;
use dashu_int::{IBig, UBig};

use super::Result;
use super::constants::{ln2, pi};

/// Low bits of a result that rounding may have affected: fewer than 2^10 roundings, doubled up to eight times.
pub(super) const GUARD: usize = 20;
/// Halvings of the argument of `exp`, and squarings of its result.
const EXP_HALVINGS: usize = 8;
/// Halvings of the angle of `arctan`.
const ARCTAN_HALVINGS: usize = 3;

/// `(y, k)` with `exp(x) = y·2^k` and y between 1 and 2, about.
pub(super) fn exp(x: &IBig, bits: usize) -> Result<(IBig, i64)> {
    let ln2 = ln2(bits)?;
    let turns = x / &ln2;
    let k = i64::try_from(&turns).unwrap_or(0);
    let r = (x - turns * ln2) >> EXP_HALVINGS;
    let one = IBig::ONE << bits;
    let mut sum = one.clone();
    let mut term = one;
    let mut n = 1_u32;
    loop {
        term = ((term * &r) >> bits) / IBig::from(n);
        if term.is_zero() || term == IBig::NEG_ONE {
            break;
        }
        sum += &term;
        n += 1;
    }
    for _ in 0..EXP_HALVINGS {
        sum = (&sum * &sum) >> bits;
    }
    Ok((sum, k))
}

/// The logarithm of m, which is between 2/3 and 4/3.
pub(super) fn ln_near_one(m: &IBig, bits: usize) -> IBig {
    let one = IBig::ONE << bits;
    // ln m = 2 artanh((m - 1)/(m + 1))
    let z = ((m - &one) << bits) / (m + &one);
    let square = (&z * &z) >> bits;
    let mut sum = z.clone();
    let mut power = z;
    let mut odd = 1_u32;
    loop {
        power = (power * &square) >> bits;
        odd += 2;
        let term = &power / IBig::from(odd);
        if term.is_zero() {
            break;
        }
        sum += term;
    }
    sum << 1
}

/// Sine and cosine of a fixed-point number.
pub(super) fn sin_cos(x: &IBig, bits: usize) -> Result<(IBig, IBig)> {
    let quarter = pi(bits)? >> 1;
    let half: IBig = &quarter >> 1;
    // The nearest multiple of a quarter turn.
    let turns = floor_div(&(x + half), &quarter);
    let r = x - &turns * &quarter;
    let square = (&r * &r) >> bits;
    let one = IBig::ONE << bits;
    let sin = alternating(r, &square, 1, bits);
    let cos = alternating(one, &square, 0, bits);
    let quadrant = i64::try_from(&(turns & IBig::from(3))).unwrap_or(0);
    Ok(match quadrant {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    })
}

/// `first - first·x²/((n+1)(n+2)) + ...`
fn alternating(first: IBig, square: &IBig, mut n: u32, bits: usize) -> IBig {
    let mut sum = first.clone();
    let mut term = first;
    loop {
        term = -((term * square) >> bits) / IBig::from((n + 1) * (n + 2));
        n += 2;
        if term.is_zero() || term == IBig::NEG_ONE {
            return sum;
        }
        sum += &term;
    }
}

/// The arctangent of x between -1 and 1.
pub(super) fn arctan(x: &IBig, bits: usize) -> IBig {
    let one = IBig::ONE << bits;
    let mut x = x.clone();
    for _ in 0..ARCTAN_HALVINGS {
        // tan(a/2) = tan a / (1 + √(1 + tan² a))
        let hypotenuse: UBig = ((&one * &one) + &x * &x).unsigned_abs().sqrt();
        x = (x << bits) / (&one + IBig::from(hypotenuse));
    }
    let square = (&x * &x) >> bits;
    let mut sum = x.clone();
    let mut power = x;
    let mut odd = 1_u32;
    loop {
        power = -((power * &square) >> bits);
        odd += 2;
        let term = &power / IBig::from(odd);
        if term.is_zero() {
            break;
        }
        sum += term;
    }
    sum << ARCTAN_HALVINGS
}

fn floor_div(a: &IBig, b: &IBig) -> IBig {
    let quotient = a / b;
    if &quotient * b > *a { quotient - IBig::ONE } else { quotient }
}
