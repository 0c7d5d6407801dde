//! π, e and ln 2, computed once, to more bits than are ever requested.

use std::sync::OnceLock;

use dashu_int::IBig;

use super::{EvalError, Result};

/// Bits after the point.
const BITS: usize = 4096;

/// π as an integer of `2^-bits`, at most one off.
pub(super) fn pi(bits: usize) -> Result<IBig> {
    static PI: OnceLock<IBig> = OnceLock::new();
    // Machin: π/4 = 4 arctan(1/5) - arctan(1/239)
    cut(
        PI.get_or_init(|| (inverse_series(5, false) * IBig::from(4) - inverse_series(239, false)) * IBig::from(4)),
        bits,
    )
}

/// ln 2 as an integer of `2^-bits`, at most one off.
pub(super) fn ln2(bits: usize) -> Result<IBig> {
    static LN2: OnceLock<IBig> = OnceLock::new();
    // ln 2 = 18 artanh(1/26) - 2 artanh(1/4801) + 8 artanh(1/8749)
    let ln2 = LN2.get_or_init(|| {
        inverse_series(26, true) * IBig::from(18) - inverse_series(4801, true) * IBig::from(2)
            + inverse_series(8749, true) * IBig::from(8)
    });
    cut(ln2, bits)
}

/// e as an integer of `2^-bits`, at most one off.
pub(super) fn e(bits: usize) -> Result<IBig> {
    static E: OnceLock<IBig> = OnceLock::new();
    // The sum of the inverses of all factorials.
    let e = E.get_or_init(|| {
        let mut term = IBig::ONE << (BITS + 32);
        let mut sum = term.clone();
        let mut n = 1_u32;
        while !term.is_zero() {
            term /= IBig::from(n);
            sum += &term;
            n += 1;
        }
        sum
    });
    cut(e, bits)
}

/// `arctan(1/n)`, or `artanh(1/n)`, with guard bits.
fn inverse_series(n: u32, hyperbolic: bool) -> IBig {
    let one = IBig::ONE << (BITS + 32);
    let square = IBig::from(u64::from(n) * u64::from(n));
    let mut power = one / IBig::from(n);
    let mut sum = IBig::ZERO;
    let mut odd = 1_u32;
    while !power.is_zero() {
        let term = &power / IBig::from(odd);
        if hyperbolic || odd % 4 == 1 {
            sum += term;
        } else {
            sum -= term;
        }
        power /= &square;
        odd += 2;
    }
    sum
}

fn cut(constant: &IBig, bits: usize) -> Result<IBig> {
    if bits > BITS {
        return Err(EvalError::TooLarge);
    }
    Ok(constant >> (BITS + 32 - bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_what_they_are() {
        assert_eq!(pi(64).unwrap(), IBig::from(57_952_155_664_616_982_739_u128));
        assert_eq!(ln2(64).unwrap(), IBig::from(12_786_308_645_202_655_659_u128));
        assert_eq!(e(64).unwrap(), IBig::from(50_143_449_209_799_256_682_u128));
        assert!(pi(5000).is_err());
    }
}
