//! How a refusal is worded, everywhere: the field, its value and what is allowed, on one line and of bounded length.
#![forbid(unsafe_code)]

mod field_error;
pub mod shown;

pub use field_error::FieldError;
