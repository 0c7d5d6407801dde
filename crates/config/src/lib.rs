//! Settings: defaults, then TOML files, then environment (`EVENKEEL__SECTION__KEY`), then `--set section.key=value`;
//! the later wins.
//!
//! Nothing is ignored silently. An unknown key is refused with the nearest known one or, if it is another program's,
//! with what it is here; a value of the wrong type with what is allowed. Both errors name where the setting was
//! written.
#![forbid(unsafe_code)]

mod byte_size;
mod depth;
mod deserializer;
mod document;
mod duration;
mod error;
mod loader;
mod merged;
mod other_names;
mod overrides;
mod ranges;
mod refusal;
mod threads;
mod wording;

pub use byte_size::ByteSize;
pub use document::{parse, parse_file, to_table, to_toml};
pub use duration::{HumanDuration, OptionalHumanDuration, human};
pub use error::ConfigError;
pub use loader::{Loaded, Loader};
pub use other_names::OtherNames;
pub use ranges::{at_least_1ms, at_least_one};
pub use threads::resolved_threads;
pub use wording::{misspelt, nearest};

use evenkeel_errors::FieldError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Prefix of the environment variables that are settings.
pub const ENVIRONMENT_PREFIX: &str = "EVENKEEL__";

/// A tree of settings. `Default` provides the values of keys that no layer sets; the structs should carry
/// `#[serde(default, deny_unknown_fields)]`.
pub trait Settings: Serialize + DeserializeOwned + Default {
    /// Keys of other programs that are refused with what they are here.
    const OTHER_NAMES: &'static [OtherNames] = &[];

    /// Refuses values of the right type that are out of range or contradict each other. Field paths are relative to
    /// `self`.
    fn validate(&self) -> Result<(), FieldError> {
        Ok(())
    }
}
