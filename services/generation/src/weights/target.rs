//! Which weights the service samples from, and how engines are told so.

use std::sync::Arc;

use evenkeel_proto::v1::WeightsRef;

/// The weights that every engine should have. Only engines that have them get samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The policy's version.
    pub(crate) version: u64,
    /// Digest of the weights; empty where they are those that the engines began with.
    pub(crate) digest: String,
    /// What an engine that has them says. `None` where the engines began with them and do not say.
    pub(crate) label: Option<Arc<str>>,
    /// Their folder, as the engines see it; empty where they are those that the engines began with.
    pub(crate) path: String,
}

impl Target {
    /// What a request asks for.
    pub(crate) fn of(weights: &WeightsRef, path: &str) -> Self {
        Self {
            version: weights.version,
            digest: weights.digest.clone(),
            label: Some(label(weights.version, &weights.digest).into()),
            path: path.to_owned(),
        }
    }

    /// What engines that say this began with: the version that they were told by this service's predecessor, otherwise 0.
    pub(crate) fn initial(says: Option<&str>) -> Self {
        let (version, digest) = says.and_then(parse).unwrap_or_default();
        Self { version, digest, label: says.map(Into::into), path: String::new() }
    }

    /// Whether an engine that says this has them. An engine that says nothing is not known to have any but the first.
    pub(crate) fn is(&self, says: Option<&str>) -> bool {
        self.label.as_deref() == says
    }

    /// Under what prefixes of these weights are cached.
    pub(crate) fn cache_salt(&self) -> String {
        self.label.as_deref().map_or_else(|| self.version.to_string(), str::to_owned)
    }
}

/// The text by which engines name weights. It holds the digest: two runs both have a version 3.
fn label(version: u64, digest: &str) -> String {
    format!("{version}-{digest}")
}

/// Version and digest of a label, or of a version alone.
pub(crate) fn parse(label: &str) -> Option<(u64, String)> {
    let (version, digest) = label.split_once('-').unwrap_or((label, ""));
    Some((version.parse().ok()?, digest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_version_and_digest() {
        let target = Target::of(&WeightsRef::at_path(17, "sha256:ab", "/w", 0), "/w");
        assert_eq!(target.label.as_deref(), Some("17-sha256:ab"));
        assert_eq!(parse("17-sha256:ab"), Some((17, "sha256:ab".to_owned())));
        assert!(target.is(Some("17-sha256:ab")) && !target.is(Some("17")) && !target.is(None));
    }

    #[test]
    fn engines_begin_with_what_they_say() {
        assert_eq!(Target::initial(Some("default")).version, 0);
        assert_eq!(Target::initial(Some("5-sha256:cd")).version, 5);
        let silent = Target::initial(None);
        assert!(silent.is(None) && silent.version == 0);
    }
}
