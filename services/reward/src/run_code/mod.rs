//! Programs over HTTP, as SandboxFusion serves them: what verl's and SandboxFusion's own clients send to `/run_code`,
//! and what they expect.
//!
//! Those clients count a fault of the sandbox as a wrong answer, and try again only after some statuses: verl's after
//! 504, SandboxFusion's after all but 200. So a request waits rather than being refused, and what is no fault of the
//! program (a busy machine, a lost process) is 504, shortly before its client gives up.

mod program;
mod reply;
mod request;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use evenkeel_rpc::server::HttpTokenAuth;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::settings::HttpSettings;
use crate::verifier::Verifier;
use program::run;
use reply::{Refused, Reply};
use request::RunCode;

/// Time limit for receiving a request, and for the room for one.
const RECEIVE: Duration = Duration::from_secs(20);
/// Memory is counted in these.
const UNIT_BYTES: u64 = 1 << 10;

/// The API, described for people and programs.
const OPENAPI: &str = include_str!("openapi.json");
const PAGE: &str = include_str!("page.html");

/// What all requests share.
struct Service {
    verifier: Arc<Verifier>,
    settings: HttpSettings,
    worker: String,
    memory: Arc<Semaphore>,
}

pub(crate) fn router(verifier: Arc<Verifier>, settings: HttpSettings, worker: String, auth: HttpTokenAuth) -> Router {
    let memory = Arc::new(Semaphore::new(units(settings.max_memory.bytes()) as usize));
    let service = Arc::new(Service { verifier, settings, worker, memory });
    Router::new()
        .route("/run_code", post(run_code))
        .layer(from_fn_with_state(auth, HttpTokenAuth::guard))
        .route("/v1/ping", get(async || json("\"pong\"")))
        .route("/health", get(async || json(r#"{"status":"ok"}"#)))
        .route("/openapi.json", get(async || json(OPENAPI)))
        .route("/docs", get(async || Html(PAGE)))
        .fallback(async || Refused::not_found())
        .with_state(service)
}

fn json(text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text)
}

async fn run_code(State(service): State<Arc<Service>>, headers: HeaderMap, body: Body) -> Response {
    let answered = service.answer(&headers, body).await;
    let status = match &answered {
        Ok(reply) => reply.status(),
        Err(refused) => refused.label(),
    };
    metrics::counter!("evenkeel_run_code_total", "status" => status).increment(1);
    answered.map_or_else(IntoResponse::into_response, IntoResponse::into_response)
}

impl Service {
    async fn answer(&self, headers: &HeaderMap, body: Body) -> Result<Reply, Refused> {
        let began = Instant::now();
        let late = || Refused::late("the request was not received in time");
        let received = tokio::time::timeout(RECEIVE, self.receive(headers, body)).await;
        let (_memory, bytes) = received.map_err(|_| late())??;
        let request = RunCode::read(&bytes)?;
        drop(bytes);
        if let Some(unserved) = request.unserved() {
            return Ok(Reply::sandbox_error(unserved, &self.worker));
        }
        let until = began + request.client_timeout(self.settings.client_margin);
        run(&self.verifier, request, &self.settings, until, &self.worker).await
    }

    /// The body, once there is memory for it.
    async fn receive(&self, headers: &HeaderMap, body: Body) -> Result<(OwnedSemaphorePermit, Bytes), Refused> {
        let max = self.settings.max_body.bytes();
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let length: u64 = announced.unwrap_or(max);
        if length > max {
            return Err(Refused::too_large(length, max));
        }
        let memory = Arc::clone(&self.memory).acquire_many_owned(units(length)).await;
        let memory = memory.map_err(|_| Refused::late("the server is shutting down"))?;
        let bytes = to_bytes(body, usize::try_from(length).unwrap_or(usize::MAX)).await;
        Ok((memory, bytes.map_err(|error| Refused::unreadable(&error.to_string()))?))
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX >> 3)
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { status, detail, .. } = self;
        let body = serde_json::json!({ "detail": detail }).to_string();
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self) {
            Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
            // Texts and numbers can be written.
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}
