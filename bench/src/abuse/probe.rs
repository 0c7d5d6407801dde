//! Health checks on new connections, as an orchestrator of containers makes them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::load::Latencies;
use super::wire::{self, Failed};

const PERIOD: Duration = Duration::from_secs(2);
/// As long as a probe of Kubernetes is usually given.
const TIMEOUT: Duration = Duration::from_secs(5);
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) async fn run(servers: &[&str], time: Duration) -> Result<Value, Failed> {
    let mut tasks = Vec::new();
    for server in servers {
        let (name, address) = server.split_once('=').ok_or("a server is NAME=ADDRESS or NAME=ADDRESS/PATH")?;
        let (address, path) =
            address.split_once('/').map_or((address, None), |(at, path)| (at, Some(format!("/{path}"))));
        let name: String = name.to_owned();
        let address: SocketAddr = address.parse()?;
        tasks.push(tokio::spawn(async move { (name, look_after(address, path.as_deref(), time).await) }));
    }
    let mut lines = BTreeMap::new();
    for task in tasks {
        let (name, line) = task.await?;
        lines.insert(name, line);
    }
    Ok(json!(lines))
}

async fn look_after(address: SocketAddr, path: Option<&str>, time: Duration) -> Value {
    let end = Instant::now() + time;
    let mut latencies = Latencies::default();
    let mut failures = Vec::new();
    let mut failed = 0;
    while Instant::now() < end {
        let begun = Instant::now();
        let probe = async {
            match path {
                None => grpc(address).await,
                Some(path) => http(address, path).await,
            }
        };
        let failure = match tokio::time::timeout(TIMEOUT, probe).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        match failure {
            None => latencies.add(begun.elapsed()),
            Some(failure) => {
                failed += 1;
                failures.push(failure);
                failures.truncate(10);
            }
        }
        tokio::time::sleep_until(begun + PERIOD).await;
    }
    json!({ "failed": failed, "failures": failures, "latency": latencies.line() })
}

async fn grpc(address: SocketAddr) -> Result<(), Failed> {
    let channel = wire::channel(HOME, address).await?;
    let (code, answer) = wire::unary(&channel, "/grpc.health.v1.Health/Check", wire::framed(&[])).await?;
    // Field 1 is SERVING.
    if code == "Ok" && answer == Bytes::from_static(&[8, 1]) {
        Ok(())
    } else {
        Err(format!("{code} {answer:?}").into())
    }
}

async fn http(address: SocketAddr, path: &str) -> Result<(), Failed> {
    let mut stream = wire::tcp(HOME, address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer).await?;
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    if line.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("{line:?}").into()) }
}
