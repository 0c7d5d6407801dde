//! Settings: defaults, then TOML files, then environment (`EVENKEEL__SECTION__KEY`), then `--set section.key=value`;
//! the later wins.
//!
//! Nothing is ignored silently. An unknown key is refused with the nearest known one, a value of the wrong type with
//! what is allowed, and both errors name where the setting was written.
#![forbid(unsafe_code)]

mod byte_size;
mod depth;
mod deserializer;
mod document;
mod duration;
mod error;
mod loader;
mod merged;
mod overrides;
mod ranges;
mod refusal;
mod renamed;
mod threads;
mod wording;

pub use byte_size::ByteSize;
pub use document::{parse, parse_file, to_table, to_toml};
pub use duration::{HumanDuration, OptionalHumanDuration, human};
pub use error::ConfigError;
pub use loader::{Loaded, Loader};
pub use ranges::{at_least_1ms, at_least_one};
pub use renamed::Renamed;
pub use threads::resolved_threads;
pub use wording::nearest;

use evenkeel_errors::FieldError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Prefix of the environment variables that are settings.
pub const ENVIRONMENT_PREFIX: &str = "EVENKEEL__";

/// A tree of settings. Its `Default` provides the values of keys that no layer sets; its structs should carry
/// `#[serde(default, deny_unknown_fields)]`.
pub trait Settings: Serialize + DeserializeOwned + Default {
    /// Keys that are refused as unknown ones, with what they are called here.
    const RENAMED: Renamed = Renamed::NONE;

    /// Refuses values of the right type that are out of range or contradict each other. Field paths are relative to
    /// `self`.
    fn validate(&self) -> Result<(), FieldError> {
        Ok(())
    }
}
