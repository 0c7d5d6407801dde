//! Why a value was refused, until it is put into words.

use std::fmt::Display;

use figment::error::Kind;
use serde::de::{self, Expected, Unexpected};

/// The error of figment, which the loader puts into words. Boxed, since it is returned through every level of the
/// settings.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Refusal(pub(crate) Box<figment::Error>);

impl Refusal {
    fn new(kind: Kind) -> Self {
        Self(Box::new(kind.into()))
    }

    /// An error of the part `key`.
    #[cold]
    pub(crate) fn within(mut self, key: &str) -> Self {
        self.0.path.insert(0, key.to_owned());
        self
    }
}

impl de::Error for Refusal {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(Kind::Message(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(Kind::InvalidType(found.into(), expected.to_string()))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(Kind::InvalidValue(found.into(), expected.to_string()))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(Kind::InvalidLength(length, expected.to_string()))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownVariant(variant.to_owned(), expected))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownField(field.to_owned(), expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Kind::MissingField(field.into()))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(Kind::DuplicateField(field))
    }
}
