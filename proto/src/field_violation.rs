//! Field errors as messages.

use evenkeel_errors::FieldError;

use crate::v1;

impl From<FieldError> for v1::FieldViolation {
    fn from(error: FieldError) -> Self {
        Self { field: error.field, value: error.value, allowed: error.allowed }
    }
}

impl From<v1::FieldViolation> for FieldError {
    fn from(violation: v1::FieldViolation) -> Self {
        Self { field: violation.field, value: violation.value, allowed: violation.allowed }
    }
}
