//! The common form of refusals: the field, its value and what is allowed, on one line of bounded length.
#![forbid(unsafe_code)]

pub mod engine_advice;
mod field_error;
pub mod shown;

pub use field_error::{FieldError, demand};
