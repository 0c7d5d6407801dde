//! Decides whether the final answer in a text equals the gold answer.
//!
//! A check has three stages, each a module: [`extract`] finds the final answer in a completion, [`parse`] reads it into
//! a [`Value`], [`equality`] compares two values. [`Gold`] combines them and returns a [`Verdict`] with what was found
//! and the reason. [`Rules`] answer the questions on which graders differ; a [`Profile`] names a set of them.
//!
//! Guarantees for every input:
//! - No floating point. Numbers, radicals and their sums are compared exactly; other expressions modulo two primes at
//!   pseudo-random points, or in interval arithmetic of increasing precision.
//! - Text that is not mathematics is normalised and compared as text.
//! - Work is linear in the length of a completion and bounded in the length of its answer. Exceeding the bound is
//!   "undecided", never "equal". No clock and no randomness: a pair has the same verdict on every machine.
//! - A gold answer that cannot be parsed is [`BadGold`], a defect of the data set, and never counts as a wrong answer.
//!
//! ```
//! use evenkeel_math::{Gold, CheckOutcome, Rules, CheckInput};
//!
//! let rules = Rules::default();
//! let gold = Gold::read(r"\frac{3}{4}", &rules)?;
//! let verdict = gold.check(CheckInput::Completion(r"Both halves agree, so \boxed{0.75}."), &rules);
//! assert_eq!(verdict.outcome(), CheckOutcome::Equal);
//! assert_eq!(verdict.reason.code(), "equal_decimal");
//! assert_eq!(verdict.canonical().as_deref(), Some("3/4"));
//! # Ok::<(), evenkeel_math::BadGold>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]
// No input may cause a panic: text is sliced with `slicing::SafeSlice`, and every lookup may fail.
#![cfg_attr(
    not(test),
    deny(
        clippy::string_slice,
        clippy::indexing_slicing,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::get_unwrap
    )
)]

pub mod equality;
pub mod extract;
pub mod parse;

mod accounting;
mod choice;
mod copied;
mod digits;
mod evaluate;
mod expr;
mod fuel;
mod gold;
mod lint;
mod number;
mod others;
mod profile;
mod rules;
mod slicing;
mod unit;
mod value;
mod verdict;
mod words;

pub use expr::Expr;
pub use fuel::{Fuel, OutOfFuel};
pub use gold::{BadGold, CheckInput, Gold, check};
pub use lint::{Finding, lint};
pub use number::{LongDecimal, MAX_EXACT_DIGITS, Magnitude, Notation, Number};
pub use profile::Profile;
pub use rules::{
    CheckLimits, Copied, DecimalComma, Decimals, Equations, Marker, Order, Percent, Rules, TextCase, Thinking, Units,
};
pub use unit::Unit;
pub use value::{Based, Comprehension, End, Matrix, Quantity, Region, Relation, Sign, Text, Time, Tuple, Value};
pub use verdict::{CheckOutcome, Reason, Verdict};
pub use words::ALLOW_LIST;
