//! The protocols that engines may speak, by name.

use evenkeel_proto::FieldError;

use super::{EngineProtocol, vllm};
use crate::settings::GenerationSettings;

/// The protocols of this crate. The first one is the default.
pub const PROTOCOLS: &[EngineProtocol] = &[vllm::PROTOCOL];

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
