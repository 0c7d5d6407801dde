//! What a revision of a repository has: commit, files, sizes and digests.

use serde::Deserialize;

use crate::error::HubError;
use crate::name::is_commit;

/// The digest that the hub has of a file, in hexadecimal digits. It also names the file in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Digest {
    /// SHA-256 of the content: large files.
    Sha256(String),
    /// SHA-1 of a git blob with the content: small files.
    GitBlob(String),
}

impl Digest {
    /// The digest that is the name of a file in the cache.
    pub(crate) fn of_blob(name: &str) -> Option<Self> {
        if is_hex(name, 64) {
            return Some(Self::Sha256(name.to_owned()));
        }
        is_hex(name, 40).then(|| Self::GitBlob(name.to_owned()))
    }

    pub(crate) fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitBlob(hex) => hex,
        }
    }
}

/// A file of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    /// Path of the file in the repository.
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) commit: String,
    pub(crate) files: Vec<RemoteFile>,
}

#[derive(Deserialize)]
struct ListingAnswer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

impl Listing {
    /// Parses the answer of `/api/models/NAME/revision/REVISION?blobs=true`. Files without a size or a digest are left
    /// out: they cannot be verified.
    ///
    /// # Errors
    /// An answer without a commit or files.
    pub(crate) fn parse(url: &str, body: &[u8]) -> Result<Self, HubError> {
        let wrong = |reason: String| HubError::Answer { url: HubError::url(url), reason };
        let answer: ListingAnswer =
            serde_json::from_slice(body).map_err(|error| wrong(format!("is not a list of files: {error}")))?;
        if !is_commit(&answer.sha) {
            return Err(wrong(format!("{:?} is not the name of a commit", answer.sha)));
        }
        let files = answer.siblings.into_iter().filter_map(|Sibling { rfilename: name, size, blob_id, lfs }| {
            let (size, digest) = match (lfs, size, blob_id) {
                (Some(Lfs { sha256, size }), ..) if is_hex(&sha256, 64) => (size, Digest::Sha256(sha256)),
                (None, Some(size), Some(blob)) if is_hex(&blob, 40) => (size, Digest::GitBlob(blob)),
                _ => return None,
            };
            Some(RemoteFile { name, size, digest })
        });
        Ok(Self { commit: answer.sha, files: files.collect() })
    }

    /// The file of this path.
    pub(crate) fn find(&self, name: &str) -> Option<&RemoteFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_digest_of_their_kind_and_none_goes_unverified() {
        let commit = "a".repeat(40);
        let sha256 = "b".repeat(64);
        let body = serde_json::json!({"sha": commit, "siblings": [
            {"rfilename": "config.json", "size": 3, "blobId": "c".repeat(40)},
            {"rfilename": "model.safetensors", "size": 9, "blobId": "d".repeat(40), "lfs": {"sha256": sha256, "size": 9, "pointerSize": 1}},
            {"rfilename": "unknown"},
            {"rfilename": "above", "size": 3, "blobId": "../../x"},
        ]});
        let listing = Listing::parse("url", body.to_string().as_bytes()).unwrap();
        assert_eq!(listing.commit, commit);
        assert_eq!(listing.files.len(), 2);
        assert_eq!(listing.find("config.json").unwrap().digest, Digest::GitBlob("c".repeat(40)));
        assert_eq!(listing.find("model.safetensors").unwrap().digest, Digest::Sha256(sha256));
        for body in ["{}", "[", r#"{"sha": "main", "siblings": []}"#] {
            assert!(Listing::parse("url", body.as_bytes()).unwrap_err().to_string().starts_with("url: "));
        }
    }
}
