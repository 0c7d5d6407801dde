//! The chat endpoint of a worker: `POST /v1/chat/completions` on loopback, below a name of its own for each episode.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use evenkeel_proto::v1::EpisodeFailure;
use evenkeel_rpc::server::{HttpLimits, HttpPort};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer::{ChatAnswer, json_of, refusal};
use super::request::ChatRequest;
use crate::failure::Failure;

/// Longest request, in bytes.
const MAX_BODY: usize = 8 << 20;
/// Longest body that is read to its end, so that its client learns why it is refused.
const MAX_READ: usize = 64 << 20;
/// Requests of one episode that wait. They are answered one after the other.
const MAX_WAITING: usize = 64;
const CONNECTIONS: usize = 8192;
/// Limits of a connection. Clients keep theirs open.
const LIMITS: HttpLimits = HttpLimits {
    header: Duration::from_secs(300),
    handshake: Duration::from_secs(15),
    unread: Duration::from_secs(60),
    buffer: 64 << 10,
};

/// A request that is held until it is answered. Dropping it says that the episode is over.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: ChatRequest,
    pub(super) reply: oneshot::Sender<ChatAnswer>,
}

/// Where the requests of each open episode go.
type Desks = Mutex<HashMap<String, mpsc::Sender<Asked>>>;

/// The endpoint, until it is dropped.
pub(crate) struct Endpoint {
    address: SocketAddr,
    desks: Arc<Desks>,
    _stop: DropGuard,
}

/// Where the requests of one episode arrive, until it is dropped.
pub(super) struct Desk {
    name: String,
    address: SocketAddr,
    desks: Arc<Desks>,
    asked: mpsc::Receiver<Asked>,
}

impl Endpoint {
    /// Takes a port on loopback and serves it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) async fn start() -> std::io::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let desks = Arc::<Desks>::default();
        let stop = CancellationToken::new();
        let router = Router::new()
            .route("/{episode}/v1/chat/completions", post(complete))
            .route("/{episode}/v1/models", get(models))
            .fallback(async || refusal(StatusCode::NOT_FOUND, "there is no such route here", None))
            .layer(DefaultBodyLimit::max(MAX_READ))
            .with_state(Arc::clone(&desks));
        let port = HttpPort { listener, router, tls: None, connections: CONNECTIONS, limits: LIMITS };
        tokio::spawn(port.serve(stop.clone()));
        Ok(Arc::new(Self { address, desks, _stop: stop.drop_guard() }))
    }

    /// A place for the requests of an episode, under a name that nobody else knows.
    ///
    /// # Errors
    /// A system without random numbers.
    pub(super) fn open(&self) -> Result<Desk, Failure> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failure::new(EpisodeFailure::Internal, format!("no random numbers: {error}")))?;
        let name = evenkeel_host::hex(&bytes);
        let (sender, asked) = mpsc::channel(MAX_WAITING);
        lock(&self.desks).insert(name.clone(), sender);
        Ok(Desk { name, address: self.address, desks: Arc::clone(&self.desks), asked })
    }
}

impl Desk {
    /// The base URL of the episode, as clients of OpenAI's API take it.
    pub(super) fn base_url(&self) -> String {
        format!("http://{}/{}/v1", self.address, self.name)
    }

    /// The next request whose client waits.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            match self.asked.recv().await {
                Some(asked) if asked.reply.is_closed() => {}
                Some(asked) => return asked,
                // Not before this desk is gone.
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        lock(&self.desks).remove(&self.name);
    }
}

fn lock(desks: &Desks) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Asked>>> {
    desks.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown() -> Response {
    refusal(StatusCode::NOT_FOUND, "there is no such episode, or it is over", None)
}

async fn models(State(desks): State<Arc<Desks>>, Path(episode): Path<String>) -> Response {
    if !lock(&desks).contains_key(&episode) {
        return unknown();
    }
    let model = json!({"id": "policy", "object": "model", "created": 0, "owned_by": "evenkeel"});
    json_of(StatusCode::OK, &json!({"object": "list", "data": [model]}))
}

async fn complete(
    State(desks): State<Arc<Desks>>,
    Path(episode): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Some(desk) = lock(&desks).get(&episode).cloned() else { return unknown() };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return refusal(rejection.status(), &rejection.body_text(), None),
    };
    if body.len() > MAX_BODY {
        let message = format!("the body is {} bytes, allowed: at most {MAX_BODY}", body.len());
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, &message, None);
    }
    let request = match ChatRequest::read(&body) {
        Ok(request) => request,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string(), Some(&error.field)),
    };
    drop(body);
    let (reply, answer) = oneshot::channel();
    match desk.try_send(Asked { request: request.clone(), reply }) {
        Ok(()) => {}
        Err(mpsc::error::TrySendError::Full(_)) => {
            let message = format!("{MAX_WAITING} requests of the episode wait for an answer");
            return refusal(StatusCode::TOO_MANY_REQUESTS, &message, None);
        }
        Err(mpsc::error::TrySendError::Closed(_)) => return unknown(),
    }
    drop(desk);
    match answer.await {
        Ok(answer) => answer.response(&request),
        Err(_) => unknown(),
    }
}
