//! What all parts of a run are made from.

use std::sync::Arc;

use evenkeel_run::RunDirectory;

use crate::clients::Services;
use crate::settings::LoopSettings;
use crate::text::Tokenizer;

/// The services of a run, its settings, its directory, and what is known of its model.
pub(super) struct RunContext {
    pub(super) services: Arc<Services>,
    pub(super) settings: Arc<LoopSettings>,
    pub(super) directory: RunDirectory,
    pub(super) tokenizer: Tokenizer,
    pub(super) vocabulary_size: u32,
}

impl RunContext {
    pub(super) fn services(&self) -> Arc<Services> {
        Arc::clone(&self.services)
    }
}
