//! The body of `/v1/completions` as it came.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A body as it came: the prompt unread, since it is large, the rest as values.
pub(crate) struct Body {
    pub(super) prompt: Option<Box<RawValue>>,
    pub(super) rest: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Body;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
                let mut body = Body { prompt: None, rest: Map::new() };
                while let Some(key) = map.next_key::<String>()? {
                    if key == "prompt" {
                        body.prompt = Some(map.next_value()?);
                    } else {
                        body.rest.insert(key, map.next_value()?);
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(Read)
    }
}
