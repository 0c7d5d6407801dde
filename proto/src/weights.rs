//! References to weights.

use crate::FieldError;
use crate::v1::{LearnerGetStatusResponse, PathWeights, WeightsRef, weights_ref};

const DIGEST_FORM: &str = "`sha256:` and 64 lower-case hex digits";

/// Refuses a digest that is not written as the protocol writes digests: `sha256:` and 64 lower-case hex digits.
///
/// # Errors
/// The field, by its name.
pub fn validate_digest(field: &str, digest: &str) -> Result<(), FieldError> {
    let is_hex = |digits: &str| digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match digest.strip_prefix("sha256:") {
        Some(digits) if is_hex(digits) => Ok(()),
        _ if digest.is_empty() => Err(FieldError::missing(field, DIGEST_FORM)),
        _ => Err(FieldError::new(field, format_args!("`{digest}`"), DIGEST_FORM)),
    }
}

/// Refuses a number of published versions to keep, 0 for all, that would remove one that an engine may still read.
pub fn validate_kept_versions(field: &str, keep: u32) -> Result<(), FieldError> {
    let allowed = "0 (all), or at least 2, since engines may still read the version before";
    FieldError::ensure(keep != 1, field, keep, allowed)
}

/// The group of [`LearnerGetStatusResponse::tensor_groups`] that a learner of adapters has besides those of its
/// tensors: no adapters at all.
pub const BASE_GROUP: &str = "base";

/// The group of the model's head, if that is trained and not the embedding.
const HEAD_GROUP: &str = "head";

impl LearnerGetStatusResponse {
    /// Whether the learner trains adapters, and not all weights.
    pub fn trains_adapters(&self) -> bool {
        self.has_group(BASE_GROUP)
    }

    /// Whether one of these is beside the model's head.
    pub fn trains_an_adapter_of_the_head(&self) -> bool {
        self.trains_adapters() && self.has_group(HEAD_GROUP)
    }

    fn has_group(&self, name: &str) -> bool {
        self.tensor_groups.iter().any(|group| group == name)
    }
}

impl WeightsRef {
    /// Weights in a folder.
    ///
    /// The digest of all its files is unknown: [`with_files_digest`](Self::with_files_digest) sets it.
    pub fn at_path(version: u64, digest: impl Into<String>, path: impl Into<String>, size_bytes: u64) -> Self {
        let source = weights_ref::Source::Path(PathWeights { path: path.into(), size_bytes });
        Self { version, digest: digest.into(), source: Some(source), files_digest: String::new() }
    }

    /// The reference with the digest of all files of the folder.
    #[must_use]
    pub fn with_files_digest(self, files_digest: impl Into<String>) -> Self {
        Self { files_digest: files_digest.into(), ..self }
    }

    /// Refuses a reference without a place or with a malformed digest; the receiver checks that the weights exist.
    pub fn validate(&self) -> Result<(), FieldError> {
        validate_digest("digest", &self.digest)?;
        if !self.files_digest.is_empty() {
            validate_digest("files_digest", &self.files_digest)?;
        }
        match &self.source {
            None => Err(FieldError::missing("source", "one of path, lora, nccl")),
            Some(weights_ref::Source::Path(at)) if !at.path.starts_with('/') => {
                Err(FieldError::new("path.path", format_args!("`{}`", at.path), "an absolute path"))
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_digest_is_a_reference() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(WeightsRef::at_path(3, digest, "/weights/step-3", 0).validate(), Ok(()));
    }

    #[test]
    fn malformed_references_are_named() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let refused = |reference: WeightsRef| reference.validate().unwrap_err().field;
        assert_eq!(refused(WeightsRef::at_path(3, "", "/w", 0)), "digest");
        assert_eq!(refused(WeightsRef::at_path(3, digest.to_uppercase(), "/w", 0)), "digest");
        assert_eq!(refused(WeightsRef::at_path(3, digest.as_str(), "w", 0)), "path.path");
        let at_path = WeightsRef::at_path(3, digest.as_str(), "/w", 0);
        assert_eq!(refused(at_path.clone().with_files_digest("0a")), "files_digest");
        assert_eq!(refused(WeightsRef { source: None, ..at_path }), "source");
    }
}
