//! Compares what a program produced with what a test expects. This happens on the host, out of reach of any
//! program.
//!
//! [`text`] compares standard output: stripped lines, equal as text or as exact decimals. [`value`] compares return
//! values: Python's own equality between the returned value and the expected JSON. These are the rules of
//! LiveCodeBench; in strict mode a [`Tolerance`] for floats comes on top, and values are compared as JSON, which has no
//! tuples.

mod decimal;
mod digits;
pub mod int;
pub mod json;
pub mod marshal;
pub mod text;
mod tolerance;
pub mod value;

pub use tolerance::Tolerance;
