//! One pull: from a version and its digest to a whole folder on this node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{WeightsDescribeRequest, WeightsDescribeResponse, WeightsFile};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_rpc::retry::is_retryable;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::description::{Wanted, validate};
use crate::fetch::{ByteCounts, FileJob, LearnerSource, refused};
use crate::folders::{Folders, Turn};

pub(crate) struct Puller {
    pub(crate) folders: Arc<Folders>,
    pub(crate) source: Arc<LearnerSource>,
    pub(crate) max_files: usize,
}

/// A copy, and what it took.
pub(crate) struct Pulled {
    pub(crate) path: PathBuf,
    pub(crate) counts: ByteCounts,
    /// Whether it was there.
    pub(crate) was_present: bool,
}

impl Puller {
    /// Waits for its turn, and makes the copy unless it is there. Dropped, it leaves what was fetched for the next one.
    ///
    /// # Errors
    /// Weights that the learner does not have, or not any more; a full disk; bytes that stay damaged.
    pub(crate) async fn pull(&self, wanted: &Wanted) -> Result<Pulled, ServiceError> {
        let turn = self.folders.turn().await?;
        let folders = Arc::clone(&self.folders);
        let sought = wanted.clone();
        let found = blocking(&turn, move || folders.find(&sought)).await?;
        if let Some(path) = found {
            return Ok(Pulled { path, counts: ByteCounts::default(), was_present: true });
        }
        self.source.forget_failure();
        let Wanted { version, digest, .. } = wanted;
        let version = *version;
        let description = self.describe(version, digest).await?;
        let inconsistent = |error: FieldError| ServiceError::DataLoss {
            message: format!("what the learner at {} says of version {version}: {error}", self.source.address),
        };
        validate(&description, wanted).map_err(inconsistent)?;
        let name = Folders::name(version, digest);
        let begun = begin(&self.folders, &turn, &name, &description).await?;
        let fetched = self.fetch(version, digest, &turn, &begun, &description).await;
        if let Err(ServiceError::DiskFull { .. }) = &fetched {
            // What is left of it would keep others from having room.
            let folders = Arc::clone(&self.folders);
            blocking(&turn, move || folders.remove(&begun.partial)).await?;
        }
        let counts = fetched?;
        let folders = Arc::clone(&self.folders);
        let path = blocking(&turn, move || folders.complete(&name, &description)).await?;
        Ok(Pulled { path, counts, was_present: false })
    }

    /// What the version consists of.
    async fn describe(&self, version: u64, digest: &str) -> Result<WeightsDescribeResponse, ServiceError> {
        let mut retries = self.source.retry.start();
        loop {
            let request = WeightsDescribeRequest { version, digest: digest.to_owned() };
            let status = match self.source.client.clone().describe(request).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            if !is_retryable(&status) {
                return Err(refused(&self.source, &status));
            }
            self.source.note(&status);
            tracing::info!(learner = self.source.address, status = status.message(), "the learner does not answer yet");
            tokio::time::sleep(retries.next_retry().map_or(self.source.idle_timeout, |retry| retry.pause)).await;
        }
    }

    async fn fetch(
        &self,
        version: u64,
        digest: &str,
        turn: &Arc<Turn>,
        begun: &Begun,
        description: &WeightsDescribeResponse,
    ) -> Result<ByteCounts, ServiceError> {
        let permits = Arc::new(Semaphore::new(self.max_files));
        let mut jobs = JoinSet::new();
        for file in &description.files {
            let job = FileJob {
                version,
                digest: digest.to_owned(),
                path: begun.partial.join(&file.name),
                before: begun.before.get(&file.name).map(|(path, before)| (path.clone(), before.clone())),
                file: file.clone(),
                turn: Arc::clone(turn),
            };
            let source = Arc::clone(&self.source);
            let permits = Arc::clone(&permits);
            jobs.spawn(async move {
                let _permit = permits.acquire_owned().await;
                job.run(&source).await
            });
        }
        let mut counts = ByteCounts::default();
        // The first failure ends the others.
        while let Some(done) = jobs.join_next().await {
            let done = done.unwrap_or_else(|error| Err(ServiceError::Internal { message: error.to_string() }))?;
            counts.fetched += done.fetched;
            counts.reused += done.reused;
        }
        Ok(counts)
    }
}

/// A copy that is being made.
struct Begun {
    partial: PathBuf,
    /// The files of the copy before, by name.
    before: BTreeMap<String, (PathBuf, WeightsFile)>,
}

/// Makes room and a folder, in which only files of the description stay.
async fn begin(
    folders: &Arc<Folders>,
    turn: &Arc<Turn>,
    name: &str,
    description: &WeightsDescribeResponse,
) -> Result<Begun, ServiceError> {
    let folders = Arc::clone(folders);
    let name = name.to_owned();
    let files = description.files.clone();
    blocking(turn, move || {
        let partial = folders.partial(&name);
        let failed = |error: std::io::Error| ServiceError::file(partial.display(), &error);
        let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
        if !std::fs::symlink_metadata(&partial).is_ok_and(|found| found.is_dir()) {
            folders.remove(&partial)?;
        }
        let mut there = 0;
        for entry in std::fs::read_dir(&partial).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| names.contains(name)) {
                there += entry.metadata().map_or(0, |metadata| metadata.len())
            } else {
                folders.remove(&entry.path())?
            }
        }
        let needed = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size_bytes));
        folders.make_room(&name, needed.saturating_sub(there))?;
        std::fs::create_dir_all(&partial).map_err(failed)?;
        let of_copy = |(path, description): (PathBuf, WeightsDescribeResponse)| before(&path, description);
        Ok(Begun { before: folders.newest().map(of_copy).unwrap_or_default(), partial })
    })
    .await
}

/// The files of a copy that are as long as its description says.
fn before(path: &Path, description: WeightsDescribeResponse) -> BTreeMap<String, (PathBuf, WeightsFile)> {
    let files = description.files.into_iter().filter_map(|file| {
        let at = path.join(&file.name);
        let is_whole = std::fs::metadata(&at).is_ok_and(|found| found.is_file() && found.len() == file.size_bytes);
        is_whole.then(|| (file.name.clone(), (at, file)))
    });
    files.collect()
}

/// Work with folders, on a thread of its own, which keeps the turn to its end.
async fn blocking<T: Send + 'static>(
    turn: &Arc<Turn>,
    work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    let turn = Arc::clone(turn);
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    done.await.unwrap_or_else(|error| Err(ServiceError::Internal { message: error.to_string() }))
}

/// The error of a pull that took too long: what it waited for last is what is wrong.
pub(crate) fn too_late(source: &LearnerSource, deadline: &ServiceError) -> ServiceError {
    let last = source.last_failure();
    let because = if last.is_empty() { String::new() } else { format!(": {last}") };
    let message = format!("weights were not fetched from {}: {deadline}{because}", source.address);
    ServiceError::Unavailable { reason: Reason::NotPulled, message }
}
