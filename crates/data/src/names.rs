//! What a column may be called.

use serde_json::Value;

use crate::Reason;
use crate::row::{DataRow, RowError};

/// Columns that may hold a thing; the first that a row has is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    Usual(&'static [&'static str]),
    Named(String),
}

impl Names {
    /// The usual names where none is given.
    pub(crate) fn or_usual(name: &str, usual: &'static [&'static str]) -> Self {
        if name.is_empty() { Self::Usual(usual) } else { Self::Named(name.to_owned()) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let (usual, named) = match self {
            Self::Usual(names) => (*names, None),
            Self::Named(name) => (&[] as &[&str], Some(name.as_str())),
        };
        usual.iter().copied().chain(named)
    }

    /// The first that a row has, with its value.
    pub(crate) fn find<'a, 'b>(&'a self, row: &'b DataRow) -> Option<(&'a str, &'b Value)> {
        self.iter().find_map(|name| Some((name, row.get(name)?)))
    }

    /// Why a row has none of them.
    pub(crate) fn missing(&self, reason: Reason, what: &str, row: &DataRow) -> RowError {
        let columns = row.columns();
        let message = match self {
            Self::Named(name) => format!("has no field `{name}`, it has: {columns}"),
            Self::Usual(names) => format!("no {what}, allowed: one of {}; it has: {columns}", names.join(", ")),
        };
        RowError::new(reason, message)
    }
}
