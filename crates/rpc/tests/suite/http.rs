//! Ports that speak HTTP/1: web pages, silent connections, bodies that do not come.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use evenkeel_rpc::server::{HttpLimits, HttpPort, allow_hosts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{Setup, bounded};

const SHORT: Duration = Duration::from_millis(50);

/// Serves `GET /` and `POST /` until the guard is dropped.
async fn serve(listen: &str, connections: usize, limits: HttpLimits, has_probes: bool) -> (SocketAddr, DropGuard) {
    let listener = TcpListener::bind(listen).await.unwrap();
    let mut address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(async || "served")).route("/", post(async |body: Bytes| body));
    let probes = has_probes.then(|| Router::new().fallback(async || "a probe"));
    let stop = CancellationToken::new();
    let listen = "trainer:8000".to_owned();
    let port = HttpPort { listener, listen, router, probes, tls: None, connections, limits };
    tokio::spawn(port.serve(stop.clone()));
    address.set_ip([127, 0, 0, 1].into());
    (address, stop.drop_guard())
}

async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Everything until the connection is closed.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn status(address: SocketAddr, headers: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    rest(send(address, &request).await).await.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn on_loopback_a_foreign_name_is_refused_and_an_origin_everywhere() {
    bounded(async {
        let (local, _stop) = serve("127.0.0.1:0", 9, HttpLimits::default(), false).await;
        for own in ["Host: 127.0.0.1:1\r\n", "Host: localhost\r\n", "Host: trainer:8000\r\n", "Host: [::1]:1\r\n"] {
            assert_eq!(status(local, own).await, "200", "{own}");
            let with_origin = format!("{own}Origin: http://localhost\r\n");
            assert_eq!(status(local, &with_origin).await, "403", "{with_origin}");
        }
        for foreign in ["Host: evil.example:8000\r\n", "Host: localhost.evil.example\r\n"] {
            assert_eq!(status(local, foreign).await, "403", "{foreign}");
        }
        assert_eq!(status(local, "").await, "200", "a probe, since browsers send a Host");
        let (everywhere, _stop) = serve("0.0.0.0:0", 9, HttpLimits::default(), false).await;
        assert_eq!(status(everywhere, "Host: generation\r\n").await, "200");
        assert_eq!(status(everywhere, "Host: generation\r\nOrigin: null\r\n").await, "403");
    })
    .await;
}

#[tokio::test]
async fn a_name_that_the_process_allows_is_served_and_no_page_under_it() {
    bounded(async {
        allow_hosts("--hosts", &["proxy.example".to_owned()]).unwrap();
        let (local, _stop) = serve("127.0.0.1:0", 9, HttpLimits::default(), false).await;
        for (headers, expected) in [
            ("Host: proxy.example\r\n", "200"),
            ("Host: Proxy.example:8443\r\n", "200"),
            ("Host: proxy.example\r\nOrigin: https://proxy.example\r\n", "403"),
            ("Host: a.proxy.example\r\n", "403"),
            ("Host: evil.example\r\n", "403"),
        ] {
            assert_eq!(status(local, headers).await, expected, "{headers}");
        }
    })
    .await;
}

#[tokio::test]
async fn metrics_on_loopback_are_not_for_web_pages() {
    bounded(async {
        let (server, _reward) = Setup::default().bind("worker").await;
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let _running = server.with_metrics("--metrics", &free.to_string()).await.unwrap().spawn();
        assert_eq!(status(free, "Host: evil.example\r\n").await, "403");
        assert_eq!(status(free, "Host: localhost\r\nOrigin: http://evil.example\r\n").await, "403");
        assert_eq!(status(free, "Host: localhost\r\n").await, "404", "the path is another");
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_a_request_ends_before_one_that_had_one() {
    bounded(async {
        let limits = HttpLimits { header: SHORT, ..HttpLimits::default() };
        let (address, _stop) = serve("127.0.0.1:0", 9, limits, false).await;
        for sent in ["", "GET / HTTP/1.1\r\nHost: localhost\r\nX: "] {
            assert!(!rest(send(address, sent).await).await.contains("200"), "{sent:?}");
        }
        let mut kept = send(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let mut first = [0; 12];
        kept.read_exact(&mut first).await.unwrap();
        tokio::time::sleep(3 * SHORT).await;
        kept.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        assert_eq!(rest(kept).await.matches("served").count(), 2, "the connection is kept");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_idle_after_its_request_ends_as_well() {
    bounded(async {
        let limits = HttpLimits { header: SHORT, idle: SHORT, ..HttpLimits::default() };
        let (address, _stop) = serve("127.0.0.1:0", 9, limits, false).await;
        let kept = send(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(rest(kept).await.contains("served"));
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_and_one_that_comes_is_not() {
    bounded(async {
        let limits = HttpLimits { body: SHORT, ..HttpLimits::default() };
        let (address, _stop) = serve("127.0.0.1:0", 9, limits, false).await;
        let post = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\n";
        let answer = rest(send(address, &format!("{post}a")).await).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("not received within 50 ms"), "{answer}");
        assert!(rest(send(address, &format!("{post}abcd")).await).await.ends_with("abcd"));
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_or_get_probes() {
    bounded(async {
        let limits = HttpLimits { header: 10 * SHORT, ..HttpLimits::default() };
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        for (has_probes, expected) in [(false, "served"), (true, "a probe")] {
            let (address, _stop) = serve("127.0.0.1:0", 1, limits, has_probes).await;
            let _silent = send(address, "GET").await;
            let mut answer = Box::pin(rest(send(address, request).await));
            let soon = tokio::time::timeout(SHORT, &mut answer).await;
            assert_eq!(soon.is_ok(), has_probes, "without probes it waits for the silent connection");
            let answer = match soon {
                Ok(answer) => answer,
                Err(_) => answer.await,
            };
            assert!(answer.ends_with(expected), "{answer}");
        }
    })
    .await;
}
