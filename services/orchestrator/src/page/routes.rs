//! What the page answers to which path.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use evenkeel_report::Live;
use evenkeel_rpc::server::Gate;

use super::follow::{self, RunReader};
use super::runs::{self, RunsReader, encoded};
use super::shown::Runs;
use super::sse;
use crate::error::RunError;
use crate::run_update::{LineCursor, of_run};

/// Nothing but this server's own files and streams; nothing inline, and no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";
const SCRIPT: &str = "/page.js";
const STYLE: &str = "/page.css";

/// Runs that may be chosen at once.
const MOST_CHOSEN: usize = 64;

pub(super) fn router(runs: Arc<Runs>, gate: Gate) -> Router {
    let text = |kind: &'static str, text: String| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    Router::new()
        .route("/", get(list))
        .route("/events", get(list_events))
        .route("/run/{name}", get(run))
        .route("/run/{name}/events", get(run_events))
        .route("/run/{name}/lines", get(lines))
        .route(SCRIPT, text("text/javascript; charset=utf-8", include_str!("page.js").to_owned()))
        .route(STYLE, text("text/css; charset=utf-8", evenkeel_report::style()))
        .layer(from_fn_with_state(gate, Gate::guard))
        .layer(from_fn_with_state(Arc::clone(&runs), guard))
        .with_state(runs)
}

/// Refuses names of hosts on a loopback address, so that no web site can read the page by pointing its own name here; and tells browsers what
/// they may do with every answer.
async fn guard(State(runs): State<Arc<Runs>>, request: Request, next: Next) -> Response {
    let mut response = match is_own_host(request.headers()) || !runs.is_loopback {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "ask for this page by its address or as localhost").into_response(),
    };
    let fixed: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the request names this machine by `localhost` or by an address.
fn is_own_host(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

type Choice = Query<Vec<(String, String)>>;

/// The runs that a query names.
fn chosen(Query(query): Choice) -> Vec<String> {
    query.into_iter().filter(|(key, _)| key == "run").map(|(_, name)| name).take(MOST_CHOSEN).collect()
}

async fn list(State(shown): State<Arc<Runs>>, query: Choice) -> Response {
    let chosen = chosen(query);
    match runs::page_of(&shown.list, &chosen).await {
        Ok(made) => {
            let query: Vec<String> = chosen.iter().map(|name| format!("run={}", encoded(name))).collect();
            let events = format!("/events?{}", query.join("&"));
            document(&made.page, &events)
        }
        Err(error) => failed(&error),
    }
}

async fn list_events(State(shown): State<Arc<Runs>>, query: Choice) -> Response {
    sse::respond(RunsReader::new(Arc::clone(&shown.list), chosen(query)))
}

async fn run(State(runs): State<Arc<Runs>>, Path(name): Path<String>) -> Response {
    let Some(directory) = runs.directory(&name) else { return unknown() };
    match follow::page_of(&runs.view(directory), runs.live(&name).as_ref()).await {
        Ok(made) => document(&made.page, &format!("/run/{}/events", encoded(&name))),
        Err(error) => failed(&error),
    }
}

async fn run_events(State(runs): State<Arc<Runs>>, Path(name): Path<String>) -> Response {
    let Some(directory) = runs.directory(&name) else { return unknown() };
    sse::respond(RunReader::new(runs.view(directory), runs.live(&name)))
}

async fn lines(State(runs): State<Arc<Runs>>, Path(name): Path<String>, Query(since): Query<LineCursor>) -> Response {
    let Some(directory) = runs.directory(&name) else { return unknown() };
    runs.note_follower();
    let progress = runs.live(&name).map(|run| run.progress());
    let update = tokio::task::spawn_blocking(move || {
        let update = of_run(&directory, progress.as_ref(), since)?;
        serde_json::to_string(&update).map_err(|error| RunError::Defect(error.to_string()))
    });
    match update.await {
        Ok(Ok(update)) => ([(CONTENT_TYPE, "application/json")], update).into_response(),
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&RunError::Defect(error.to_string())),
    }
}

fn document(page: &evenkeel_report::Page, events: &str) -> Response {
    Html(page.to_live_document(Live { script: SCRIPT, style: STYLE, events })).into_response()
}

fn unknown() -> Response {
    (StatusCode::NOT_FOUND, "there is no such run in this folder").into_response()
}

fn failed(error: &RunError) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_addresses_and_one_name() {
        let of = |host: &str| is_own_host(&HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]));
        for own in ["127.0.0.1:8080", "localhost:1", "localhost", "[::1]:80", "192.0.2.1"] {
            assert!(of(own), "{own}");
        }
        for other in ["evil.example:8080", "localhost.evil.example", "", "[x]:1"] {
            assert!(!of(other), "{other}");
        }
    }
}
