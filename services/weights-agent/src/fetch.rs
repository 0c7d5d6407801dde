//! Bringing one file to where it belongs: what has not changed from the copy before, everything else from the learner.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_proto::v1::weights_client::WeightsClient;
use evenkeel_proto::v1::{WeightsFile, WeightsReadRequest};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::error::{Reason, ServiceError, has_reason};
use evenkeel_rpc::retry::{RetryPolicy, is_retryable};
use tokio::sync::mpsc;
use tonic::{Code, Status};

use crate::description::{Segment, file_digest, segments};
use crate::folders::Turn;
use crate::rate::Rate;
use crate::writer::{Writer, digest_of_range};

/// Messages that wait to be written.
const UNWRITTEN: usize = 32;
/// How often parts that arrive damaged are fetched again.
const REPAIRS: usize = 3;

/// The learner, and how it is asked.
pub(crate) struct LearnerSource {
    pub(crate) client: WeightsClient<ClientChannel>,
    pub(crate) address: String,
    pub(crate) rate: Rate,
    pub(crate) idle_timeout: Duration,
    pub(crate) retry: RetryPolicy,
    /// What the last failure was, for a pull that ends before it is over.
    pub(crate) last_failure: Mutex<String>,
}

impl LearnerSource {
    /// Notes a failure that is tried again.
    pub(crate) fn note(&self, status: &Status) {
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = status.message().to_owned();
    }

