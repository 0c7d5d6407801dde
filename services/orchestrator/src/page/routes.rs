//! What the page answers to which path.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use evenkeel_charts::Live;
use evenkeel_rpc::server::{Hosts, HttpTokenAuth};
use evenkeel_run_report::{LineCursor, Whereabouts, encoded, run_update};

use super::follow::{self, RunReader};
use super::list::{self, RunsReader};
use super::shown::Runs;
use super::sse;
use crate::error::RunError;
use crate::live::doing;

/// Nothing but this server's own files and streams; nothing inline, and no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const SCRIPT: &str = "/page.js";
const STYLE: &str = "/page.css";
/// The answer to a request under a foreign name.
const REFUSAL: &str = "request this page by its address, as localhost, or by a name in `page.hosts`";

/// Runs that may be chosen at once.
const MAX_CHOSEN: usize = 64;

pub(super) fn router(runs: Arc<Runs>, hosts: Hosts, auth: HttpTokenAuth) -> Router {
    let text = |kind: &'static str, text: String| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    Router::new()
        .route("/", get(runs_page))
        .route("/events", get(list_events))
        .route("/run/{name}", get(run))
        .route("/run/{name}/events", get(run_events))
        .route("/run/{name}/lines", get(lines))
        .route(SCRIPT, text("text/javascript; charset=utf-8", include_str!("page.js").to_owned()))
        .route(STYLE, text("text/css; charset=utf-8", evenkeel_charts::style()))
        .layer(from_fn_with_state(auth, HttpTokenAuth::guard))
        .layer(from_fn_with_state(hosts, guard))
        .with_state(runs)
}

/// Refuses requests under a foreign name; and tells browsers what they may do with every answer.
async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = if hosts.include(request.headers().get(HOST)) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, REFUSAL).into_response()
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

type RunQuery = Query<Vec<(String, String)>>;

/// The runs that a query names.
fn chosen(Query(query): RunQuery) -> Vec<String> {
    query.into_iter().filter(|(key, _)| key == "run").map(|(_, name)| name).take(MAX_CHOSEN).collect()
}

async fn runs_page(State(shown): State<Arc<Runs>>, query: RunQuery) -> Response {
    let chosen = chosen(query);
    match list::page_of(&shown.list, &chosen).await {
        Ok(rendered) => {
            let query: Vec<String> = chosen.iter().map(|name| format!("run={}", encoded(name))).collect();
            let events = format!("/events?{}", query.join("&"));
            document(&rendered.page, &events)
        }
        Err(error) => failed(&error),
    }
}

async fn list_events(State(shown): State<Arc<Runs>>, query: RunQuery) -> Response {
    sse::respond(RunsReader::new(Arc::clone(&shown.list), chosen(query)))
}

async fn run(State(runs): State<Arc<Runs>>, Path(name): Path<String>) -> Response {
    let Some(directory) = runs.directory(&name) else { return unknown() };
    match follow::page_of(&runs.view(directory), runs.live(&name).as_ref()).await {
        Ok(rendered) => document(&rendered.page, &format!("/run/{}/events", encoded(&name))),
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
    let update = tokio::task::spawn_blocking(move || -> Result<String, RunError> {
        let at = match progress {
            Some(progress) => {
                Whereabouts { state: progress.state, doing: doing(&progress), total_steps: progress.total_steps }
            }
            None => Whereabouts::stored(&directory),
        };
        let update = run_update(&directory, at, since)?;
        serde_json::to_string(&update).map_err(|error| RunError::Defect(error.to_string()))
    });
    match update.await {
        Ok(Ok(update)) => ([(CONTENT_TYPE, "application/json")], update).into_response(),
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&RunError::Defect(error.to_string())),
    }
}

fn document(page: &evenkeel_charts::Page, events: &str) -> Response {
    Html(page.to_live_document(Live { script: SCRIPT, style: STYLE, events })).into_response()
}

fn unknown() -> Response {
    (StatusCode::NOT_FOUND, "there is no such run in this folder").into_response()
}

fn failed(error: &RunError) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}
