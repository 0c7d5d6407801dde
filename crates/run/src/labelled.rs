//! Enumerations in files, by their names.

use evenkeel_proto::Label;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of an enumeration, which files and pages have by its name. A name that this program does not know, as a
/// newer one may write it, is kept as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Labelled<E> {
    Known(E),
    /// A name that stands for none.
    Unknown(String),
}

impl<E: Label> Labelled<E> {
    /// The value; `None` for an unknown name.
    pub fn known(&self) -> Option<E> {
        match self {
            Self::Known(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }

    pub fn label(&self) -> &str {
        match self {
            Self::Known(value) => value.label(),
            Self::Unknown(label) => label,
        }
    }
}

impl<E: Label> From<E> for Labelled<E> {
    fn from(value: E) -> Self {
        Self::Known(value)
    }
}

impl<E: Label> Serialize for Labelled<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label())
    }
}

impl<'de, E: Label> Deserialize<'de> for Labelled<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let label = String::deserialize(deserializer)?;
        Ok(E::from_label(&label).map_or_else(|| Self::Unknown(label), Self::Known))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::RunState;

    use super::*;

    #[test]
    fn values_are_written_by_name_and_unknown_names_stay() {
        let written = serde_json::to_string(&Labelled::from(RunState::WarmStart)).unwrap();
        assert_eq!(written, "\"warm_start\"");
        let read = |text: &str| serde_json::from_str::<Labelled<RunState>>(text).unwrap();
        assert_eq!(read(&written).known(), Some(RunState::WarmStart));
        let newer = read("\"paused\"");
        assert_eq!((newer.known(), newer.label()), (None, "paused"));
        assert_eq!(serde_json::to_string(&newer).unwrap(), "\"paused\"");
    }
}
