//! Certificates and tokens that are replaced while a process runs. The files are looked at when their content is
//! needed, at most once a second. A file that cannot be used, for instance because only half of it is written yet,
//! changes nothing: what was read before stays in use, a warning names the file, and it is looked at again.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_host::Secret;

use crate::files::FileError;

/// How often files are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was read from files, and is read again when they change. Clones share it.
pub struct Reloading<T>(Arc<Inner<T>>);

struct Inner<T> {
    setting: String,
    files: Vec<PathBuf>,
    load: Box<dyn Fn() -> Result<T, FileError> + Send + Sync>,
    state: Mutex<LoadedFiles<T>>,
}

struct LoadedFiles<T> {
    value: Arc<T>,
    /// The files as they were before `value` was read.
    stamps: Vec<Option<Stamp>>,
    looked: Instant,
    /// The last refusal that was reported, so that each is reported once.
    refusal: Option<String>,
}

/// Tells two versions of a file apart.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let stamp_of = |found: Metadata| {
        let modified = (found.mtime(), found.mtime_nsec());
        let changed = (found.ctime(), found.ctime_nsec());
        (found.dev(), found.ino(), found.len(), modified.0, modified.1, changed.0, changed.1)
    };
    std::fs::metadata(path).ok().map(stamp_of)
}

impl<T> Reloading<T> {
    /// Reads the files of a setting for the first time.
    ///
    /// # Errors
    /// That of `load`.
    pub fn open(
        setting: impl Into<String>,
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<T, FileError> + Send + Sync + 'static,
    ) -> Result<Self, FileError> {
        // Before they are read: a change in between is then seen as one.
        let stamps = files.iter().map(|file| stamp(file)).collect();
        let state = LoadedFiles { value: Arc::new(load()?), stamps, looked: Instant::now(), refusal: None };
        Ok(Self(Arc::new(Inner { setting: setting.into(), files, load: Box::new(load), state: Mutex::new(state) })))
    }

    /// A value that no file has, and that never changes.
    fn fixed(setting: &str, value: T) -> Self {
        let state = LoadedFiles { value: Arc::new(value), stamps: Vec::new(), looked: Instant::now(), refusal: None };
        let load = || -> Result<T, FileError> { unreachable!("no file changes where there is none") };
        Self(Arc::new(Inner {
            setting: setting.to_owned(),
            files: Vec::new(),
            load: Box::new(load),
            state: Mutex::new(state),
        }))
    }

    /// The newest content that could be used.
    pub fn current(&self) -> Arc<T> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= INTERVAL {
            state.looked = Instant::now();
            self.look(&mut state);
        }
        Arc::clone(&state.value)
    }

    fn look(&self, state: &mut LoadedFiles<T>) {
        let stamps: Vec<_> = self.0.files.iter().map(|file| stamp(file)).collect();
        if stamps == state.stamps {
            return;
        }
        match (self.0.load)() {
            Ok(value) => {
                *state = LoadedFiles { value: Arc::new(value), stamps, looked: state.looked, refusal: None };
                tracing::info!(setting = self.0.setting, "changed files are in use");
            }
            // The stamps stay those of the files in use, so that the next look tries again.
            Err(error) => {
                let refusal = error.to_string();
                if state.refusal.as_ref() != Some(&refusal) {
                    tracing::warn!(error = refusal, "a changed file is not used; what was read before stays in use");
                    state.refusal = Some(refusal);
                }
            }
        }
    }
}

impl<T> Clone for Reloading<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Reloading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloading").field("setting", &self.0.setting).field("files", &self.0.files).finish()
    }
}

/// The bearer tokens of a file, one on each line, or one that is only in memory.
#[derive(Debug, Clone)]
pub struct BearerTokens(Reloading<Vec<Secret>>);

impl BearerTokens {
    /// Reads the file that a setting names.
    ///
    /// # Errors
    /// A file that cannot be read, or with anything but tokens of 16 or more characters.
    pub fn open(setting: &str, path: &Path) -> Result<Self, FileError> {
        let name = setting.to_owned();
        let file = path.to_owned();
        let load =
            move || Secret::read_all(&file).map_err(|error| FileError::new(&name, &file, format_args!("it {error}")));
        Reloading::open(setting, vec![path.to_owned()], load).map(Self)
    }

    /// A token that no file has.
    pub(crate) fn fixed(token: Secret) -> Self {
        Self(Reloading::fixed("a secret in memory", vec![token]))
    }

    /// Whether one of the secrets is the bearer token of an `authorization` header.
    pub fn accept_bearer(&self, authorization: &[u8]) -> bool {
        // All of them are compared, so that the time taken does not tell which one matches.
        self.0.current().iter().fold(false, |found, token| token.is_bearer(authorization) | found)
    }

    /// Whether one of the secrets is the password.
    pub fn accept(&self, password: &[u8]) -> bool {
        self.0.current().iter().fold(false, |found, token| token.is(password) | found)
    }

    /// The first one, which a client sends.
    pub fn first(&self) -> Option<Secret> {
        self.0.current().first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expire(tokens: &BearerTokens) {
        tokens.0.0.state.lock().unwrap().looked -= INTERVAL;
    }

    #[test]
    fn a_changed_file_is_used_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "old-old-old-old-old\n").unwrap();
        let tokens = BearerTokens::open("server.token_file", &path).unwrap();
        assert!(tokens.accept_bearer(b"Bearer old-old-old-old-old"));
        // Half written: too short.
        std::fs::write(&path, "new-new").unwrap();
        assert!(tokens.accept_bearer(b"Bearer old-old-old-old-old"), "not looked at yet");
        expire(&tokens);
        assert!(tokens.accept_bearer(b"Bearer old-old-old-old-old"));
        assert!(!tokens.accept(b"new-new"));
        // Complete, by renaming another file as one should.
        std::fs::write(folder.path().join("next"), "old-old-old-old-old\nnew-new-new-new-new\n").unwrap();
        std::fs::rename(folder.path().join("next"), &path).unwrap();
        expire(&tokens);
        assert!(tokens.accept(b"old-old-old-old-old") && tokens.accept(b"new-new-new-new-new"));
        assert_eq!(tokens.first().unwrap().expose(), "old-old-old-old-old");
        std::fs::remove_file(&path).unwrap();
        expire(&tokens);
        assert!(tokens.accept(b"new-new-new-new-new"), "a missing file changes nothing");
    }

    #[test]
    fn a_short_token_is_refused_by_setting_and_file_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "hunter2\n").unwrap();
        let error = BearerTokens::open("reward.server.token_file", &path).unwrap_err().to_string();
        let expected = format!(
            "`reward.server.token_file` names {}, which cannot be used: it contains a token of 7 characters, allowed: \
            16 or more",
            path.display()
        );
        assert_eq!(error, expected);
    }
}
