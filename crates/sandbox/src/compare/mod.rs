//! Compares what a program produced with what a test expects, by LiveCodeBench's exact rules. This happens on the host, out of reach of any
//! program.
//!
//! [`text`] compares standard output: stripped lines, equal as text or as exact decimals. [`value`] compares return values: Python's own
//! equality between the returned value and the expected JSON.

mod decimal;
mod digits;
pub mod int;
pub mod json;
pub mod marshal;
pub mod text;
pub mod value;
