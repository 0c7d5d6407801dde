//! Settings: defaults, then TOML files, then environment (`EVENKEEL__SECTION__KEY`), then `--set section.key=value`; the later wins.
//!
//! Nothing is ignored silently. A key that no setting has is refused with the nearest one that exists, a value of another type
//! with what is allowed there, and both name the place where they were written.
#![forbid(unsafe_code)]

mod byte_size;
mod duration;
mod error;
mod loader;
mod overrides;
mod renamed;
mod say;

pub use byte_size::ByteSize;
pub use duration::{HumanDuration, OptionalHumanDuration, human};
pub use error::ConfigError;
pub use loader::{Loaded, Loader};

use evenkeel_proto::FieldError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Prefix of the environment variables that are settings.
pub const ENVIRONMENT_PREFIX: &str = "EVENKEEL__";

/// A tree of settings. Its `Default` is what holds where nothing is written; its structs should carry
/// `#[serde(default, deny_unknown_fields)]`.
pub trait Settings: Serialize + DeserializeOwned + Default {
    /// Refuses values that have the right type and still cannot be: ranges, combinations. Field paths are relative to `self`.
    fn validate(&self) -> Result<(), FieldError> {
        Ok(())
    }
}
