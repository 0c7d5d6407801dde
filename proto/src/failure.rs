//! Failures of single items.

use crate::FieldError;
use crate::shown::{MAX_MESSAGE_CHARS, one_line};
use crate::v1::{Failure, FailureCode};

impl Failure {
    /// A failure with its machine-readable reason (UPPER_SNAKE_CASE) and a sentence for people.
    pub fn new(code: FailureCode, reason: impl Into<String>, message: impl Into<String>) -> Self {
        let message = one_line(&message.into(), MAX_MESSAGE_CHARS).into_owned();
        Self { code: code.into(), reason: reason.into(), message, ..Self::default() }
    }

    /// Whether the same item may succeed elsewhere or later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.code(), FailureCode::ResourceExhausted | FailureCode::Unavailable)
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        let message = error.to_string();
        Self { violations: vec![error.into()], ..Self::new(FailureCode::InvalidArgument, "INVALID_FIELD", message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_server_may_do_is_tried_again() {
        assert!(Failure::new(FailureCode::ResourceExhausted, "QUEUE_FULL", "").is_retryable());
        assert!(Failure::new(FailureCode::Unavailable, "DRAINING", "").is_retryable());
        assert!(!Failure::from(FieldError::missing("sampling", "settings")).is_retryable());
    }
}
