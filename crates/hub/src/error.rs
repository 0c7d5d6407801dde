//! Why a model cannot be had.

use std::io;
use std::path::{Path, PathBuf};

use evenkeel_errors::FieldError;
use evenkeel_errors::shown::without_credentials;

/// Why a model cannot be downloaded from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A name, a variable of the environment, or what a repository has.
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("{url}: the hub answers {status}: {reason}")]
    Refused {
        /// What was asked for.
        url: String,
        /// The status of the answer.
        status: u16,
        /// Meaning, with what is allowed.
        reason: String,
    },
    /// The hub cannot be reached, or breaks off again and again.
    #[error("{url}: {reason}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What the transport reported.
        reason: String,
    },
    /// An answer that is not what the hub answers.
    #[error("{url}: {reason}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cache does not have the whole model, and the hub is not asked.
    #[error("{name}: {folder} does not have the whole model, and HF_HUB_OFFLINE is set: {lack}, allowed: a model that \
        was downloaded before, or the path of a folder", folder = folder.display())]
    Offline {
        name: String,
        /// Folder of the model in the cache.
        folder: PathBuf,
        /// What is not there.
        lack: String,
    },
    /// A file of the cache whose content is not that of its name.
    #[error("{}: its digest is {found}, allowed: {wanted}, which the hub lists; delete the file to download it \
        again", path.display())]
    Damaged {
        path: PathBuf,
        /// Digest of the content that was found.
        found: String,
        /// The digest that the hub lists.
        wanted: String,
    },
    /// A file of the cache that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

impl HubError {
    /// A URL as errors have it, without the name and password of a mirror (`HF_ENDPOINT`).
    pub(crate) fn url(url: &str) -> String {
        without_credentials(url).into_owned()
    }

    /// An error of the operating system, with its file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
