//! Evaluation of expressions in several domains: exactly, modulo primes, and in interval arithmetic of increasing
//! precision.

mod algebra;
mod complex;
mod enclosure;
mod exact;
mod modular;
mod points;
pub(crate) mod prime;
pub(crate) mod real;
mod surd;

pub(crate) use algebra::{EvalError, evaluate};
pub(crate) use enclosure::{Enclosure, EnclosureOptions};
pub(crate) use exact::{exact, exact_at};
pub(crate) use modular::Modular;
pub(crate) use points::{Point, Variables};
pub(crate) use surd::Surd;
