//! Connections that take a place and do nothing with it.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::Round;
use crate::abuse::wire::{self, Failed};

/// More than a process of 1,024 descriptors can have.
const MANY: usize = 1_100;
const HOLD: Duration = Duration::from_secs(12);

/// Connections of which nothing comes.
pub(super) async fn idle(round: Round) -> Result<(), Failed> {
    let others = [round.targets().engine, round.targets().metrics[0]];
    let ports: Vec<_> = (0..4).map(|_| round.server()).chain(others).collect();
    let to = ports[(round.number as usize / 4) % ports.len()];
    let mut held = Vec::new();
    for _ in 0..MANY {
        match wire::tcp(round.from, to).await {
            Ok(stream) => held.push(stream),
            Err(_) => round.count("not connected"),
        }
    }
    round.count("so many");
    tokio::time::sleep(HOLD).await;
    Ok(())
}

/// Beginnings of TLS, HTTP/1 and HTTP/2 that do not go on.
pub(super) async fn half_begun(round: Round) -> Result<(), Failed> {
    const BEGINNINGS: [&[u8]; 6] = [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\x01\0\x01\0\0\0\0",
        b"POST / HTTP/1.1\r\nHost: a\r\n",
    ];
    let mut held = Vec::new();
    for index in 0..60 {
        let mut stream = wire::tcp(round.from, round.server()).await?;
        stream.write_all(BEGINNINGS[index % BEGINNINGS.len()]).await?;
        held.push(stream);
    }
    tokio::time::sleep(HOLD).await;
    Ok(())
}
