//! The chat endpoint of a worker: `POST /v1/chat/completions` on loopback, below a name of its own for each episode.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use evenkeel_proto::v1::EpisodeFailure;
use evenkeel_rpc::server::{HttpLimits, HttpPort, ReceivedBody, read_up_to};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer::{ChatAnswer, json_of, refusal};
use super::request::ChatRequest;
use crate::failure::Failure;

/// Longest request, in bytes.
const MAX_BODY: usize = 8 << 20;
/// Requests of one episode that wait. They are answered one after the other.
const MAX_WAITING: usize = 64;
const CONNECTIONS: usize = 8192;

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
            .with_state(Arc::clone(&desks));
        let listen = address.to_string();
        let limits = HttpLimits::default();
        let port = HttpPort { listener, listen, router, probes: None, tls: None, connections: CONNECTIONS, limits };
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

async fn complete(State(desks): State<Arc<Desks>>, Path(episode): Path<String>, body: Body) -> Response {
    let Some(desk) = lock(&desks).get(&episode).cloned() else { return unknown() };
    // Before the body is read, so that an episode has only so many in memory.
    let place = match desk.try_reserve_owned() {
        Ok(place) => place,
        Err(mpsc::error::TrySendError::Full(_)) => {
            let message = format!("{MAX_WAITING} requests of the episode wait for an answer");
            return refusal(StatusCode::TOO_MANY_REQUESTS, &message, None);
        }
        Err(mpsc::error::TrySendError::Closed(_)) => return unknown(),
    };
    let body = match read_up_to(body, MAX_BODY).await {
        Ok(ReceivedBody::Whole(body)) => body,
        Ok(ReceivedBody::Longer { bytes, .. }) => {
            let message = format!("the body is {bytes} bytes, allowed: at most {MAX_BODY}");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &message, None);
        }
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string(), None),
    };
    let request = match ChatRequest::read(&body) {
        Ok(request) => request,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string(), Some(&error.field)),
    };
    drop(body);
    let (reply, answer) = oneshot::channel();
    drop(place.send(Asked { request: request.clone(), reply }));
    match answer.await {
        Ok(answer) => answer.response(&request),
        Err(_) => unknown(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// Sends the header of a request with a large body, and none of that.
    async fn announce(endpoint: &Endpoint, episode: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(endpoint.address).await.unwrap();
        let header = format!(
            "POST /{episode}/v1/chat/completions HTTP/1.1\r\nHost: {}\r\nContent-Length: 60000000\r\n{headers}\r\n",
            endpoint.address
        );
        stream.write_all(header.as_bytes()).await.unwrap();
        stream
    }

    async fn status(mut stream: TcpStream) -> String {
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        String::from_utf8_lossy(&line[9..]).into_owned()
    }

    #[tokio::test]
    async fn an_episode_that_is_not_known_is_refused_before_its_body() {
        let endpoint = Endpoint::start().await.unwrap();
        assert_eq!(status(announce(&endpoint, "unknown", "").await).await, "404");
    }

    #[tokio::test]
    async fn an_episode_has_so_many_requests_in_memory_also_before_their_bodies() {
        let endpoint = Endpoint::start().await.unwrap();
        let desk = endpoint.open().unwrap();
        let mut answers = tokio::task::JoinSet::new();
        for _ in 0..=MAX_WAITING {
            answers.spawn(status(announce(&endpoint, &desk.name, "").await));
        }
        assert_eq!(answers.join_next().await.unwrap().unwrap(), "429", "of one too many");
    }

    #[tokio::test]
    async fn web_pages_are_refused() {
        let endpoint = Endpoint::start().await.unwrap();
        let desk = endpoint.open().unwrap();
        let headers = "Origin: http://evil.example\r\n";
        assert_eq!(status(announce(&endpoint, &desk.name, headers).await).await, "403");
    }
}
