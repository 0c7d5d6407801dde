//! `evenkeel.v1.Weights`: the files of published versions, for agents that fetch them to where engines are.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_host::{FileDigest, FileHasher, open};
use evenkeel_model_folder::{Folder, VersionMarker, WeightFiles, weights_digest_among};
use evenkeel_proto::v1::weights_server::Weights;
use evenkeel_proto::v1::{
    WeightsDescribeRequest, WeightsDescribeResponse, WeightsFile, WeightsPart, WeightsReadRequest, WeightsReadResponse,
};
use evenkeel_proto::{FieldError, validate_digest};
use evenkeel_rpc::admission::ClientId;
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::readers::Readers;
use crate::step_folder;

/// Bytes in one message. Blocks of 1 MiB and more are mapped each on its own, which costs as much as all copies
/// together.
const CHUNK: usize = 256 << 10;
/// Messages that are read ahead of the network.
const AHEAD: usize = 16;
/// How long an agent may read nothing. At the slowest rate (`max_rate`) a message for each of eight readers
/// takes four minutes.
const UNREAD: Duration = Duration::from_secs(300);
/// Versions whose descriptions are kept: engines that are behind ask for the one before.
const DESCRIBED: usize = 2;

/// Version and digest of published weights.
type Key = (u64, String);

/// The service. Clones share what is known of the files.
#[derive(Clone)]
pub(super) struct PublishedFiles {
    folder: PathBuf,
    /// Locked while files are read for the first time, so that many agents cost as much as one.
    described: Arc<Mutex<VecDeque<(Key, WeightsDescribeResponse)>>>,
    readers: Readers,
}

impl PublishedFiles {
    /// For the folder of published weights.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, described: Arc::default(), readers: Readers::default() }
    }

    /// The complete folder of a version with that digest.
    fn find(&self, version: u64, digest: &str) -> Result<PathBuf, ServiceError> {
        validate_digest("digest", digest)?;
        let path = step_folder::find_version(&self.folder, version);
        let gone = |message: String| Err(ServiceError::Precondition { reason: Reason::WeightsGone, message });
        match VersionMarker::read(&Folder::new(&path)) {
            Ok(marker) if (marker.version, marker.digest.as_str()) == (version, digest) => Ok(path),
            Ok(marker) => {
                gone(format!("version {version} was published again, with {}: {digest} is gone", marker.digest))
            }
            Err(_) => gone(format!("version {version} is not published, or not any more")),
        }
    }
}

#[tonic::async_trait]
impl Weights for PublishedFiles {
    type ReadStream = ReceiverStream<Result<WeightsReadResponse, Status>>;

    async fn describe(
        &self,
        request: Request<WeightsDescribeRequest>,
    ) -> Result<Response<WeightsDescribeResponse>, Status> {
        let WeightsDescribeRequest { version, digest } = request.into_inner();
        let path = self.find(version, &digest)?;
        let key = (version, digest);
        let mut described = self.described.lock().await;
        if let Some((_, known)) = described.iter().find(|(known, _)| *known == key) {
            return Ok(Response::new(known.clone()));
        }
        let wanted = key.1.clone();
        let read = tokio::task::spawn_blocking(move || describe(&path, &wanted)).await;
        let found = read.map_err(|error| ServiceError::Internal { message: format!("reading weights: {error}") })??;
        described.truncate(DESCRIBED - 1);
        described.push_front((key, found.clone()));
        Ok(Response::new(found))
    }

