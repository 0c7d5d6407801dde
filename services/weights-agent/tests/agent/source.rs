//! A learner that publishes, and whose streams are cut, silent or damaged as a test says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_host::{FileDigest, sha256};
use evenkeel_model_folder::weights_digest_of;
use evenkeel_proto::v1::weights_server::{Weights, WeightsServer};
use evenkeel_proto::v1::{
    PullRequest, WeightsDescribeRequest, WeightsDescribeResponse, WeightsFile, WeightsPart, WeightsReadRequest,
    WeightsReadResponse,
};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// Bytes in one message.
pub(crate) const CHUNK: usize = 16 << 10;

/// What becomes of a call for bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransferFault {
    /// The call breaks after this number of bytes.
    Cut(usize),
    /// The call ends after this number of bytes, as if that were all.
    End(usize),
    /// The call stalls after this number of bytes.
    Silence(usize),
    /// The byte at this offset of the file, if the call has it, is another.
    Damage(u64),
}

#[derive(Clone)]
pub(crate) struct Published {
    pub(crate) version: u64,
    pub(crate) digest: String,
    /// The digest of all files, as the learner tells it in its answer to who had it publish.
    pub(crate) files_digest: String,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) description: WeightsDescribeResponse,
}

#[derive(Default)]
struct FakeLearnerState {
    published: Mutex<Vec<Published>>,
    faults: Mutex<VecDeque<TransferFault>>,
    pause: Mutex<Duration>,
    sent: AtomicU64,
    calls: AtomicUsize,
}

pub(crate) struct FakeLearner {
    state: Arc<FakeLearnerState>,
    pub(crate) server: RunningServer,
}

impl FakeLearner {
    pub(crate) async fn start() -> Self {
        Self::with(ServerSettings::default()).await
    }

    pub(crate) async fn with(settings: ServerSettings) -> Self {
        let state = Arc::new(FakeLearnerState::default());
        let server = Server::bind("learner", "server", settings).await.unwrap();
        let server = server.with_service(WeightsServer::new(Service(Arc::clone(&state)))).spawn();
        Self { state, server }
    }

    pub(crate) fn endpoint(&self) -> String {
        self.server.endpoint().to_owned()
    }

    /// Publishes tensors, each with its number of equal bytes, in two files.
    pub(crate) fn publish(&self, version: u64, tensors: &[(&str, u8, usize)]) -> Published {
        let (first, second) = tensors.split_at(tensors.len() / 2);
        let mut files = BTreeMap::new();
        let mut described = Vec::new();
        for (name, tensors) in [("model-00001.safetensors", first), ("model-00002.safetensors", second)] {
            let (bytes, file) = safetensors(name, tensors);
            files.insert(name.to_owned(), bytes);
            described.push(file);
        }
        let digests = described.iter().map(|file| {
            let sha256 = file.digest.trim_start_matches("sha256:").to_owned();
            (file.name.clone(), FileDigest { bytes: file.size_bytes, sha256 })
        });
        let digest = weights_digest_of(digests.collect::<Vec<_>>());
        let marker = serde_json::json!({ "version": version, "digest": digest }).to_string();
        for (name, text) in [("config.json", "{}".to_owned()), ("evenkeel-version.json", marker)] {
            described.push(plain(name, &text));
            files.insert(name.to_owned(), text.into_bytes());
        }
        described.sort_by(|a, b| a.name.cmp(&b.name));
        let description = WeightsDescribeResponse { files: described };
        let of_file = |(name, bytes): (&String, &Vec<u8>)| format!("{name}\0{}\n", &sha256(bytes)["sha256:".len()..]);
        let files_digest = sha256(files.iter().map(of_file).collect::<String>());
        let published = Published { version, digest, files_digest, files, description };
        self.state.published.lock().unwrap().push(published.clone());
        published
    }

    /// Says something else of a version from now on.
    pub(crate) fn say(&self, version: u64, change: impl FnOnce(&mut Published)) {
        let mut published = self.state.published.lock().unwrap();
        change(published.iter_mut().find(|published| published.version == version).unwrap());
    }

    pub(crate) fn remove(&self, version: u64) {
        self.state.published.lock().unwrap().retain(|published| published.version != version);
    }

