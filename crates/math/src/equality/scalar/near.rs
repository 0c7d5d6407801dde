//! A decimal as an approximation of an exact value.

use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, EvalError, Point, Variables, evaluate};
use crate::expr::Expr;
use crate::{Fuel, Notation, Number};

/// Precision of the exact value, in bits.
const BITS: usize = 320;

/// Whether a decimal is a number rounded or cut at its last digit: what an approximation next to it may be.
pub(in crate::equality) fn is_near(exact: &Expr, decimal: &Number, fuel: &mut Fuel) -> bool {
    let places = if let Notation::Decimal { places, .. } = decimal.notation { places } else { 0 };
    let Some(value) = decimal.exact().filter(|_| places < 1000 && exact.is_closed()) else { return false };
    let (value, places) =
        if decimal.percent { (value / dashu_int::IBig::from(100), places + 2) } else { (value.clone(), places) };
    let value = &value;
    let variables = Variables::default();
    let point = Point { variables: &variables, attempt: 0 };
    let precision = Precision::new(BITS);
    let mut domain = Enclosure { precision, options: EnclosureOptions::default(), point };
    let Ok(found) = evaluate(exact, &mut domain, fuel) else { return false };
    let width = dashu_ratio::RBig::from_parts(1.into(), dashu_int::UBig::from(10_u8).pow(places));
    let inside = (|| {
        let precision = &mut domain.precision;
        let value = precision.rational(value)?;
        let width = precision.rational(&width)?;
        let difference = precision.subtract(&found.re, &value)?;
        let above = precision.subtract(&difference, &width)?;
        let below = precision.add(&difference, &width)?;
        Ok::<bool, EvalError>(found.im.is_none() && above.is_negative() && below.is_positive())
    })();
    inside.unwrap_or(false)
}
