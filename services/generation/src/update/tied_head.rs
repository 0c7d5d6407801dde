//! Engines that keep the head of a tied model when they reload.
//!
//! An engine may load only the tensors that a file has. That of a tied model has none for the head, and an engine that
//! has packed the head for its matrix products goes on with the packed copy of the embedding that it was started with.

use evenkeel_model_folder::{ConfigFile, Folder, HeadForm};
use evenkeel_proto::FieldError;

use crate::engine::{EngineClientError, EngineInfo};

/// Refuses to load a folder without a tensor for the head into an engine that is not known to take it.
pub(super) async fn check(path: &str, info: Option<&EngineInfo>) -> Result<(), EngineClientError> {
    if info.is_none_or(|info| info.takes_tied_head) {
        return Ok(());
    }
    let folder = Folder::new(path);
    let read = tokio::task::spawn_blocking(move || ConfigFile::read(&folder).map(|config| HeadForm::of(config.json())));
    match read.await.map_err(EngineClientError::ReadModel)? {
        Ok(HeadForm::Tied) => {
            let allowed = "false: this engine would keep its first head; publish with the head written out \
                (PublishRequest.write_out_head), and start the engine on the copy that `evenkeel model untie` makes";
            Err(EngineClientError::Incompatible(FieldError::new("tie_word_embeddings", true, allowed)))
        }
        // A folder that only the engine can read is the engine's to refuse.
        Ok(_) | Err(_) => Ok(()),
    }
}
