//! A [`ServiceError`] as a gRPC status: `ErrorInfo`, `BadRequest` and `RetryInfo` in headers of limited size.

use std::collections::HashMap;

use evenkeel_proto::shown::{MAX_MESSAGE_CHARS, one_line};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use super::{Reason, ServiceError};

/// Largest size of a message in a header, where most bytes other than letters and digits are escaped as three.
const MAX_MESSAGE_BYTES: usize = 5_000;
/// Largest size of refused fields in a header, before base64. Clients accept 16 KiB of headers in all and close the
/// connection beyond.
const MAX_DETAIL_BYTES: usize = 3_000;

/// The domain of every reason.
pub const ERROR_DOMAIN: &str = "evenkeel.v1";

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let mut details = ErrorDetails::with_error_info(error.reason().as_str(), ERROR_DOMAIN, HashMap::new());
        match &error {
            ServiceError::Invalid(errors) => {
                let mut left = MAX_DETAIL_BYTES;
                for refused in errors {
                    let description = format!("is {}, allowed: {}", refused.value, refused.allowed);
                    let Some(rest) = left.checked_sub(refused.field.len() + description.len()) else { break };
                    left = rest;
                    details.add_bad_request_violation(&refused.field, description);
                }
            }
            ServiceError::QueueFull { retry_after: Some(after), .. } => {
                details.set_retry_info(Some(*after));
            }
            _ => {}
        }
        let message = error.to_string();
        let message = one_line(&message, MAX_MESSAGE_CHARS);
        Self::with_error_details(error.code(), cut_for_header(&message), details)
    }
}

/// The text cut to what fits into a header with everything else.
fn cut_for_header(text: &str) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, character)| {
        let plain = character.is_ascii_graphic() && !r##""#%<>`?{}"##.contains(*character);
        bytes += if plain { 1 } else { 3 * character.len_utf8() };
        bytes > MAX_MESSAGE_BYTES
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The reason of a status of one of our servers. `None` if the status came from elsewhere.
pub fn reason_of(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN).map(|info| info.reason)
}

/// Whether a status of one of our servers has that reason.
pub fn has_reason(status: &Status, reason: Reason) -> bool {
    reason_of(status).is_some_and(|found| found == reason.as_str())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use evenkeel_proto::FieldError;
    use tonic::Code;

    use super::super::Unit;
    use super::*;

    #[test]
    fn a_refused_field_becomes_a_field_violation() {
        let error = FieldError::new("samples[1].raw_reward", f64::NAN, "a finite number");
        let status = Status::from(ServiceError::from(error));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "samples[1].raw_reward is NaN, allowed: a finite number");
        let request = status.get_details_bad_request().unwrap();
        assert_eq!(request.field_violations[0].field, "samples[1].raw_reward");
        assert_eq!(request.field_violations[0].description, "is NaN, allowed: a finite number");
        assert_eq!(reason_of(&status).as_deref(), Some("INVALID_FIELD"));
    }

    #[test]
    fn a_full_queue_carries_the_delay_before_a_retry() {
        let error = ServiceError::QueueFull {
            queue: "verify",
            unit: Unit::Items,
            capacity: 8,
            retry_after: Some(Duration::from_millis(50)),
        };
        assert_eq!(error.failure().retry_after_ms, Some(50));
        let status = Status::from(error);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.message(), "queue `verify` is full, its capacity is 8 items");
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_full_disk_is_not_a_defect() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let status = Status::from(ServiceError::file("writing model.safetensors", &io::Error::from(kind)));
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(reason_of(&status).as_deref(), Some("DISK_FULL"));
        }
        let other = ServiceError::file("writing x", &io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(other.code(), Code::Internal);
    }

    #[test]
    fn messages_stay_on_one_line_and_are_cut() {
        let what = format!("run `a\n\x1b[31m{}`", "x".repeat(1 << 20));
        let status = Status::from(ServiceError::NotFound { what: what.clone() });
        assert!(status.message().starts_with(r"run `a\n\u{1b}[31mxxx"), "{}", status.message());
        assert!(status.message().chars().count() < 2_100);
        assert_eq!(ServiceError::NotFound { what }.failure().message, status.message());
    }

    #[test]
    fn no_status_breaks_the_connection_by_the_size_of_its_headers() {
        let long = |text: &str| FieldError::new(text.repeat(1_000), text.repeat(10_000), text.repeat(10_000));
        let errors = [
            ServiceError::Invalid(vec![long("答"); 1_000]),
            ServiceError::Invalid(vec![long("a%\""); 1_000]),
            ServiceError::NotFound { what: "\u{1f600}".repeat(100_000) },
            ServiceError::Internal { message: "\n\x1b".repeat(100_000) },
        ];
        for error in errors {
            let response: http::Response<()> = Status::from(error).into_http();
            // As HTTP/2 counts them.
            let size: usize =
                response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(size < 16 << 10, "{size} bytes");
        }
    }

    #[test]
    fn a_status_from_elsewhere_has_no_reason() {
        assert_eq!(reason_of(&Status::unavailable("proxy")), None);
    }
}
