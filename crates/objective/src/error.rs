//! Errors in settings and input: the field, its location in the step, its value and what is allowed.

use std::fmt::{self, Display};

use evenkeel_errors::FieldError;

/// The location of a value in a step; a part is absent if it does not apply or is not known yet.
///
/// Functions that see a single response do not know its indices; their caller adds them with [`Error::at`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Location {
    /// Index of the group in the step.
    pub group: Option<usize>,
    /// Index of the response in its group.
    pub response: Option<usize>,
    /// Index of the token in its response.
    pub token: Option<usize>,
}

impl Location {
    /// A token of an unknown response.
    pub(crate) fn token(token: usize) -> Self {
        Self { token: Some(token), ..Self::default() }
    }

    /// A response of an unknown group.
    pub(crate) fn response(response: usize) -> Self {
        Self { response: Some(response), ..Self::default() }
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("group", self.group), ("response", self.response), ("token", self.token)];
        let mut separator = " of ";
        for (name, index) in parts {
            if let Some(index) = index {
                write!(f, "{separator}{name} {index}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// Why settings or input are refused. Nothing in this crate panics on invalid input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An unknown name.
    #[error("{field} is '{value}': unknown, allowed: {allowed}")]
    UnknownName {
        /// The setting.
        field: &'static str,
        /// The value.
        value: String,
        /// Every name, with its aliases in brackets.
        allowed: String,
    },
    /// A name that another system gives to a formula that this crate does not have.
    #[error("{field} is '{value}': {meaning}; use {instead}")]
    OtherFormula {
        /// The setting.
        field: &'static str,
        /// The value.
        value: String,
        /// What that system computes under the name.
        meaning: &'static str,
        /// The closest equivalent in this crate.
        instead: &'static str,
    },
    /// A setting outside its range.
    #[error(transparent)]
    Setting(FieldError),
    /// A value of the input outside its range.
    #[error("{field}{location} is {value}, allowed: {allowed}")]
    Input {
        /// The name of the value.
        field: &'static str,
        /// Where it is.
        location: Location,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Slices that describe the same thing with different lengths.
    #[error("{field}{location} has length {length}, allowed: {expected}, the length of {reference}")]
    Length {
        /// The slice.
        field: &'static str,
        /// The location of its owner.
        location: Location,
        /// Its length.
        length: usize,
        /// The length that it must have.
        expected: usize,
        /// The slice that fixes the length.
        reference: &'static str,
    },
}

impl Error {
    /// The same error with the indices of its group and response; an index that is already set is kept.
    #[must_use]
    pub fn at(mut self, group: usize, response: Option<usize>) -> Self {
        if let Self::Input { location, .. } | Self::Length { location, .. } = &mut self {
            location.group = location.group.or(Some(group));
            location.response = location.response.or(response);
        }
        self
    }

    pub(crate) fn setting(field: &'static str, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::Setting(FieldError::new(field, value, allowed))
    }

    pub(crate) fn input(field: &'static str, location: Location, value: impl ToString, allowed: impl ToString) -> Self {
        Self::Input { field, location, value: value.to_string(), allowed: allowed.to_string() }
    }
}

/// Refuses a slice whose length differs from that of the slice that it belongs to.
pub(crate) fn same_length(
    field: &'static str,
    length: usize,
    reference: &'static str,
    expected: usize,
) -> Result<(), Error> {
    if length == expected {
        return Ok(());
    }
    Err(Error::Length { field, location: Location::default(), length, expected, reference })
}
