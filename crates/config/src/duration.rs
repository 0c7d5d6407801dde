//! Durations as people write them: `250ms`, `10s`, `1h 30m`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

/// What a setting of this kind may be.
pub(crate) const ALLOWED: &str = "a duration with its unit, such as 250ms, 10s or 1h 30m";

/// A duration as settings write it, for messages about them.
pub fn human(duration: Duration) -> impl fmt::Display {
    humantime::format_duration(duration)
}

/// How a setting that is a [`Duration`] is read and written: `#[serde(with = "HumanDuration")]`.
#[derive(Debug)]
pub struct HumanDuration;

impl HumanDuration {
    /// Writes the duration with its units; nothing is rounded.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*duration))
    }

    /// Reads a text such as `10s`.
    ///
    /// # Errors
    ///
    /// A text that is not a duration, and a number, which has no unit.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "duration" })
    }
}

/// The `serde(with)` module of an `Option<Duration>`: `#[serde(with = "OptionalHumanDuration")]`, with a default where
/// it may be absent.
#[derive(Debug)]
pub struct OptionalHumanDuration;

impl OptionalHumanDuration {
    /// Writes the duration with its units.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => HumanDuration::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a text such as `10s`.
    ///
    /// # Errors
    ///
    /// As for [`HumanDuration`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        deserializer.deserialize_option(OptionalVisitor)
    }
}

impl JsonSchema for OptionalHumanDuration {
    fn schema_name() -> Cow<'static, str> {
        "OptionalDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "null"], "format": "duration" })
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        humantime::parse_duration(text).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

struct OptionalVisitor;

impl<'de> Visitor<'de> for OptionalVisitor {
    type Value = Option<Duration>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(ALLOWED)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        HumanDuration::deserialize(deserializer).map(Some)
    }
}
