//! Reading what a recipe points at: regular files only, bounded in size, and given up once nobody waits for it.
//!
//! A recipe may come over the network. A device, a pipe or a file without an end must cost a refusal, not the process.

use std::io::Read;
use std::path::Path;

use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientConfig;
use evenkeel_tasks::read::{Limits, open_regular};
use serde::{Deserialize, Serialize};

use crate::error::RunError;

pub use evenkeel_tasks::Cancel;

/// Largest configuration file of a model folder (`config.json` and its like), in bytes.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Largest token or certificate file, in bytes.
const MAX_SECRET_BYTES: u64 = 1 << 20;
/// Bytes that are read between two looks at whether anybody still waits.
const PIECE: usize = 1 << 20;

/// What a run may cost to load. A server sets it, since its recipes are its clients'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadLimits {
    /// Largest file of problems (`data.path`, `data.held_out_path`), in bytes.
    pub max_data_bytes: u64,
    /// Longest line in it, in bytes.
    pub max_row_bytes: u64,
    /// Most problems in it.
    pub max_problems: usize,
    /// Largest `tokenizer.json`, in bytes.
    pub max_tokenizer_bytes: u64,
    /// Most parameters of a fresh model (`model.fresh`), which are drawn and written before the run.
    pub max_fresh_parameters: u64,
    /// Most samples of a step (prompts times group), most examples of a warm-start step.
    pub max_step_samples: u64,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            max_data_bytes: 256 << 20,
            max_row_bytes: 16 << 20,
            max_problems: 1_000_000,
            max_tokenizer_bytes: 128 << 20,
            max_fresh_parameters: 100_000_000,
            max_step_samples: 1_000_000,
        }
    }
}

impl LoadLimits {
    /// No bounds but those of the recipe itself: for runs whose recipe is their user's own.
    pub fn unbounded() -> Self {
        Self {
            max_data_bytes: u64::MAX,
            max_row_bytes: u64::MAX,
            max_problems: usize::MAX,
            max_tokenizer_bytes: u64::MAX,
            max_fresh_parameters: u64::MAX,
            max_step_samples: u64::MAX,
        }
    }

    /// Those of data files.
    pub(crate) fn data(&self) -> Limits {
        Limits {
            max_bytes: self.max_data_bytes,
            max_row_bytes: usize::try_from(self.max_row_bytes).unwrap_or(usize::MAX),
            max_rows: self.max_problems,
        }
    }

    /// Refuses limits with which nothing could be loaded.
    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        let all = [
            ("max_data_bytes", self.max_data_bytes),
            ("max_row_bytes", self.max_row_bytes),
            ("max_problems", self.max_problems as u64),
            ("max_tokenizer_bytes", self.max_tokenizer_bytes),
            ("max_fresh_parameters", self.max_fresh_parameters),
            ("max_step_samples", self.max_step_samples),
        ];
        match all.into_iter().find(|(_, value)| *value == 0) {
            Some((field, _)) => Err(FieldError::new(field, 0, "at least 1")),
            None => Ok(()),
        }
    }
}

/// The limits of one start, and whether it is still wanted.
#[derive(Debug, Clone)]
pub(crate) struct Loading {
    pub(crate) limits: LoadLimits,
    pub(crate) cancel: Cancel,
}

impl Default for Loading {
    fn default() -> Self {
        Self { limits: LoadLimits::unbounded(), cancel: Cancel::default() }
    }
}

impl Loading {
    /// The whole of a tokenizer file.
    pub(crate) fn tokenizer(&self, path: &Path) -> Result<Vec<u8>, RunError> {
        self.read(path, self.limits.max_tokenizer_bytes).map_err(|error| match error {
            ReadError::Refused(message) => RunError::model(path, message),
            ReadError::Cancelled => RunError::Cancelled,
        })
    }

    fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
        let mut file = open_regular(path, most).map_err(ReadError::Refused)?.take(most.saturating_add(1));
        let mut bytes = Vec::new();
        loop {
            self.cancel.check().map_err(|_| ReadError::Cancelled)?;
            match file.by_ref().take(PIECE as u64).read_to_end(&mut bytes) {
                Ok(0) => return Ok(bytes),
                // A file may grow while it is read, and some say nothing true about their size.
                Ok(_) if bytes.len() as u64 > most => {
                    let message = format!("has {} bytes or more, allowed: at most {most}", bytes.len());
                    return Err(ReadError::Refused(message));
                }
                Ok(_) => {}
                Err(error) => return Err(ReadError::Refused(format!("cannot be read: {error}"))),
            }
        }
    }
}

enum ReadError {
    Refused(String),
    Cancelled,
}

/// A small configuration file, of whatever limits; `None` where it is not there.
pub(crate) fn small_file(path: &Path) -> Result<Option<Vec<u8>>, RunError> {
    if std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    match Loading::default().read(path, MAX_JSON_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Refused(message)) => Err(RunError::model(path, message)),
        Err(ReadError::Cancelled) => Err(RunError::Cancelled),
    }
}

/// Refuses files of a client's settings that are no regular files, or too large to be secrets.
pub(crate) fn check_secrets(client: &ClientConfig) -> Result<(), FieldError> {
    let tls = client.tls.iter().flat_map(|tls| {
        let own = [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)];
        let own = own.into_iter().filter_map(|(field, path)| Some((field, path.as_ref()?)));
        std::iter::once(("tls.ca_file", &tls.ca_file)).chain(own)
    });
    for (field, path) in tls.chain(client.token_file.iter().map(|path| ("token_file", path))) {
        open_regular(path, MAX_SECRET_BYTES).map_err(|message| {
            let allowed = format!("a regular file of at most {MAX_SECRET_BYTES} bytes");
            FieldError::new(field, format_args!("{}, which {message}", path.display()), allowed)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(most: u64) -> Loading {
        let limits = LoadLimits { max_tokenizer_bytes: most, ..LoadLimits::default() };
        Loading { limits, cancel: Cancel::default() }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [Path::new("/dev/zero"), dir.path(), &pipe] {
            let error = limited(1 << 20).tokenizer(path).unwrap_err().to_string();
            assert!(error.contains("allowed: a regular file"), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        std::fs::write(&path, vec![b'x'; 3_000_000]).unwrap();
        assert_eq!(limited(3_000_000).tokenizer(&path).unwrap().len(), 3_000_000);
        let error = limited(2_999_999).tokenizer(&path).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 2999999"), "{error}");
        // A file of the system that says that it is empty and is not.
        let error = limited(3).tokenizer(Path::new("/proc/self/status")).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 3"), "{error}");
    }

    #[test]
    fn loading_ends_once_it_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        std::fs::write(&path, "{}").unwrap();
        let loading = limited(100);
        loading.cancel.cancel();
        assert!(matches!(loading.tokenizer(&path), Err(RunError::Cancelled)));
    }
}
