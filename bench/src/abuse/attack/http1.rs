//! HTTP/1 to the engine and to the ports of metrics.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Round;
use crate::abuse::wire::{self, Failed};

/// Headers that come a byte at a time.
pub(super) async fn slow(round: Round) -> Result<(), Failed> {
    let mut held = Vec::new();
    for index in 0..60 {
        let to = port(&round, index);
        held.push(wire::tcp(round.from, to).await?);
    }
    let header = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(1000));
    for byte in header.bytes().take(50) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut left = Vec::new();
        for mut stream in held {
            match stream.write_all(&[byte]).await {
                Ok(()) => left.push(stream),
                Err(_) => round.count("closed by the server"),
            }
        }
        held = left;
    }
    for _ in held {
        round.count("still open");
    }
    Ok(())
}

/// The engine twice as often as each of the others.
fn port(round: &Round, index: usize) -> SocketAddr {
    let metrics = &round.targets().metrics;
    if index.is_multiple_of(2) { round.targets().engine } else { metrics[index / 2 % metrics.len()] }
}

fn post(path: &str, length: usize, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
        Connection: close\r\n\r\n{body}"
    )
}

/// Requests that are too large, too deep, half there, or for what must not be had.
pub(super) async fn requests(round: Round) -> Result<(), Failed> {
    let whole = |path: &str, body: String| post(path, body.len(), &body);
    let completion = |change: serde_json::Value| {
        let mut body = json!({ "model": "a", "prompt": [5, 6], "max_tokens": 4 });
        if let (Some(body), serde_json::Value::Object(change)) = (body.as_object_mut(), change) {
            body.extend(change);
        }
        whole("/v1/completions", body.to_string())
    };
    let foreign = &round.targets().foreign_weights;
    let load = |path: &str| {
        let body =
            json!({ "method": "reload_weights", "kwargs": { "weights_path": path, "is_checkpoint_format": true } });
        whole("/collective_rpc", body.to_string())
    };
    let requests = [
        post("/v1/completions", 1 << 40, "{"),
        post("/v1/completions", 1000, "{\"model\""),
        whole("/v1/completions", "[".repeat(1_000_000)),
        whole("/v1/completions", format!("{{\"model\": \"{}\"}}", "\\u001b\\n".repeat(100_000))),
        completion(json!({ "max_tokens": u64::MAX, "n": 1_000_000 })),
        completion(json!({ "prompt": vec![u32::MAX; 10_000] })),
        completion(json!({ "temperature": 1e308, "top_p": -1, "seed": -1 })),
        completion(json!({ "logprobs": 1_000_000, "stop_token_ids": vec![1; 100_000] })),
        load("/etc"),
        load("/proc/self/root/etc"),
        load(&"/".repeat(100_000)),
        load(&foreign.to_string_lossy()),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(200_000)),
        format!("GET /health HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10_000)),
        "GET /health HTTP/9.9\r\n\r\n".to_owned(),
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n{"
            .to_owned(),
        "\0\0\0\0".to_owned(),
    ];
    for (index, request) in requests.iter().enumerate() {
        let to = if index < 12 { round.targets().engine } else { port(&round, index + round.number as usize) };
        let mut stream = wire::tcp(round.from, to).await?;
        // What is refused early is not read to its end.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = [0; 12];
        match tokio::time::timeout(Duration::from_secs(2), stream.read_exact(&mut answer)).await {
            Ok(Ok(_)) => round.count(&String::from_utf8_lossy(&answer)),
            Ok(Err(_)) => round.count("closed by the server"),
            Err(_) => round.count("not answered"),
        }
    }
    Ok(())
}
