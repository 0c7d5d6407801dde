//! `run.rollouts`: of how many groups a training step keeps its samples.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const ALLOWED: &str = "\"all\", \"off\", or a number of groups a step, at least 1";

/// Groups of a step whose samples are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeptRollouts {
    /// All, also those that were filtered.
    #[default]
    All,
    /// A number of groups, chosen by their prompts alone.
    Groups(u32),
    /// No samples are kept.
    Off,
}

impl Serialize for KeptRollouts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Groups(groups) => serializer.serialize_u32(*groups),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for KeptRollouts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeptVisitor;

        impl Visitor<'_> for KeptVisitor {
            type Value = KeptRollouts;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str(ALLOWED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<KeptRollouts, E> {
                match (text, text.parse::<u64>()) {
                    ("all", _) => Ok(KeptRollouts::All),
                    ("off", _) => Ok(KeptRollouts::Off),
                    // As an environment variable has it.
                    (_, Ok(groups)) => self.visit_u64(groups),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, groups: i64) -> Result<KeptRollouts, E> {
                u64::try_from(groups)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(groups), &self))
                    .and_then(|groups| self.visit_u64(groups))
            }

            fn visit_u64<E: Error>(self, groups: u64) -> Result<KeptRollouts, E> {
                let refused = || E::invalid_value(Unexpected::Unsigned(groups), &self);
                u32::try_from(groups).ok().filter(|groups| *groups > 0).map(KeptRollouts::Groups).ok_or_else(refused)
            }
        }

        deserializer.deserialize_any(KeptVisitor)
    }
}

impl JsonSchema for KeptRollouts {
    fn schema_name() -> Cow<'static, str> {
        "KeptRollouts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string", "enum": ["all", "off"] }, { "type": "integer", "minimum": 1 }] })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    #[test]
    fn rollouts_are_all_none_or_a_number_of_groups() {
        let read = |value: &str| load(&format!("[run]\nrollouts = {value}")).map(|settings| settings.run.rollouts);
        assert_eq!(load("").unwrap().run.rollouts, KeptRollouts::All);
        assert_eq!(read("\"all\""), Ok(KeptRollouts::All));
        assert_eq!(read("\"off\""), Ok(KeptRollouts::Off));
        assert_eq!(read("4"), Ok(KeptRollouts::Groups(4)));
        assert_eq!(read("\"4\""), Ok(KeptRollouts::Groups(4)));
        for refused in ["0", "-1", "\"some\"", "1.5", "5000000000"] {
            let error = read(refused).unwrap_err();
            assert!(error.contains("run.rollouts") && error.contains(ALLOWED), "{error}");
        }
    }

    #[test]
    fn every_kept_value_is_read_back_as_it_is_written() {
        for kept in [KeptRollouts::All, KeptRollouts::Groups(7), KeptRollouts::Off] {
            let written = serde_json::to_value(kept).unwrap();
            assert_eq!(serde_json::from_value::<KeptRollouts>(written).unwrap(), kept);
        }
    }
}
