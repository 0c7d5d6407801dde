//! Is the final answer of a text equal to the gold one?
//!
//! A check has three parts, each of them a module: [`extract`] finds the place where a completion states its answer, [`parse`] reads
//! it into a [`Value`], [`equality`] compares two values. [`Gold`] puts them together and gives a [`Verdict`], which carries what was
//! found and why it was judged as it was. A [`Policy`] decides where reasonable people differ; a [`Profile`] names one.
//!
//! What holds for every input:
//! - Nothing is decided by floating point. Numbers, radicals and their sums are compared exactly; expressions modulo two primes at random
//!   points, or in enclosures of as many bits as it takes.
//! - What is not read as mathematics is kept as text in a canonical spelling and compared as such.
//! - The work is linear in the length of a completion and bounded in the length of its answer; running out of the bound is
//!   "undecided", never "equal". There is no clock and no randomness: one pair has one verdict on every machine.
//! - A gold answer that cannot be read is [`BadGold`], a defect of the data set, and never a wrong answer.
//!
//! ```
//! use evenkeel_math::{Gold, Outcome, Policy, Submission};
//!
//! let policy = Policy::default();
//! let gold = Gold::read(r"\frac{3}{4}", &policy)?;
//! let verdict = gold.check(Submission::Completion(r"Both halves agree, so \boxed{0.75}."), &policy);
//! assert_eq!(verdict.outcome(), Outcome::Equal);
//! assert_eq!(verdict.reason.code(), "equal_decimal");
//! assert_eq!(verdict.canonical().as_deref(), Some("3/4"));
//! # Ok::<(), evenkeel_math::BadGold>(())
//! ```
#![forbid(unsafe_code)]
// Every text has a verdict. Whatever could panic on one is left to no reader's attention: texts are cut by `cut`, and what is looked up
// may be missing.
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

mod choice;
mod cut;
mod digits;
mod evaluate;
mod expr;
mod fuel;
mod gold;
mod lint;
mod number;
mod policy;
mod profile;
mod unit;
mod value;
mod verdict;

pub use expr::Expr;
pub use fuel::{Fuel, OutOfFuel};
pub use gold::{BadGold, Gold, Submission, check};
pub use lint::{Finding, lint};
pub use number::{Huge, MAX_EXACT_DIGITS, Magnitude, Number, Written};
pub use policy::{
    DecimalComma, Decimals, Equations, Limits, Marker, Order, Percent, Policy, PolicyError, TextCase, Thinking, Units,
};
pub use profile::{Profile, UnknownProfile};
pub use unit::Unit;
pub use value::{Based, End, Matrix, Quantity, Region, Relation, Sign, Text, Time, Tuple, Value};
pub use verdict::{Outcome, Reason, Verdict};
