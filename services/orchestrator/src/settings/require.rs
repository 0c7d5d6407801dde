//! A condition of a setting, and what is said where it does not hold.

use evenkeel_proto::FieldError;

pub(super) fn require(
    field: &str,
    value: impl std::fmt::Display,
    holds: bool,
    allowed: impl Into<String>,
) -> Result<(), FieldError> {
    if holds { Ok(()) } else { Err(FieldError::new(field, value, allowed)) }
}
