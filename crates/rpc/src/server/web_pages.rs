//! Requests that the pages of web sites have browsers make. No client of these ports is a page.
//!
//! A page may send a request to any address that its reader's machine reaches, this machine included. It cannot read
//! the answer, but the request has been served by then. Browsers name the page's site in the header `Origin` of each
//! request that could change something. A site that points a name of its own at this machine could read answers, too:
//! see [`Hosts`].

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HOST, ORIGIN};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use super::Hosts;

const FOREIGN_HOST: &str = "the Host header is refused on this loopback port, allowed: an address, localhost, the name it listens on, or one of `--hosts`\n";
const FROM_A_PAGE: &str = "a request with an Origin header is refused, allowed: clients that are not web pages\n";

/// Refuses such requests with 403. `address` is the bound one; `listen`, the `HOST:PORT` of the settings, may name it.
pub(super) fn refuse_web_pages(router: Router, address: SocketAddr, listen: &str) -> Router {
    // Beyond loopback the port has whatever names the network gives it.
    let hosts = address.ip().to_canonical().is_loopback().then(|| Hosts::new(listen, &[]));
    router.layer(from_fn_with_state(hosts, guard))
}

async fn guard(State(hosts): State<Option<Hosts>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if headers.contains_key(ORIGIN) {
        return (StatusCode::FORBIDDEN, FROM_A_PAGE).into_response();
    }
    // Browsers always send one; probes over HTTP/1.0 send none.
    if hosts.is_some_and(|hosts| headers.contains_key(HOST) && !hosts.include(headers.get(HOST))) {
        return (StatusCode::FORBIDDEN, FOREIGN_HOST).into_response();
    }
    next.run(request).await
}
