//! What can be wrong with settings and input, said so that the reader can put it right: the field, where it stands,
//! what it was and what it may be.

use std::fmt;

/// Where in a step a value stands; each part is absent where it does not apply or is not known yet.
///
/// Functions that see one response alone do not know its place; their caller adds it with [`Error::at`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Index of the group in the step.
    pub group: Option<usize>,
    /// Index of the response in its group.
    pub response: Option<usize>,
    /// Index of the token in its response.
    pub token: Option<usize>,
}

impl Place {
    /// A token whose response is not known here.
    pub(crate) fn token(token: usize) -> Self {
        Self { token: Some(token), ..Self::default() }
    }

    /// A response whose group is not known here.
    pub(crate) fn response(response: usize) -> Self {
        Self { response: Some(response), ..Self::default() }
    }
}

impl fmt::Display for Place {
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
    /// A name that nobody uses for this field.
    #[error("{field} is '{value}': unknown; allowed: {allowed}")]
    UnknownName {
        /// The setting.
        field: &'static str,
        /// What was written.
        value: String,
        /// Every name, with its aliases in brackets.
        allowed: String,
    },
    /// A name that another system gives to a formula that is not one of these.
    #[error("{field} is '{value}': {meaning}; use {instead}")]
    OtherFormula {
        /// The setting.
        field: &'static str,
        /// What was written.
        value: String,
        /// What that system computes under the name.
        meaning: &'static str,
        /// What comes closest here.
        instead: &'static str,
    },
    /// A setting outside its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A value of the input outside its range.
    #[error("{field}{place} is {value}: allowed is {allowed}")]
    Input {
        /// What the value is.
        field: &'static str,
        /// Where it stands.
        place: Place,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// Slices that describe the same thing with different lengths.
    #[error("{field}{place} has length {length}: allowed is {expected}, the length of {reference}")]
    Length {
        /// The slice.
        field: &'static str,
        /// Whose slice it is.
        place: Place,
        /// Its length.
        length: usize,
        /// The length that it must have.
        expected: usize,
        /// The slice that fixes the length.
        reference: &'static str,
    },
}

impl Error {
    /// The same error with the place of the response that it is about; a part that is known already stays.
    #[must_use]
    pub fn at(mut self, group: usize, response: Option<usize>) -> Self {
        if let Self::Input { place, .. } | Self::Length { place, .. } = &mut self {
            place.group = place.group.or(Some(group));
            place.response = place.response.or(response);
        }
        self
    }

    pub(crate) fn setting(field: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        Self::Setting { field, value: value.to_string(), allowed: allowed.to_string() }
    }

    pub(crate) fn input(field: &'static str, place: Place, value: impl ToString, allowed: impl ToString) -> Self {
        Self::Input { field, place, value: value.to_string(), allowed: allowed.to_string() }
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
    Err(Error::Length { field, place: Place::default(), length, expected, reference })
}
