//! Enum fields of messages.

/// The value of an enum field of a message. Numbers that this version does not know are refused.
macro_rules! known {
    ($message:ident . $field:ident: $enum:ident) => {
        evenkeel_proto::v1::$enum::try_from($message.$field).map_err(|_| {
            evenkeel_proto::FieldError::new(
                stringify!($field),
                $message.$field,
                concat!("a value of ", stringify!($enum)),
            )
        })?
    };
}

pub(super) use known;