    async fn read(&self, request: Request<WeightsReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let WeightsReadRequest { version, digest, file, offset, size_bytes } = request.into_inner();
        // Before the file is opened: those that wait hold none.
        let permit = self.readers.acquire(ClientId::current().host()).await;
        let folder = self.find(version, &digest)?;
        let file = open_range(&folder, &file, offset, size_bytes)?.take(size_bytes);
        let (sender, receiver) = mpsc::channel(AHEAD + 1);
        // The place of the reason why it ends, for which there may be no other.
        let last = sender.clone().try_reserve_owned();
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            if let (Err(status), Ok(last)) = (send(file, &sender, &runtime, UNREAD), last) {
                drop(last.send(Err(status)));
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Sends a part of a file, until its end or that of its reader, who may take nothing for `unread` at most.
fn send(
    mut file: Take<File>,
    sender: &mpsc::Sender<Result<WeightsReadResponse, Status>>,
    runtime: &Handle,
    unread: Duration,
) -> Result<(), Status> {
    while file.limit() > 0 {
        let size = CHUNK.min(usize::try_from(file.limit()).unwrap_or(CHUNK));
        let content = read_chunk(&mut file, size);
        let content = content.map_err(|error| ServiceError::file("reading published weights", &error))?;
        let message = Ok(WeightsReadResponse { content: content.into() });
        match runtime.block_on(async { tokio::time::timeout(unread, sender.send(message)).await }) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => return Err(ServiceError::ResponsesUnread { timeout: unread }.into()),
        }
    }
    Ok(())
}

/// The next bytes, into memory that nothing has cleared before.
fn read_chunk(file: &mut impl Read, size: usize) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(size);
    match file.take(size as u64).read_to_end(&mut content)? {
        read if read == size => Ok(content),
        _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A file of a folder, at its first byte that is wanted. It stays readable if its folder is removed meanwhile.
fn open_range(folder: &Path, name: &str, offset: u64, size: u64) -> Result<File, ServiceError> {
    let is_plain = Path::new(name).file_name().is_some_and(|plain| plain == name);
    if !is_plain || name.starts_with('.') {
        return Err(FieldError::quoted("file", name, "the name of a file of these weights").into());
    }
    let path = folder.join(name);
    let mut file = open(&path, u64::MAX).map_err(|_| ServiceError::NotFound { what: format!("file `{name}`") })?;
    let length = file.metadata().map_err(|error| ServiceError::file(path.display(), &error))?.len();
    let end = offset.checked_add(size).filter(|&end| size > 0 && end <= length);
    if end.is_none() {
        let allowed = format!("1 to {} from offset {offset}: the file has {length}", length.saturating_sub(offset));
        return Err(FieldError::new("size_bytes", size, allowed).into());
    }
    file.seek(SeekFrom::Start(offset)).map_err(|error| ServiceError::file(path.display(), &error))?;
    Ok(file)
}

/// Reads all files of a published version once.
fn describe(path: &Path, digest: &str) -> Result<WeightsDescribeResponse, ServiceError> {
    let damaged = |error: &dyn std::fmt::Display| ServiceError::DataLoss {
        message: format!("published weights in {}: {error}", path.display()),
    };
    let folder = Folder::new(path);
    let weights = WeightFiles::read(&folder).map_err(|error| damaged(&error))?;
    let mut parts: BTreeMap<String, Vec<(u64, u64, String)>> = BTreeMap::new();
    for (tensor, stored) in weights.tensors().map_err(|error| damaged(&error))? {
        let file = stored.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        parts.entry(file).or_default().push((stored.offset, stored.bytes, tensor));
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| damaged(&error))? {
        let name = entry.map_err(|error| damaged(&error))?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let files = in_parallel(&names, |name| file(path, name, parts.get(name).map_or(&[][..], Vec::as_slice)));
    let files = files.into_iter().collect::<std::io::Result<Vec<_>>>().map_err(|error| damaged(&error))?;
    let digests = files.iter().map(|file| {
        let sha256 = file.digest.trim_start_matches("sha256:").to_owned();
        (file.name.as_str(), FileDigest { bytes: file.size_bytes, sha256 }, parts.contains_key(&file.name))
    });
    let found = weights_digest_among(digests);
    if found != digest {
        return Err(damaged(&format_args!("their digest is {found}, the marker has {digest}")));
    }
    Ok(WeightsDescribeResponse { files })
}

/// What `work` makes of each, on all processors.
fn in_parallel<T: Send>(names: &[String], work: impl Fn(&str) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(names.len()).max(1);
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let run = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(name) = names.get(at) else { return done };
                done.push((at, work(name)));
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        joined.flatten().collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

/// Reads a file once for the digests of the whole and of its tensors, which are where `tensors` say: offset, bytes and
/// name.
fn file(folder: &Path, name: &str, tensors: &[(u64, u64, String)]) -> std::io::Result<WeightsFile> {
    let mut tensors = tensors.to_vec();
    tensors.sort();
    let mut file = open(&folder.join(name), u64::MAX)?;
    let length = file.metadata()?.len();
    // What lies before, between and behind tensors is a part as well; tensors that overlap do not exist in files that
    // are written here.
    let mut ranges = Vec::new();
    let mut end = 0;
    for (offset, bytes, tensor) in tensors.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        if offset < end || offset.saturating_add(bytes) > length {
            return Err(std::io::Error::other(format!("tensor `{tensor}` of {name} is not apart from others")));
        }
        if offset > end {
            ranges.push((offset - end, String::new()));
        }
        ranges.push((bytes, tensor));
        end = offset + bytes;
    }
    if end < length {
        ranges.push((length - end, String::new()));
    }
    let mut whole = FileHasher::default();
    let mut parts = Vec::new();
    let mut buffer = vec![0; CHUNK];
    for (bytes, tensor) in ranges {
        let mut part = FileHasher::default();
        let mut left = bytes;
        while left > 0 {
            let chunk = &mut buffer[..usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))];
            file.read_exact(chunk)?;
            whole.update(chunk);
            part.update(chunk);
            left -= chunk.len() as u64;
        }
        parts.push(WeightsPart { tensor, size_bytes: bytes, digest: part.finish().to_string() });
    }
    Ok(WeightsFile { name: name.to_owned(), size_bytes: length, digest: whole.finish().to_string(), parts })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use evenkeel_rpc::error::has_reason;

    use super::*;

    /// A reader takes `read` messages of a file of many, and waits for what the sender says in the end.
    async fn sent_to_a_reader_of(read: usize) -> Result<(), Status> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 3 * CHUNK]).unwrap();
        file.rewind().unwrap();
        let (sender, mut receiver) = mpsc::channel(1);
        let runtime = Handle::current();
        let sending = tokio::task::spawn_blocking(move || {
            send(file.take(3 * CHUNK as u64), &sender, &runtime, Duration::from_millis(20))
        });
        for _ in 0..read {
            receiver.recv().await.unwrap().unwrap();
        }
        sending.await.unwrap()
    }

    #[tokio::test]
    async fn a_reader_that_reads_nothing_is_given_up_with_the_reason() {
        assert!(sent_to_a_reader_of(2).await.is_ok());
        let status = sent_to_a_reader_of(0).await.unwrap_err();
        assert!(has_reason(&status, Reason::ResponsesUnread), "{status}");
    }
}
