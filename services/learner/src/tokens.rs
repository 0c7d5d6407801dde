//! Checks of token ids that come from outside.

use std::fmt::Display;

use evenkeel_model::Config;
use evenkeel_proto::FieldError;

/// Refuses an empty list of ids, and ids outside the vocabulary.
///
/// # Errors
/// The list, or the id by its index.
pub(crate) fn validate_ids(config: &Config, field: &str, ids: &[u32]) -> Result<(), FieldError> {
    if ids.is_empty() {
        return Err(FieldError::new(field, "empty", "1 or more token ids"));
    }
    match ids.iter().position(|&id| id as usize >= config.vocab_size) {
        Some(at) => {
            let allowed = format!("0 to vocab_size - 1 = {}", config.vocab_size - 1);
            Err(FieldError::new(format!("{field}[{at}]"), ids[at], allowed))
        }
        None => Ok(()),
    }
}

/// Refuses sequences that are longer than the model's context. `what` says what is counted.
///
/// # Errors
/// The field, with its tokens.
pub(crate) fn validate_length(
    config: &Config,
    field: &str,
    tokens: usize,
    what: impl Display,
) -> Result<(), FieldError> {
    let most = config.max_position_embeddings;
    FieldError::ensure(
        tokens <= most,
        field,
        format_args!("{tokens} tokens{what}"),
        format!("at most max_position_embeddings = {most}"),
    )
}
