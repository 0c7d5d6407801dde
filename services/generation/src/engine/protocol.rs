//! The protocols that engines may speak, by name.

use std::fmt;

use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ServerAddress;

use super::{EngineClient, EngineClientError, vllm};
use crate::error::GenerationError;
use crate::settings::GenerationSettings;

/// The protocols of this crate. The first one is the default.
pub const PROTOCOLS: &[EngineProtocol] = &[vllm::PROTOCOL];

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

/// The protocol that the settings ask for.
pub(crate) fn find<'a>(
    protocols: &'a [EngineProtocol],
    settings: &GenerationSettings,
) -> Result<&'a EngineProtocol, FieldError> {
    let wanted = settings.engine.protocol.as_deref();
    let found = protocols.iter().find(|protocol| wanted.is_none_or(|wanted| wanted == protocol.name));
    found.ok_or_else(|| {
        let names = protocols.iter().map(|protocol| format!("{:?}", protocol.name)).collect::<Vec<_>>().join(", ");
        FieldError::quoted("engine.protocol", wanted.unwrap_or_default(), names)
    })
}
