//! `run.rollouts`: of how many groups a training step keeps its samples.

use std::borrow::Cow;
use std::fmt;

use evenkeel_files::Size;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{PolicySamplingSettings, RunSettings};

const ALLOWED: &str = "\"all\", \"off\", or a number of groups a step, at least 1";

/// Bytes of an answer's token in a file of rollouts, compressed; about four of its text before.
const BYTES_PER_TOKEN: f64 = 1.4;
/// The same of its id and log-probability.
const BYTES_PER_LOGGED_TOKEN: f64 = 5.0;
/// Bytes of a sample besides its tokens.
const BYTES_PER_SAMPLE: f64 = 90.0;

/// Of which groups of a step the samples are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeptRollouts {
    /// All, also those that were filtered.
    #[default]
    All,
    /// So many, chosen by their prompts alone.
    Groups(u32),
    /// None.
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

impl RunSettings {
    /// What a run says before it starts of the room that its rollouts take; `None` where none are kept.
    pub fn rollouts_note(&self, sampling: &PolicySamplingSettings) -> Option<String> {
        let tried = sampling.prompts_limit();
        let (which, groups) = match self.rollouts {
            KeptRollouts::Off => return None,
            KeptRollouts::All => ("the samples".to_owned(), tried),
            KeptRollouts::Groups(1) => ("the samples of 1 group".to_owned(), 1),
            KeptRollouts::Groups(groups) => (format!("the samples of {groups} groups"), u64::from(groups).min(tried)),
        };
        let samples = groups as f64 * f64::from(sampling.group_size);
        let per_token = BYTES_PER_TOKEN + if self.rollout_tokens { BYTES_PER_LOGGED_TOKEN } else { 0.0 };
        let a_step = (samples * (f64::from(sampling.max_tokens) * per_token + BYTES_PER_SAMPLE)) as u64;
        let all = a_step.saturating_mul(self.steps);
        let bound = self.rollouts_disk.bytes();
        let thinned = match all > bound {
            true => format!("then old steps are thinned out; whole answers would take some {} in all", size(all)),
            false => format!("of which whole answers take some {}", size(all)),
        };
        Some(format!(
            "{which} of every step are kept in rollouts/ of the run directory: up to some {} a step, at most {} in all \
             (run.rollouts_disk), {thinned}",
            size(a_step),
            self.rollouts_disk
        ))
    }
}

fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use evenkeel_config::ByteSize;

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

    #[test]
    fn the_room_is_said_before_the_run() {
        let sampling = PolicySamplingSettings { max_tokens: 20_480, ..PolicySamplingSettings::default() };
        let note = |run: RunSettings| run.rollouts_note(&sampling);
        let all = note(RunSettings { steps: 5000, ..RunSettings::default() }).unwrap();
        assert!(all.contains("at most 10GiB in all") && all.contains("then old steps are thinned out"), "{all}");
        let few = note(RunSettings { rollouts: KeptRollouts::Groups(2), steps: 5, ..RunSettings::default() }).unwrap();
        assert!(few.starts_with("the samples of 2 groups of every step") && !few.contains("thinned"), "{few}");
        assert_eq!(note(RunSettings { rollouts: KeptRollouts::Off, ..RunSettings::default() }), None);
        assert_eq!(RunSettings::default().rollouts_disk, ByteSize::gib(10));
    }
}
