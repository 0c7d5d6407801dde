//! Settings `generation.weights`: what happens around a change of weights.

use std::path::PathBuf;

use evenkeel_config::Settings;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::PauseMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_least_one;

/// What happens to samples in work when weights change, where the request does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseSetting {
    /// They end, as ABORTED.
    Abort,
    /// They are finished first, under the old weights.
    #[default]
    Wait,
    /// They go on under the new weights, in a segment of their own.
    Keep,
}

impl PauseSetting {
    /// What a request asks for, or this where it leaves the choice. `None` for a number that is no mode.
    pub(crate) fn or_request(self, mode: i32) -> Option<Self> {
        Some(match PauseMode::try_from(mode).ok()? {
            PauseMode::Unspecified => self,
            PauseMode::Abort => Self::Abort,
            PauseMode::Wait => Self::Wait,
            PauseMode::Keep => Self::Keep,
        })
    }
}

/// How weights are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WeightsConfig {
    /// What happens to samples in work.
    pub pause_mode: PauseSetting,
    /// Whether engines throw their prefix caches away, where the request does not say. Prefixes of other weights are never used in any
    /// case (the version is their salt); throwing them away makes room.
    pub clear_cache: bool,
    /// How long a change may take over all engines, where the request does not say. Includes waiting for samples in work.
    pub update_timeout_ms: u64,
    /// How long samples of a paused engine may take to come back before their connections are cut.
    pub settle_ms: u64,
    /// File whose presence says that a folder of weights is whole. Empty: folders are taken without it.
    pub marker: String,
    /// Whether folders are looked into before an engine is paused. Off where only the engines see them.
    pub check_folder: bool,
    /// Folders that weights may lie below, as the service sees them, with links resolved. Empty: anywhere, which only a server that
    /// listens on a loopback address may be set to; `["/"]` says so for others.
    pub roots: Vec<PathBuf>,
}

impl Default for WeightsConfig {
    fn default() -> Self {
        Self {
            pause_mode: PauseSetting::default(),
            clear_cache: true,
            update_timeout_ms: 600_000,
            settle_ms: 2_000,
            marker: "evenkeel-version.json".to_owned(),
            check_folder: true,
            roots: Vec::new(),
        }
    }
}

impl Settings for WeightsConfig {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_one(&[("update_timeout_ms", self.update_timeout_ms), ("settle_ms", self.settle_ms)])?;
        if self.marker.contains('/') {
            return Err(FieldError::new(
                "marker",
                format_args!("{:?}", self.marker),
                "the name of a file, without a folder",
            ));
        }
        Ok(())
    }
}