    /// Begins a pull: what failed before it is past.
    pub(crate) fn forget_failure(&self) {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Last failure; empty if there was none.
    pub(crate) fn last_failure(&self) -> String {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Bytes by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteCounts {
    pub(crate) fetched: u64,
    pub(crate) reused: u64,
}

/// One file of a copy that is being made.
pub(crate) struct FileJob {
    pub(crate) version: u64,
    pub(crate) digest: String,
    pub(crate) file: WeightsFile,
    /// Path of the written file.
    pub(crate) path: PathBuf,
    /// This file in the copy before.
    pub(crate) before: Option<(PathBuf, WeightsFile)>,
    /// Held by whatever writes, so that nothing writes after another pull has begun.
    pub(crate) turn: Arc<Turn>,
}

impl FileJob {
    /// Brings the file.
    ///
    /// # Errors
    /// What the learner refuses, a full disk, bytes that stay damaged.
    pub(crate) async fn run(self, source: &LearnerSource) -> Result<ByteCounts, ServiceError> {
        let mut counts = ByteCounts::default();
        let segments = segments(&self.file, self.before.as_ref().map(|(_, file)| file));
        let path = self.path.clone();
        let size = self.file.size_bytes;
        let mut writer = self.blocking(move || Writer::open(&path, size)).await?;
        for segment in segments {
            if writer.written() >= segment.end {
                continue;
            }
            writer = match (segment.here, &self.before) {
                (Some(here), Some((from, _))) => {
                    let from = from.clone();
                    let begin = here + (writer.written() - segment.begin);
                    let size = segment.end - writer.written();
                    counts.reused += size;
                    self.blocking(move || writer.copy(&from, begin, size).map(|()| writer)).await?
                }
                _ => self.fetch(source, writer, segment, &mut counts).await?,
            };
        }
        let found = self.blocking(move || Ok(writer.finish())).await?;
        if found != file_digest(&self.file) {
            self.repair(source, &mut counts).await?;
        }
        Ok(counts)
    }

    /// Fetches the rest of a segment, as often as it is cut.
    async fn fetch(
        &self,
        source: &LearnerSource,
        mut writer: Writer,
        segment: Segment,
        counts: &mut ByteCounts,
    ) -> Result<Writer, ServiceError> {
        let mut retries = source.retry.start();
        loop {
            let before = writer.written();
            let (continued, cut) = self.read(source, writer, segment.end).await?;
            writer = continued;
            let came = writer.written() - before;
            counts.fetched += came;
            let Some(status) = cut else { return Ok(writer) };
            if !is_retryable(&status) {
                return Err(refused(source, &status));
            }
            metrics::counter!("evenkeel_weights_cuts_total").increment(1);
            if came > 0 {
                retries.reset();
            }
            source.note(&status);
            let file = &self.file.name;
            let at = writer.written();
            let status = status.message();
            tracing::info!(
                learner = source.address,
                file,
                at,
                status,
                "fetching weights was interrupted and continues"
            );
            // Its policy has no limit: the pull has.
            let pause = retries.next_retry().map_or(Duration::ZERO, |retry| retry.pause);
            tokio::time::sleep(pause).await;
        }
    }

    /// One call. Returns what is written, and how the call was cut if it was.
    async fn read(
        &self,
        source: &LearnerSource,
        writer: Writer,
        end: u64,
    ) -> Result<(Writer, Option<Status>), ServiceError> {
        let begin = writer.written();
        let request = self.request(begin, end - begin);
        let silent = || Status::deadline_exceeded("nothing came");
        let answer = tokio::time::timeout(source.idle_timeout, source.client.clone().read(request)).await;
        let mut stream = match answer.unwrap_or_else(|_| Err(silent())) {
            Ok(answer) => answer.into_inner(),
            Err(status) => return Ok((writer, Some(status))),
        };
        let (sender, mut receiver) = mpsc::channel::<tonic::codegen::Bytes>(UNWRITTEN);
        let turn = Arc::clone(&self.turn);
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut writer = writer;
            while let Some(content) = receiver.blocking_recv() {
                writer.write(&content)?;
            }
            Ok::<_, std::io::Error>(writer)
        });
        let mut at = begin;
        let mut cut = None;
        while at < end && cut.is_none() {
            match tokio::time::timeout(source.idle_timeout, stream.message()).await.unwrap_or_else(|_| Err(silent())) {
                Ok(Some(message)) if message.content.len() as u64 > end - at => {
                    cut = Some(Status::data_loss("the learner sent more than was asked for"));
                }
                Ok(Some(message)) => {
                    let size = message.content.len();
                    at += size as u64;
                    if sender.send(message.content).await.is_err() {
                        // Writing has failed, and says why.
                        break;
                    }
                    source.rate.take(size).await;
                }
                Ok(None) => cut = Some(Status::unavailable("the stream ended early")),
                Err(status) => cut = Some(status),
            }
        }
        drop(sender);
        let writer = writing.await.map_err(|error| failed(&self.path, &std::io::Error::other(error)))?;
        Ok((writer.map_err(|error| failed(&self.path, &error))?, cut))
    }

    /// Finds what is not as it should be, and fetches that again.
    async fn repair(&self, source: &LearnerSource, counts: &mut ByteCounts) -> Result<(), ServiceError> {
        let mut last = String::new();
        for _ in 0..REPAIRS {
            let path = self.path.clone();
            let file = self.file.clone();
            let damaged = self.blocking(move || damaged_parts(&path, &file)).await?;
            if damaged.is_empty() {
                // Every part is right, so the whole is, unless what the learner says contradicts itself.
                let path = self.path.clone();
                let found = self.blocking(move || evenkeel_host::FileDigest::of(&path)).await?;
                return if found == file_digest(&self.file) {
                    Ok(())
                } else {
                    Err(self.damaged("its digest is not that of its parts"))
                };
            }
            for (offset, size, part) in damaged {
                metrics::counter!("evenkeel_weights_damaged_parts_total").increment(1);
                tracing::warn!(file = self.file.name, part, "weights are damaged, and fetched again");
                last = format!("part `{part}` is damaged");
                self.refetch(source, offset, size).await?;
                counts.fetched += size;
            }
        }
        let path = self.path.clone();
        let file = self.file.clone();
        if self.blocking(move || damaged_parts(&path, &file)).await?.is_empty() {
            Ok(())
        } else {
            Err(self.damaged(&format!("{last} each time it is fetched")))
        }
    }

    /// Replaces a part of the file.
    async fn refetch(&self, source: &LearnerSource, offset: u64, size: u64) -> Result<(), ServiceError> {
        let part = FileJob {
            version: self.version,
            digest: self.digest.clone(),
            file: self.file.clone(),
            // No file of a version has such a name.
            path: self.path.with_file_name(format!(".{}.part", self.file.name)),
            before: None,
            turn: Arc::clone(&self.turn),
        };
        let path = part.path.clone();
        let whole = self.path.clone();
        let writer = part.blocking({
            let path = path.clone();
            move || {
                let _ = std::fs::remove_file(&path);
                Writer::at(&path, offset)
            }
        });
        let segment = Segment { begin: offset, end: offset + size, here: None };
        let writer = part.fetch(source, writer.await?, segment, &mut ByteCounts::default()).await?;
        self.blocking(move || {
            drop(writer);
            crate::writer::overwrite(&whole, offset, &path)?;
            std::fs::remove_file(&path)
        })
        .await
    }

    fn damaged(&self, what: &str) -> ServiceError {
        let message = format!("{} of version {}: {what}", self.file.name, self.version);
        ServiceError::DataLoss { message }
    }

    fn request(&self, offset: u64, size_bytes: u64) -> WeightsReadRequest {
        let version = self.version;
        let digest = self.digest.clone();
        let file = self.file.name.clone();
        WeightsReadRequest { version, digest, file, offset, size_bytes }
    }

    /// Work with files, on a thread of its own.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let turn = Arc::clone(&self.turn);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        let done = done.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        done.map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> ServiceError {
    ServiceError::file(path.display(), error)
}

/// Offset, size and name of every part whose bytes are not those of its digest.
fn damaged_parts(path: &Path, file: &WeightsFile) -> std::io::Result<Vec<(u64, u64, String)>> {
    let mut offset = 0;
    let mut damaged = Vec::new();
    for part in &file.parts {
        if digest_of_range(path, offset, part.size_bytes)?.to_string() != part.digest {
            let name = if part.tensor.is_empty() { "header" } else { &part.tensor };
            damaged.push((offset, part.size_bytes, name.to_owned()));
        }
        offset += part.size_bytes;
    }
    Ok(damaged)
}

/// What the learner's refusal is to the caller of the agent.
pub(crate) fn refused(source: &LearnerSource, status: &Status) -> ServiceError {
    let message = format!("the learner at {}: {}", source.address, status.message());
    match status.code() {
        Code::FailedPrecondition if has_reason(status, Reason::WeightsGone) => {
            ServiceError::Precondition { reason: Reason::WeightsGone, message }
        }
        Code::DataLoss => ServiceError::DataLoss { message },
        _ => ServiceError::Unavailable { reason: Reason::NotPulled, message },
    }
}