    /// The next calls for bytes go wrong like this, one after the other.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = TransferFault>) {
        self.state.faults.lock().unwrap().extend(faults);
    }

    pub(crate) fn pause(&self, pause: Duration) {
        *self.state.pause.lock().unwrap() = pause;
    }

    /// Bytes that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// Number of calls for bytes.
    pub(crate) fn calls(&self) -> usize {
        self.state.calls.load(Ordering::SeqCst)
    }
}

impl Published {
    /// The request of somebody who knows what was published.
    pub(crate) fn request(&self) -> PullRequest {
        let Self { version, digest, files_digest, .. } = self.clone();
        PullRequest { version, digest, files_digest }
    }

    /// Puts another file in the place of one, or beside the others, and describes it truly.
    pub(crate) fn plant(&mut self, name: &str, text: &str) {
        self.files.insert(name.to_owned(), text.into());
        self.description.files.retain(|file| file.name != name);
        self.description.files.push(plain(name, text));
    }

    pub(crate) fn size(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }
}

fn part(tensor: &str, bytes: &[u8]) -> WeightsPart {
    WeightsPart { tensor: tensor.to_owned(), size_bytes: bytes.len() as u64, digest: sha256(bytes) }
}

fn plain(name: &str, text: &str) -> WeightsFile {
    let parts = vec![part("", text.as_bytes())];
    WeightsFile { name: name.to_owned(), size_bytes: text.len() as u64, digest: sha256(text), parts }
}

fn safetensors(name: &str, tensors: &[(&str, u8, usize)]) -> (Vec<u8>, WeightsFile) {
    let mut end = 0;
    let entries = tensors.iter().map(|(tensor, _, size)| {
        let begin = end;
        end += size;
        format!(r#""{tensor}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{begin},{end}]}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    let mut parts = vec![part("", &bytes)];
    for (tensor, value, size) in tensors {
        let content = vec![*value; *size];
        parts.push(part(tensor, &content));
        bytes.extend_from_slice(&content);
    }
    let file = WeightsFile { name: name.to_owned(), size_bytes: bytes.len() as u64, digest: sha256(&bytes), parts };
    (bytes, file)
}

struct Service(Arc<FakeLearnerState>);

impl Service {
    fn find(&self, version: u64, digest: &str) -> Result<Published, ServiceError> {
        let published = self.0.published.lock().unwrap();
        let found =
            published.iter().find(|published| (published.version, published.digest.as_str()) == (version, digest));
        found.cloned().ok_or_else(|| ServiceError::Precondition {
            reason: Reason::WeightsGone,
            message: format!("version {version} is not published, or not any more"),
        })
    }
}

#[tonic::async_trait]
impl Weights for Service {
    type ReadStream = ReceiverStream<Result<WeightsReadResponse, Status>>;

    async fn describe(
        &self,
        request: Request<WeightsDescribeRequest>,
    ) -> Result<Response<WeightsDescribeResponse>, Status> {
        let request = request.into_inner();
        Ok(Response::new(self.find(request.version, &request.digest)?.description))
    }

    async fn read(&self, request: Request<WeightsReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let published = self.find(request.version, &request.digest)?;
        let begin = request.offset as usize;
        let size = request.size_bytes as usize;
        let mut content = published.files[&request.file][begin..begin + size].to_vec();
        let fault = self.0.faults.lock().unwrap().pop_front();
        if let Some(TransferFault::Damage(at)) = fault
            && let Some(byte) = (at as usize).checked_sub(begin).and_then(|at| content.get_mut(at))
        {
            *byte ^= 1;
        }
        let most = match fault {
            Some(TransferFault::Cut(most) | TransferFault::End(most) | TransferFault::Silence(most)) => most.min(size),
            _ => size,
        };
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let (sender, receiver) = tokio::sync::mpsc::channel(2);
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            for chunk in content[..most].chunks(CHUNK) {
                let message = WeightsReadResponse { content: chunk.to_vec().into() };
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
                state.sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
                let pause = *state.pause.lock().unwrap();
                tokio::time::sleep(pause).await;
            }
            match fault {
                Some(TransferFault::Cut(_)) => {
                    drop(sender.send(Err(Status::unavailable("the connection broke"))).await)
                }
                Some(TransferFault::Silence(_)) => sender.closed().await,
                _ => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
