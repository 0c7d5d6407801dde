//! What can be wrong with settings and input: the field, where it is in the step, its value and what is allowed.

use std::fmt;

/// Where in a step a value is; each part is absent where it does not apply or is not known yet.
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

impl fmt::Display for Location {
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

/// Why settings or input are refused. Nothing in this crate panics on bad input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for nothing.
    #[error("{field} is '{value}': unknown; allowed: {allowed}")]
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
    #[error("{field} is {value}: allowed is {allowed}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A value of the input outside its range.
    #[error("{field}{location} is {value}: allowed is {allowed}")]
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
    #[error("{field}{location} has length {length}: allowed is {expected}, the length of {reference}")]
    Length {
        /// The slice.
        field: &'static str,
        /// Whose slice it is.
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
    /// The same error with the indices of its group and response; an index that is already known stays.
    #[must_use]
    pub fn at(mut self, group: usize, response: Option<usize>) -> Self {
        if let Self::Input { location, .. } | Self::Length { location, .. } = &mut self {
            location.group = location.group.or(Some(group));
            location.response = location.response.or(response);
        }
        self
    }

    pub(crate) fn setting(field: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        Self::Setting { field, value: value.to_string(), allowed: allowed.to_string() }
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
