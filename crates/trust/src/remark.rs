//! What a run is told that does not end it.

use std::fmt;

/// One sentence for the run's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A remark that needs no action.
    Note(String),
    /// A remark on something that is wrong.
    Warning(String),
}

/// Takes remarks as they are made.
pub struct RemarkSink(Box<dyn Fn(Remark) + Send + Sync>);

impl RemarkSink {
    /// Hands every remark to this function.
    pub fn new(take: impl Fn(Remark) + Send + Sync + 'static) -> Self {
        Self(Box::new(take))
    }

    pub(crate) fn note(&self, message: String) {
        (self.0)(Remark::Note(message));
    }

    pub(crate) fn warn(&self, message: String) {
        (self.0)(Remark::Warning(message));
    }
}

impl fmt::Debug for RemarkSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemarkSink")
    }
}
