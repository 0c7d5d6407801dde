//! Sizes as people write them: `512KiB`, `64MiB`, `2GiB`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a setting of this kind may be.
pub(crate) const ALLOWED: &str = "a size with its unit, such as 512KiB, 64MiB or 2GiB";

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size in bytes.
    pub const fn b(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in KiB (1,024 bytes).
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// A size in MiB (1,024 KiB).
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// A size in GiB (1,024 MiB).
    pub const fn gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// In bytes, or the largest number where the address space is smaller.
    pub fn bytes_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    /// In the largest unit that needs no fraction.
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| self.0 > 0 && self.0.trailing_zeros() >= *shift) {
            Some((shift, unit)) => write!(formatter, "{}{unit}", self.0 >> shift),
            None => write!(formatter, "{}B", self.0),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str(ALLOWED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                let refused = || E::invalid_value(Unexpected::Str(text), &self);
                // A bare number would be taken for bytes; a user who meant another unit should learn of it.
                if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
                    return Err(refused());
                }
                bytesize::ByteSize::from_str(text).map(|size| ByteSize(size.as_u64())).map_err(|_| refused())
            }
        }

        deserializer.deserialize_str(SizeVisitor)
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "size" })
    }
}
