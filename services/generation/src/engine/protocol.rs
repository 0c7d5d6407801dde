//! What a protocol of engines is: a name, and what makes its clients.

use std::fmt;

use evenkeel_rpc::client::ServerAddress;

use super::{EngineClient, EngineClientError};
use crate::error::GenerationError;
use crate::settings::GenerationSettings;

/// Makes the client of the engine at an address. Sends nothing yet.
pub type MakeClient = Box<dyn Fn(&ServerAddress) -> Result<Box<dyn EngineClient>, EngineClientError> + Send + Sync>;

/// A way to speak to engines.
#[derive(Clone, Copy)]
pub struct EngineProtocol {
    /// The value of `generation.engine.protocol`.
    pub name: &'static str,
    /// Reads the files that the settings name. Fails where they cannot be used.
    pub open: fn(&GenerationSettings) -> Result<MakeClient, GenerationError>,
}

impl fmt::Debug for EngineProtocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}
