//! Is what a program gave what the test expects? LiveCodeBench's rules to the letter, on the host, where no program reaches.
//!
//! [`text`] is for programs that write: stripped lines, equal as text or as exact decimals. [`value`] is for functions that return:
//! Python's own equality between the returned value and the expected JSON.

mod decimal;
mod digits;
pub mod int;
pub mod json;
pub mod marshal;
pub mod text;
pub mod value;
