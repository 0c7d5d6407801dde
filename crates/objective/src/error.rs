//! Errors in settings and input: the location in the mini-batch, the field, its value and what is allowed.

use std::fmt::{self, Display};

use evenkeel_errors::FieldError;

/// The location of a value in a mini-batch; a part is absent if it does not apply or is not known yet.
///
/// Functions that see a single response do not know its indices; their caller adds them with [`Error::at`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Location {
    /// Index of the group in the mini-batch.
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

/// The prefix of a message: `group 3, response 5, token 117: `, or nothing.
impl Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("group", self.group), ("response", self.response), ("token", self.token)];
        let known: Vec<String> =
            parts.into_iter().filter_map(|(name, index)| index.map(|index| format!("{name} {index}"))).collect();
        if known.is_empty() { Ok(()) } else { write!(f, "{}: ", known.join(", ")) }
    }
}

/// Why settings or input are refused. Nothing in this crate panics on invalid input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting or a value of the input that is not allowed.
    #[error("{location}{field}")]
    Refused {
        /// Where it is in the mini-batch; settings have no location.
        location: Location,
        /// The field, its value and what is allowed.
        field: FieldError,
    },
    /// A name that another system gives to a formula that this crate does not have.
    #[error("{field} is '{value}': {meaning}; use {instead}")]
    OtherFormula {
        /// The setting that has the name.
        field: &'static str,
        /// The name as it was written.
        value: String,
        /// What that system computes under the name.
        meaning: &'static str,
        /// The closest equivalent in this crate.
        instead: &'static str,
    },
}

impl From<FieldError> for Error {
    fn from(field: FieldError) -> Self {
        Self::Refused { location: Location::default(), field }
    }
}

impl Error {
    /// A refusal whose location is not known yet, or that has none.
    pub fn refused(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        FieldError::new(field, value, allowed).into()
    }

    /// Adds the indices of the group and the response; an index that is already set is kept.
    #[must_use]
    pub fn at(self, group: usize, response: Option<usize>) -> Self {
        self.within(Location { group: Some(group), response, token: None })
    }

    /// Adds the indices of `outer`; an index that is already set is kept.
    #[must_use]
    pub(crate) fn within(mut self, outer: Location) -> Self {
        if let Self::Refused { location, .. } = &mut self {
            location.group = location.group.or(outer.group);
            location.response = location.response.or(outer.response);
            location.token = location.token.or(outer.token);
        }
        self
    }
}

/// The refused field, without its location in the step.
impl From<Error> for FieldError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { field, .. } => field,
            Error::OtherFormula { field, value, meaning, instead } => {
                Self::new(field, format_args!("'{value}' ({meaning})"), instead)
            }
        }
    }
}

/// Refuses a slice whose length differs from that of the slice that it belongs to.
///
/// # Errors
/// The length, with that of `reference` as the one allowed.
pub fn validate_length(field: &str, length: usize, reference: &str, expected: usize) -> Result<(), Error> {
    if length == expected {
        return Ok(());
    }
    Err(Error::refused(format!("length of {field}"), length, format!("{expected}, the length of {reference}")))
}
