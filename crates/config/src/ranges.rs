//! Lower bounds that many settings share.

use std::time::Duration;

use evenkeel_errors::FieldError;

use crate::human;

/// Refuses the first count that is zero.
///
/// # Errors
/// The field, by its name.
pub fn at_least_one(fields: &[(&str, u64)]) -> Result<(), FieldError> {
    match fields.iter().find(|(_, value)| *value == 0) {
        Some((field, _)) => Err(FieldError::new(*field, 0, "at least 1")),
        None => Ok(()),
    }
}

/// Refuses the first duration below a millisecond, the unit of deadlines in messages.
///
/// # Errors
/// The field, by its name.
pub fn at_least_1ms(fields: &[(&str, Duration)]) -> Result<(), FieldError> {
    match fields.iter().find(|(_, value)| *value < Duration::from_millis(1)) {
        Some((field, value)) => Err(FieldError::new(*field, human(*value), "at least 1ms")),
        None => Ok(()),
    }
}
