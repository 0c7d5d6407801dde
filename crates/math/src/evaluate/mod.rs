//! Evaluation of expressions in several domains: exactly, modulo primes, and in interval arithmetic of increasing
//! precision.

mod algebra;
mod complex;
mod enclosure;
mod exact;
mod modular;
mod ordered;
mod points;
pub(crate) mod prime;
pub(crate) mod real;
mod surd;

pub(crate) use algebra::{EvalError, evaluate};
pub(crate) use enclosure::{Enclosure, EnclosureOptions, is_complex_letter};
pub(crate) use exact::{exact, exact_at};
pub(crate) use modular::Modular;
pub(crate) use ordered::Ordered;
pub(crate) use points::{Point, Variables};
pub(crate) use surd::Surd;
