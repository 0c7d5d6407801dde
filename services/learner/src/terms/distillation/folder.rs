//! Which folders a teacher may have beside that of the policy.

use std::path::Path;

use evenkeel_model::{Config, ModelError};
use evenkeel_model_folder::{ChatTemplates, Folder, FolderError, Tokenizer};

use super::TEACHER;

/// Refuses a teacher that does not go with the policy.
///
/// # Errors
/// The field of the teacher, its folder, and what is allowed.
pub(super) fn validate(teacher: &Path, policy: &Path) -> Result<(), ModelError> {
    let (own, _) = config(teacher)?;
    let (other, _) = Config::load(policy)?;
    validate_shape(teacher, &own, &other)?;
    validate_text(teacher, policy)
}

/// Reads the configuration of a teacher.
///
/// # Errors
/// The field of the teacher, its folder, and why it is none of a model.
pub(super) fn config(teacher: &Path) -> Result<(Config, serde_json::Value), ModelError> {
    Config::load(teacher).map_err(|error| refused(teacher, format!("the folder of a model ({error})")))
}

/// Refuses a teacher whose vocabulary, control tokens or chat template are not those of the policy.
///
/// # Errors
/// The field of the teacher, its folder, and both digests; a file that cannot be read.
pub(super) fn validate_text(teacher: &Path, policy: &Path) -> Result<(), ModelError> {
    let [own, other] = [teacher, policy].map(Folder::new);
    let unreadable = |error: FolderError| refused(teacher, format!("a folder whose tokenizer can be read ({error})"));
    let digest = |folder: &Folder| -> Result<String, ModelError> {
        let tokenizer = Tokenizer::read(folder).map_err(unreadable)?;
        Ok(tokenizer.map_or_else(|| "no tokenizer".to_owned(), |tokenizer| tokenizer.vocabulary_digest()))
    };
    same(teacher, "the policy's vocabulary and control tokens", digest(&own)?, digest(&other)?)?;
    let template = |folder: &Folder| ChatTemplates::read(folder).map(|found| found.default).map_err(unreadable);
    match (template(&own)?, template(&other)?) {
        (Some(own), Some(other)) => {
            let [own, other] = [own, other].map(evenkeel_host::sha256);
            same(teacher, "the policy's chat template", own, other)
        }
        // A base model has none.
        _ => Ok(()),
    }
}

/// Refuses a teacher that cannot score every sequence of the policy.
///
/// # Errors
/// The field of the teacher, its folder, and both numbers.
pub(super) fn validate_shape(teacher: &Path, own: &Config, policy: &Config) -> Result<(), ModelError> {
    for (name, own, least) in [
        ("vocab_size", own.vocab_size, policy.vocab_size),
        ("max_position_embeddings", own.max_position_embeddings, policy.max_position_embeddings),
    ] {
        if own < least {
            let allowed = format!("a model with {name} of at least {least}, the policy's; this one has {own}");
            return Err(refused(teacher, allowed));
        }
    }
    Ok(())
}

fn same(teacher: &Path, what: &str, own: String, policys: String) -> Result<(), ModelError> {
    if own == policys {
        return Ok(());
    }
    Err(refused(teacher, format!("a model with {what}, {policys}; this one has {own}")))
}

fn refused(teacher: &Path, allowed: String) -> ModelError {
    ModelError::input(TEACHER, teacher.display(), allowed)
}
