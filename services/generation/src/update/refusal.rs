//! How a folder of weights is refused.

use std::fmt::Display;

use evenkeel_proto::FieldError;

/// The field of a request that names the folder.
pub(super) const FIELD: &str = "weights.path.path";

pub(super) fn refused(path: &str, what: &dyn Display, allowed: &str) -> FieldError {
    FieldError::new(FIELD, format_args!("`{path}`, {what}"), allowed)
}
