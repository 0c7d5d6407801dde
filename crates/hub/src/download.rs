//! One file: from where it stopped, until it is whole and verified.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use reqwest::StatusCode;
use reqwest::header::CONTENT_RANGE;

use crate::error::HubError;
use crate::listing::RemoteFile;
use crate::request::{Requests, RetryPolicy, unreachable};
use crate::verify::verify;

/// A file that is wanted.
pub(crate) struct Download<'a> {
    pub(crate) requests: &'a Requests,
    pub(crate) retries: &'a RetryPolicy,
    pub(crate) url: String,
    pub(crate) file: &'a RemoteFile,
}

impl Download<'_> {
    /// Writes the file to `path`, which may have its beginning already, and verifies it. `report` gets the bytes that
    /// are there.
    ///
    /// # Errors
    /// What the hub refuses; one that makes no progress in several attempts; content of another length or digest, which
    /// is removed.
    pub(crate) async fn to(&self, path: &Path, report: &mut dyn FnMut(u64)) -> Result<(), HubError> {
        let mut failed = 0;
        let mut best = length(path);
        let mut delay = self.retries.delay;
        while length(path) != self.file.size || !path.exists() {
            let Err(error) = self.attempt(path, report).await else { continue };
            let now = length(path);
            // One byte at a time is no progress.
            if now >= best.saturating_add(self.retries.least) {
                (failed, best, delay) = (0, now, self.retries.delay);
            }
            failed += 1;
            if !matches!(error, HubError::Unreachable { .. }) || failed >= self.retries.attempts {
                return Err(error);
            }
            tracing::warn!(file = self.file.name, bytes = now, %error, "a download was interrupted and continues");
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
        let verified = verify(path, &self.url, self.file);
        if verified.is_err() {
            // The next attempt begins anew.
            fs::remove_file(path).map_err(HubError::file(path))?;
        }
        verified
    }

    async fn attempt(&self, path: &Path, report: &mut dyn FnMut(u64)) -> Result<(), HubError> {
        let size = self.file.size;
        let mut have = length(path);
        if have > size {
            have = 0;
        }
        let mut response = self.requests.get(&self.url, have).await?;
        let continues = response.status() == StatusCode::PARTIAL_CONTENT && {
            let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
            range.is_some_and(|range| range.starts_with(&format!("bytes {have}-")))
        };
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE
            || (response.status() == StatusCode::PARTIAL_CONTENT && !continues)
        {
            // The file there is another one.
            fs::remove_file(path).map_err(HubError::file(path))?;
            return Err(HubError::Unreachable { url: HubError::url(&self.url), reason: "another range came".into() });
        }
        if !continues {
            have = 0;
        }
        let out = if have == 0 { File::create(path) } else { File::options().append(true).open(path) };
        let mut out = out.map_err(HubError::file(path))?;
        report(have);
        let mut since = Instant::now();
        let mut then = have;
        while let Some(piece) = response.chunk().await.map_err(|error| unreachable(&self.url, &error))? {
            have += piece.len() as u64;
            if have > size {
                drop(out);
                fs::remove_file(path).map_err(HubError::file(path))?;
                let reason = format!("received more than the {size} bytes that the hub lists");
                return Err(HubError::Answer { url: HubError::url(&self.url), reason });
            }
            out.write_all(&piece).map_err(HubError::file(path))?;
            report(have);
            if since.elapsed() > self.retries.window {
                if have - then < self.retries.least {
                    let reason = format!("{} bytes in {:.0?} are too slow", have - then, since.elapsed());
                    return Err(HubError::Unreachable { url: HubError::url(&self.url), reason });
                }
                (since, then) = (Instant::now(), have);
            }
        }
        out.sync_all().map_err(HubError::file(path))?;
        if have == size {
            Ok(())
        } else {
            let reason = format!("received {have} of the {size} bytes that the hub lists");
            Err(HubError::Unreachable { url: HubError::url(&self.url), reason })
        }
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}
